"""`suite workload`: write, render and read sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.workload.rendered import Rendered

_TOKENIZER = click.option(
    "--tokenizer", type=click.Path(path_type=Path), metavar="DIR", help="Model folder that holds tokenizer.json."
)
_TEMPLATE = click.option(
    "--chat-template",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Jinja template in place of the model's own.",
)
_SESSION = click.argument("session", type=click.Path(path_type=Path))


# name -> (module that holds a command of that name, one line for the help): imported on first use.
MORE = {
    "import": ("suite.cli.workload_import", "Make sessions of what other programs kept."),
    "scrub": ("suite.cli.workload_scrub", "Replace what is private, everywhere the same."),
    "check": ("suite.cli.workload_check", "Show what the model really sees, and what is wrong with it."),
    "ranges": ("suite.cli.workload_ranges", "Choose ranges worth capturing whole, with their cost."),
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*MORE, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MORE:
            return super().get_command(ctx, cmd_name)
        import importlib

        command = importlib.import_module(MORE[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Group)
def workload() -> None:
    """Import, scrub, check, render, show and synthesize sessions."""


@workload.command()
@click.option("--tokens", "num_tokens", type=int, help="Length to reach, never to exceed; at least 2,000.")
@click.option("--episodes", metavar="NAME,NAME...", help="Just these episodes, in this order, instead of a length.")
@click.option("--seed", type=int, required=True, help="Decides what happens in the session.")
@_TOKENIZER
@_TEMPLATE
@click.option("--name", help="The session's name. [default: netops-lab-<thousands>k]")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Where to write it. [default: standard output]"
)
def synthesize(
    num_tokens: int | None,
    episodes: str | None,
    seed: int,
    tokenizer: Path | None,
    chat_template: Path | None,
    name: str | None,
    out: Path | None,
) -> None:
    """Write a synthetic network-operations session.

    Its length is measured with the tokenizer and template given, else estimated at 3 characters a token. It ends with
    an answer of the agent, at most 256 tokens short of --tokens. The text is off-policy: no model wrote it.
    """
    from suite.files import write_atomic
    from suite.workload.synthesize import build_session, token_counter
    from suite.workload.synthesize import synthesize as write_session

    if (num_tokens is None) == (episodes is None):
        raise InvalidInput("needs either a length or episodes", where="--tokens, --episodes")
    if chat_template and not tokenizer:
        raise InvalidInput("--chat-template needs --tokenizer", where="--chat-template")
    if episodes is not None and name is None:
        raise InvalidInput("a session of chosen episodes needs a name", where="--name")
    measure = token_counter(tokenizer, read_template(chat_template)) if tokenizer else None
    if episodes is None:
        assert num_tokens is not None
        session = write_session(num_tokens, seed, measure=measure, name=name)
    else:
        session = build_session(str(name), seed, episodes.split(","))
    if out is None:
        click.echo(session.to_json(), nl=False)
        return
    write_atomic(out, session.to_json())
    count = f"{measure(session):,} tokens" if measure else "length estimated without a tokenizer"
    click.echo(f"{out}: {len(session.messages)} messages, {count}")


@workload.command()
@_SESSION
@_TOKENIZER
@_TEMPLATE
@click.option("--json", "as_json", is_flag=True, help="Print the whole rendering as JSON.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the whole rendering as JSON.")
def render(session: Path, tokenizer: Path | None, chat_template: Path | None, as_json: bool, out: Path | None) -> None:
    """Render SESSION to token ids with spans, and count them."""
    from suite.files import write_atomic
    from suite.workload.render import render as render_session
    from suite.workload.session import load_session

    if tokenizer is None:
        raise InvalidInput("a tokenizer is needed", where="--tokenizer", hint="give the model's folder")
    rendered = render_session(load_session(session), tokenizer, chat_template=read_template(chat_template))
    if out is not None:
        write_atomic(out, rendered.to_json())
    if as_json:
        click.echo(rendered.to_json(), nl=False)
        return
    click.echo(summary(rendered))
    for flag in rendered.flags:
        click.echo(f"flag: message {flag.turn} ({flag.role}): {flag.text!r}: {flag.reason}", err=True)


@workload.command()
@_SESSION
def show(session: Path) -> None:
    """Print SESSION for reading."""
    from suite.workload.session import load_session
    from suite.workload.transcript import transcript

    loaded = load_session(session)
    source = loaded.provenance
    click.echo(f"{loaded.name}: {source.kind}, {source.generator}, licence {loaded.licence}")
    click.echo(f"{source.note}\n" if source.note else "")
    for line in transcript(loaded):
        click.echo(line)


@workload.command()
@click.argument("manifest", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Where to write the session."
)
@click.option("--name", help="The session's name. [default: that of the scripted session, with -rolled]")
@click.option("--tasks", type=click.IntRange(1), metavar="N", help="At most N messages of the person. [default: all]")
@click.option(
    "--turns", type=click.IntRange(1, 64), default=8, show_default=True, help="Turns of the agent for each of them."
)
@click.option(
    "--tokens", "num_tokens", type=click.IntRange(1), help="Length not to exceed. [default: the engine's context]"
)
@click.option(
    "--max-tokens", type=click.IntRange(1, 1 << 20), default=512, show_default=True, help="Longest turn in tokens."
)
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def roll(
    manifest: Path,
    out: Path,
    name: str | None,
    tasks: int | None,
    turns: int,
    num_tokens: int | None,
    max_tokens: int,
    quiet: bool,
) -> None:
    """Let the stack of MANIFEST play the agent in the simulated laboratory, and keep its own token ids.

    The result is an on-policy session: at every token of the assistant the stack itself wrote what is recorded. The
    person's messages come from the manifest's session. Calls are answered in memory; nothing is executed.
    """
    import threading

    from suite.cli.progress import Progress
    from suite.files import write_atomic
    from suite.run.captures import Store
    from suite.run.rolling import roll_stack
    from suite.run.stack import prepare_stack
    from suite.stack.home import require_writable, suite_home

    home, cancelled = suite_home(), threading.Event()
    require_writable(home)
    with Progress(quiet=quiet) as progress:
        observer = progress.line(manifest.stem)
        stack = prepare_stack(manifest, home=home, root=Path.cwd(), observer=observer, cancelled=cancelled)
        rolled = roll_stack(
            stack,
            name=name or f"{stack.lock.workload.name}-rolled",
            store=Store(home=home),
            max_new_tokens=max_tokens,
            max_tokens=num_tokens,
            tasks=tasks,
            max_turns=turns,
            observer=observer,
            cancelled=cancelled,
        )
    write_atomic(out, rolled.session.to_json())
    recorded = rolled.session.recorded
    assert recorded is not None
    click.echo(
        f"{out}: {rolled.tasks} tasks, {rolled.num_turns} turns, {rolled.num_calls} calls answered, "
        f"{len(recorded.token_ids):,} tokens"
    )
    if rolled.num_cut:
        click.echo(f"{rolled.num_cut} turns ran into --max-tokens; the end token of those is not the stack's own")
    for reason, number in rolled.left_out.items():
        click.echo(f"left out: {number} tasks: {reason}")


def read_template(path: Path | None) -> str | None:
    """The text of a chat template; None for none.

    Raises:
        InvalidInput: unreadable, or not UTF-8.
    """
    if path is None:
        return None
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("not UTF-8 text", where=str(path)) from error


def summary(rendered: Rendered) -> str:
    """Tokens of each kind of span, and the hashes, as text."""
    from tabulate import tabulate

    from suite.workload.rendered import OUTER_KINDS

    counts: dict[str, list[int]] = {}
    for span in rendered.spans:
        row = counts.setdefault(span.kind, [0, 0])
        row[0] += 1
        row[1] += span.end - span.start
    rows = [
        [kind if kind in OUTER_KINDS else f"  {kind}", number, tokens]
        for kind, (number, tokens) in sorted(counts.items(), key=lambda item: (item[0] not in OUTER_KINDS, -item[1][1]))
    ]
    rows.append(["all tokens", "", rendered.num_tokens])
    roles: dict[str, int] = {}
    for turn in rendered.turns:
        roles[turn.role] = roles.get(turn.role, 0) + 1
    turns = ", ".join(f"{number} {role}" for role, number in roles.items())
    return "\n".join(
        [
            tabulate(rows, headers=["span", "spans", "tokens"], tablefmt="simple"),
            "",
            f"{len(rendered.turns)} turns: {turns}. Indented kinds lie inside the others.",
            f"workload       {rendered.workload_digest}",
            f"tokens         {rendered.tokens_sha256}",
            f"tokenizer      {rendered.tokenizer_sha256}",
            f"chat template  {rendered.chat_template_sha256}",
        ]
    )
