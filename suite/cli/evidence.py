"""`suite evidence`: let others recompute a ledger without the engine, whole or at rows drawn afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from suite.bundle.read import Bundle
    from suite.capture.store import Capture
    from suite.evidence.challenge import Challenge
    from suite.evidence.commitment import Commitment
    from suite.evidence.merkle import MerkleTree
    from suite.observer import Observer

PRIVACY = (
    "Hidden states and rows give back the session's text, and token ids are in them. "
    "Publish them only if the session may be public."
)
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_BUNDLE = click.argument("bundle", type=_FOLDER)
_CAPTURES = click.option("--captures", type=_FOLDER, help="Capture store with the evidence; the local one by default.")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
_QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress.")
_RECORD_LIMIT_BYTES = 1 << 20


@click.group()
def evidence() -> None:
    """Publish what a bundle's ledger was computed from, or commit to it and open it where others draw.

    With packs anyone recomputes every row: `suite verify BUNDLE --full --evidence PACK`. Where they are too large:
    commit, publish the commitment, let the checker challenge it, answer, and the checker checks.
    """


@evidence.command()
@_BUNDLE
@click.option("--out", type=_FOLDER, required=True, help="Folder for reference.tar and candidate.tar.")
@click.option("--licence", help="What to say about using them; kept in the packs.")
@_CAPTURES
@_JSON
@_QUIET
def pack(bundle: Path, out: Path, licence: str | None, captures: Path | None, as_json: bool, quiet: bool) -> None:
    """Write both sides' captures of BUNDLE as packs, and say their hashes."""
    from suite.bundle.read import open_bundle
    from suite.cli.progress import Progress
    from suite.evidence.pack import pack_evidence

    with Progress(quiet=quiet) as progress:
        packed = pack_evidence(
            open_bundle(bundle),
            captures=_store(captures),
            out=out,
            licence=licence,
            observer=progress.line("pack"),
        )
    click.echo(PRIVACY, err=True)
    if as_json:
        _echo_json({p.side: {"pack": str(p.path), "sha256": p.sha256, "size_bytes": p.size_bytes} for p in packed})
        return
    for item in packed:
        click.echo(f"{item.path}: {item.size_bytes:,} bytes, SHA-256 {item.sha256}")


@evidence.command()
@_BUNDLE
@click.option("--out", type=_FILE, default=Path("commitment.json"), show_default=True, help="The file to write.")
@_CAPTURES
@_JSON
@_QUIET
def commit(bundle: Path, out: Path, captures: Path | None, as_json: bool, quiet: bool) -> None:
    """Commit to the ledger of BUNDLE and to both sides' rows by one hash, to be published before anything is drawn."""
    from suite.bundle.read import open_bundle
    from suite.cli.progress import Progress
    from suite.files import write_atomic

    with Progress(quiet=quiet) as progress:
        made, _, _ = _committed(open_bundle(bundle), _store(captures), progress.line("commit"))
    write_atomic(out, made.to_bytes())
    if as_json:
        _echo_json({"commitment": str(out), "root": made.root, "leaves": made.leaves})
    else:
        click.echo(f"{out}: root {made.root} over {made.leaves:,} rows")


@evidence.command()
@click.argument("commitment", type=_FILE)
@click.option("--draw", type=click.IntRange(min=1), help="Rows to draw. [default: 512, or all where there are fewer]")
@click.option("--out", type=_FILE, default=Path("challenge.json"), show_default=True, help="The file to write.")
@_JSON
def challenge(commitment: Path, draw: int | None, out: Path, as_json: bool) -> None:
    """Draw rows of a published COMMITMENT with a new random nonce: the checker's part, once for each root.

    Whoever may ask again after a bad draw, or draw for himself, is not checked by this.
    """
    from suite.errors import InvalidInput
    from suite.evidence.answer import answer_bytes
    from suite.evidence.challenge import make_challenge
    from suite.evidence.chance import escape_chance
    from suite.files import write_atomic

    committed = _commitment(commitment)
    if out.exists():
        raise InvalidInput(
            "a challenge is there already", where=str(out), hint="use it: a second draw for one root proves less"
        )
    made = make_challenge(committed, draw=draw)
    size = answer_bytes(committed, made.draw)
    write_atomic(out, made.to_bytes())
    chances = {k: escape_chance(rows=made.leaves, falsified=k, drawn=made.draw) for k in _shares(made.leaves)}
    if as_json:
        escapes = [{"falsified": k, "escape_chance": chance} for k, chance in chances.items()]
        _echo_json(
            {"challenge": str(out), "root": made.root, "nonce": made.nonce, "draw": made.draw, "chances": escapes}
        )
        return
    click.echo(f"{out}: {made.draw:,} of {made.leaves:,} rows drawn; an answer has about {size:,} bytes")
    for k, chance in chances.items():
        click.echo(f"  {k:,} falsified rows escape with a chance of {_percent(chance)}")


