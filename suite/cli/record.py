"""`suite record`: keep an agent's own session while it works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput, MissingPrerequisite, SuiteError

if TYPE_CHECKING:
    from suite.record.sessions import Result


@click.command()
@click.option("--upstream", metavar="URL", help="The server to record, for example http://127.0.0.1:8000.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Where it is kept.")
@click.option("--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--name", default="recorded", show_default=True, help="The sessions are NAME-1, NAME-2, …")
@click.option(
    "--ask-token-ids",
    is_flag=True,
    help="Add return_token_ids to requests, so that vLLM returns its own token ids. Without it no byte is changed.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Model folder: put the server's token ids into the sessions.",
)
@click.option(
    "--chat-template", type=click.Path(path_type=Path), metavar="FILE", help="Jinja template that the server used."
)
@click.option("--quiet", "-q", is_flag=True, help="No line for each exchange.")
def record(
    upstream: str | None,
    out: Path,
    port: int,
    host: str,
    name: str,
    ask_token_ids: bool,
    tokenizer: Path | None,
    chat_template: Path | None,
    quiet: bool,
) -> None:
    """Stand between an agent and its OpenAI-compatible server, and keep what passes.

    Point the agent's base URL at the address shown; stop with Ctrl-C, and each run of the agent becomes a session file
    in DIR/sessions. Without --upstream the sessions are written again from what DIR already holds, for instance after
    a crash. API keys pass through and are never kept; all else is, so DIR is private: see `suite workload scrub`.
    """
    import re

    from suite.cli.workload import read_template

    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,69}", name):
        raise InvalidInput("lower-case letters, digits, `.`, `_` and `-` only", where="--name")
    if chat_template is not None and tokenizer is None:
        raise InvalidInput("needs --tokenizer", where="--chat-template", hint="give the model's folder")
    template = read_template(chat_template)
    if tokenizer is not None:
        from suite.workload.tokenizer import load_tokenizer

        load_tokenizer(tokenizer)  # here, because after the agent's work it is too late to find it wrong
    if upstream is not None:
        _serve(upstream, out, host, port, ask_token_ids, quiet)
    from suite.record.sessions import write_sessions

    _report(write_sessions(out, name=name), tokenizer, template)


def _serve(upstream: str, out: Path, host: str, port: int, ask_token_ids: bool, quiet: bool) -> None:
    try:
        from suite.record.server import is_loopback, listen, serve
    except ImportError as error:
        raise MissingPrerequisite(
            f"recording needs a package that is not installed ({error.name})",
            where="suite record",
            hint="pip install 'suite[record]'",
        ) from error
    from suite.record.upstream import Upstream

    target = Upstream.parse(upstream)
    with listen(host, port) as listener:
        address = listener.getsockname()[:2]
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        click.echo(f"recording {target.origin} to {out}", err=True)
        click.echo(f"point the agent at http://{shown}:{address[1]}/v1 and stop with Ctrl-C", err=True)
        if not is_loopback(host):
            click.echo("warning: other machines can reach this address, and whoever does is recorded too", err=True)
        counts = serve(target, out, listener, observer=_Lines(quiet=quiet), ask_token_ids=ask_token_ids)
    click.echo(
        f"\n{counts.recorded} exchanges recorded, {counts.cut} of them cut or refused, "
        f"{counts.passed} others passed on",
        err=True,
    )
    if counts.withheld:
        click.echo(f"{counts.withheld} exchanges held the agent's own API key in their text; it was withheld", err=True)
    if not counts.recorded:
        raise InvalidInput(
            "nothing was recorded",
            where=str(out),
            hint=f"the agent must use http://{shown}:{address[1]}/v1 as its base URL",
        )


class _Lines:
    """Prints notes and warnings as they come."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def phase(self, name: str, *, total: int | None = None, unit: str = "") -> None:
        """Nothing has phases here."""

    def advance(self, count: int) -> None:
        """Nothing is counted here."""

    def note(self, text: str) -> None:
        """One exchange."""
        if not self._quiet:
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Shown also when quiet."""
        click.echo(f"warning: {text}", err=True)


def _report(result: Result, tokenizer: Path | None, template: str | None) -> None:
    from suite.files import PRIVATE, write_atomic

    for one in result.written:
        session = one.built.session
        click.echo(f"{one.path}: {len(session.messages)} messages, {len(one.turns.turns)} recorded answers")
        for text in (*one.built.changes, *one.notes, *(f"missing: {item}" for item in one.built.missing)):
            click.echo(f"  {text}")
        if tokenizer is None:
            continue
        from suite.record.ids import with_recorded_ids

        try:
            session = with_recorded_ids(session, one.turns, tokenizer, chat_template=template)
        except SuiteError as error:
            click.echo(f"  no token ids in the session: {error.message}")
            continue
        write_atomic(one.path, session.to_json(), mode=PRIVATE)
        assert session.recorded is not None
        click.echo(f"  the server's {len(session.recorded.token_ids):,} token ids are in it")
    for problem in result.problems:
        click.echo(f"not in a session or not whole: {problem}", err=True)
    if not result.written:
        raise InvalidInput("no session could be made of the recording", hint="the lines above say why")
