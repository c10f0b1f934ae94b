"""`suite workload scrub`: replace what is private in a session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.workload.scrub.session import ScrubResult
    from suite.workload.session import Session


@click.command("scrub")
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The scrubbed session.")
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Model folder: choose pseudonyms of as many tokens as what they stand for.",
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Private map; one that exists is used and extended. [default: SESSION.scrub-map.json]",
)
@click.option("--word", "words", multiple=True, metavar="TEXT", help="Replace this too; may be given again.")
@click.option("--keep", multiple=True, metavar="TEXT", help="Leave this alone; may be given again.")
@click.option("--diff", type=click.Path(path_type=Path), metavar="FILE", help="Write the private diff there.")
@click.option("--second", is_flag=True, help="Let detect-secrets look over the result (exit code 5 if it finds any).")
@click.option("--yes", "-y", is_flag=True, help="Write without asking. Without a terminal nothing is asked.")
def command(
    session: Path,
    out: Path,
    tokenizer: Path | None,
    map_file: Path | None,
    words: tuple[str, ...],
    keep: tuple[str, ...],
    diff: Path | None,
    second: bool,
    yes: bool,
) -> None:
    """Replace keys, passwords, addresses, names and the like in SESSION by pseudonyms of the same shape.

    One value becomes one pseudonym everywhere, also inside tool arguments, base64, URL encoding and JSON escapes, so
    that literals can still be compared. The names of this machine and of its user are replaced without being asked.
    Read the diff before you publish: no detector knows what only you know to be private.
    """
    from suite.files import PRIVATE, write_atomic
    from suite.workload.scrub.own import own_words
    from suite.workload.scrub.private_map import PrivateMap, load_map
    from suite.workload.scrub.review import review
    from suite.workload.scrub.session import scrub_session
    from suite.workload.scrub.tokens_kept import TokenizerCounter
    from suite.workload.session import load_session
    from suite.workload.tokenizer import load_tokenizer

    map_file = map_file or session.with_name(session.name.removesuffix(".json") + ".scrub-map.json")
    _keep_apart(session, {"--out": out, "--map": map_file, "--diff": diff})
    loaded = load_session(session)
    private = load_map(map_file) if map_file.exists() else PrivateMap()
    counter = TokenizerCounter(load_tokenizer(tokenizer)) if tokenizer else None
    result = scrub_session(loaded, private, counter=counter, keep=keep, words=(*words, *own_words()))
    lines = list(review(loaded, result.session))
    if sys.stdout.isatty() and not yes:
        click.echo_via_pager("\n".join(_coloured(line) for line in lines) + "\n")
        _summary(result)
        click.confirm(f"write {out}?", abort=True)
    else:
        _summary(result)
    write_atomic(map_file, private.to_json(), mode=PRIVATE)
    if diff is not None:
        write_atomic(diff, "\n".join([*lines, ""]).encode(), mode=PRIVATE)
        click.echo(f"{diff}: {sum(line.startswith('+') for line in lines)} changed lines, private")
    write_atomic(out, result.session.to_json())
    click.echo(f"{out}: scrubbed; read it with `suite workload show {out}`")
    click.echo(f"{map_file}: the private map, which undoes it; keep it to yourself")
    if second:
        _second(result.session)


def _keep_apart(session: Path, files: dict[str, Path | None]) -> None:
    """Refuse to write over the session, which may be the only copy, or two things into one file."""
    taken = {session.resolve(): "the session"}
    for option, file in files.items():
        if file is None:
            continue
        if (other := taken.setdefault(file.resolve(), option)) != option:
            raise InvalidInput(f"would overwrite {other}", where=option, hint="give another file")


def _coloured(line: str) -> str:
    colour = {"-": "red", "+": "green", "─": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line


def _summary(result: ScrubResult) -> None:
    from tabulate import tabulate

    rows = [list(row) for row in result.found]
    click.echo(tabulate(rows, headers=["kind", "values", "places"], tablefmt="simple") if rows else "nothing found")
    for note in result.notes:
        click.echo(f"note: {note}")
    if result.num_tokens is not None:
        before, after = result.num_tokens
        click.echo(f"tokens of all texts: {before:,} before, {after:,} after")


def _second(session: Session) -> None:
    from suite.errors import VerificationFailed
    from suite.workload.scrub.second import suspicions

    found = suspicions(session)
    for one in found:
        click.echo(f"detect-secrets, line {one.line} of the transcript: {one.kind}: {one.text}", err=True)
    if found:
        raise VerificationFailed(
            f"the second detector suspects {len(found)} places",
            where="--second",
            hint="scrub again with --word for those that are private, --keep does not silence it",
        )
    click.echo("detect-secrets finds nothing more")