@evidence.command()
@_BUNDLE
@click.argument("commitment", type=_FILE)
@click.argument("challenge", type=_FILE)
@click.option("--out", type=_FILE, default=Path("answer.safetensors"), show_default=True, help="The file to write.")
@click.option("--heads", type=_FOLDER, help="Also copy the heads, which a checker needs, into this folder.")
@_CAPTURES
@_JSON
@_QUIET
def answer(
    bundle: Path,
    commitment: Path,
    challenge: Path,
    out: Path,
    heads: Path | None,
    captures: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Open the rows of BUNDLE that CHALLENGE drew: the submitter's part."""
    from suite.bundle.read import open_bundle
    from suite.cli.progress import Progress
    from suite.errors import InvalidInput
    from suite.evidence.answer import write_answer
    from suite.evidence.heads import copy_heads

    committed, asked, store = _commitment(commitment), _challenge(challenge), _store(captures)
    with Progress(quiet=quiet) as progress:
        made, tree, sides = _committed(open_bundle(bundle), store, progress.line("answer"))
    if made != committed:
        raise InvalidInput(
            "this bundle and these captures are not what was committed to",
            where=str(commitment),
            hint="answer where the commitment was made",
        )
    size = write_answer(out, asked, committed, tree, *sides)
    copied = [] if heads is None else copy_heads(committed, store / "heads", heads)
    click.echo(PRIVACY, err=True)
    if as_json:
        _echo_json(
            {"answer": str(out), "size_bytes": size, "rows": asked.draw, "heads": [str(path) for path in copied]}
        )
        return
    click.echo(f"{out}: {asked.draw:,} rows of both sides, {size:,} bytes")
    for path in copied:
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


@evidence.command()
@_BUNDLE
@click.argument("commitment", type=_FILE)
@click.argument("challenge", type=_FILE)
@click.argument("answer", type=_FILE)
@click.option("--heads", "heads", type=_FOLDER, multiple=True, help="Folder with head files. [default: local stores]")
@click.option("--key", "key_file", type=_FILE, help="Attest under this key that the drawn rows follow.")
@click.option("--results", type=_FOLDER, default=Path("results"), show_default=True, help="Where attestations go.")
@_JSON
@_QUIET
def check(
    bundle: Path,
    commitment: Path,
    challenge: Path,
    answer: Path,
    heads: tuple[Path, ...],
    key_file: Path | None,
    results: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Recompute the drawn rows of BUNDLE's ledger from ANSWER. CHALLENGE must be your own, made after COMMITMENT.

    Exit code 5 at the first row that is not the committed one, or does not follow from its tensors.
    """
    from datetime import UTC, datetime

    from suite.bundle.read import open_bundle
    from suite.cli.key import open_key
    from suite.cli.progress import Progress
    from suite.evidence.attest import attest_evidence
    from suite.evidence.check import check_answer
    from suite.evidence.store import evidence_store
    from suite.results.attestation import require_someone_else
    from suite.stack.home import suite_home

    key = None if key_file is None else open_key(key_file)
    opened, asked = open_bundle(bundle), _challenge(challenge)
    if key is not None:
        require_someone_else(opened, kind="consistent", key_id=key.key_id, results=results)
    local = (evidence_store(suite_home()) / "heads", suite_home() / "captures" / "heads")
    with Progress(quiet=quiet) as progress:
        done = check_answer(
            opened, _commitment(commitment), asked, answer, heads=(*heads, *local), observer=progress.line("check")
        )
    written = None
    if key is not None:
        written = attest_evidence(opened, challenge=asked, key=key, results=results, now=datetime.now(UTC))
    if as_json:
        said = {"rows": done.rows, "drawn": done.drawn, "replayed": done.rows_told}
        _echo_json({"consistent": True, **said, "attestation": None if written is None else str(written)})
        return
    click.echo(f"{done.drawn:,} of {done.rows:,} rows are the committed ones and follow from the answer")
    click.echo(done.rows_told)
    if written is not None:
        click.echo(str(written))


@evidence.command()
@click.option("--rows", type=click.IntRange(min=1), default=7114, show_default=True, help="Rows of the ledger.")
@click.option("--falsified", type=click.IntRange(min=1), help="Falsified rows.")
@click.option("--drawn", type=click.IntRange(min=0), help="Rows drawn.")
@click.option("--at-most", type=click.FloatRange(0, 1, max_open=True), help="Say how many to draw for this chance.")
@_JSON
def chance(rows: int, falsified: int | None, drawn: int | None, at_most: float | None, as_json: bool) -> None:
    """The chance that falsified rows escape a draw; without counts, a table."""
    from tabulate import tabulate

    from suite.evidence.chance import DRAWN, escape_chance, escape_table, rows_needed

    if at_most is not None and (falsified is None or drawn is not None):
        raise click.UsageError("--at-most needs --falsified, and no --drawn")
    if at_most is not None and falsified is not None:
        needed = rows_needed(rows=rows, falsified=falsified, chance=at_most)
        if as_json:
            _echo_json({"rows": rows, "falsified": falsified, "at_most": at_most, "drawn": needed})
        else:
            click.echo(f"draw {needed:,} of {rows:,} rows: then {falsified:,} falsified escape with at most {at_most}")
        return
    if falsified is not None and drawn is not None:
        found = escape_chance(rows=rows, falsified=falsified, drawn=drawn)
        if as_json:
            _echo_json({"rows": rows, "falsified": falsified, "drawn": drawn, "escape_chance": found})
        else:
            click.echo(f"{drawn:,} of {rows:,} rows drawn: {falsified:,} falsified escape with {_percent(found)}")
        return
    lines = escape_table(
        rows,
        falsified=_shares(rows) if falsified is None else (falsified,),
        drawn=DRAWN if drawn is None else (drawn,),
    )
    columns = tuple(count for count in (DRAWN if drawn is None else (drawn,)) if count <= rows)
    if as_json:
        cells = [
            {"falsified": k, "drawn": count, "escape_chance": value}
            for k, chances in lines
            for count, value in zip(columns, chances, strict=True)
        ]
        _echo_json({"rows": rows, "chances": cells})
        return
    click.echo(f"chance that falsified rows escape, of {rows:,}:")
    table = [(f"{k:,}", *map(_percent, chances)) for k, chances in lines]
    headers = ("falsified", *(f"{count:,} drawn" for count in columns))
    click.echo(
        tabulate(table, headers=headers, tablefmt="simple", disable_numparse=True, colalign=["right"] * len(headers))
    )


def _shares(rows: int) -> tuple[int, ...]:
    """Falsified rows worth speaking of: one, and 0.1, 0.4, 1, 5 and 10 per cent."""
    return tuple(sorted({1, *(max(1, round(rows * share)) for share in (0.001, 0.004, 0.01, 0.05, 0.1))}))


def _percent(chance: float) -> str:
    """Two significant digits; what is below one in a million is said as that."""
    if 0 < chance < 1e-6:
        return "< 0.0001 %"
    return f"{100 * chance:.2g} %" if chance < 0.1 else f"{100 * chance:.1f} %"


def _store(captures: Path | None) -> Path:
    from suite.stack.home import suite_home

    return captures or suite_home() / "captures"


def _committed(
    bundle: Bundle, store: Path, observer: Observer
) -> tuple[Commitment, MerkleTree, tuple[Capture, Capture]]:
    from suite.bundle.evidence import find_capture
    from suite.evidence.commitment import commit as commit_to
    from suite.score.ledger import read_ledger

    bundle.require_unchanged("ledger.parquet")
    ledger = read_ledger(bundle.folder / "ledger.parquet")
    named = bundle.record.evidence
    reference, candidate = (find_capture(store, side) for side in (named.reference, named.candidate))
    made, tree = commit_to(bundle, ledger, reference, candidate, observer=observer)
    return made, tree, (reference, candidate)


def _commitment(path: Path) -> Commitment:
    from suite.evidence.commitment import parse_commitment
    from suite.files import read_regular

    return parse_commitment(read_regular(path, limit_bytes=_RECORD_LIMIT_BYTES), where=str(path))


def _challenge(path: Path) -> Challenge:
    from suite.evidence.challenge import parse_challenge
    from suite.files import read_regular

    return parse_challenge(read_regular(path, limit_bytes=_RECORD_LIMIT_BYTES), where=str(path))


def _echo_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps({"schema_version": 1, **value}, indent=1, sort_keys=True))
