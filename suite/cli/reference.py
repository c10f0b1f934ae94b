"""`suite reference`: publish, take in, check and list reference captures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.reference.store import StoredReference

PRIVACY = (
    "A pack reveals the session: its ids are in it, and hidden states and rows give back the text. "
    "Publish it only if the session may be public."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
_QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress.")


@click.group()
def reference() -> None:
    """Publish, take in, check and list reference packs.

    A pack holds a reference's capture and head: with it a stack is compared without the reference's model.
    """


@reference.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path), metavar="CAPTURE_OR_MANIFEST")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The tar to write.")
@click.option("--licence", help="What to say about using it; kept in the pack.")
@_JSON
@_QUIET
def pack(source: Path, out: Path, licence: str | None, as_json: bool, quiet: bool) -> None:
    """Write a stored capture as a pack.

    CAPTURE_OR_MANIFEST is a folder of the capture store (.../start-0), or the manifest that was run.
    """
    from suite.cli.progress import Progress
    from suite.reference.check import digest_of
    from suite.reference.pack import write_pack
    from suite.reference.store import capture_at
    from suite.stack.home import suite_home

    captures = suite_home() / "captures"
    stored = capture_at(source, captures)
    with Progress(quiet=quiet) as progress:
        record = write_pack(stored, heads=captures / "heads", out=out, licence=licence, observer=progress.line("pack"))
    digest = digest_of(record.to_bytes())
    click.echo(PRIVACY, err=True)
    if as_json:
        _echo_json({"pack": str(out), "pack_digest": digest, "size_bytes": out.stat().st_size, **_summary(stored)})
    else:
        click.echo(f"{out}: {record.num_rows:,} rows, {out.stat().st_size / 1e6:,.1f} MB, digest {digest}")


@reference.command()
@click.argument("source")
@_JSON
@_QUIET
def pull(source: str, as_json: bool, quiet: bool) -> None:
    """Fetch the pack SOURCE (file, folder or URL), check it and take it into the capture store.

    A fetch that breaks off goes on where it ended when the command is given again.
    """
    from suite.cli.progress import Progress
    from suite.reference.pull import pull as pull_pack
    from suite.stack.home import suite_home

    with Progress(quiet=quiet) as progress:
        done = pull_pack(source, home=suite_home(), observer=progress.line("pull"))
    if as_json:
        _echo_json({"pack_digest": done.digest, "new": done.new, **_summary(done.stored)})
        return
    state = "taken in" if done.new else "already in the store"
    click.echo(f"{done.stored.lock.name}: {state}: {done.stored.capture.folder}")


@reference.command()
@click.argument("source", metavar="FILE")
@_JSON
@_QUIET
def verify(source: str, as_json: bool, quiet: bool) -> None:
    """Check the pack FILE (or folder, or URL) as `pull` does, and import nothing.

    What passes is whole and consistent. That its rows were made by the stack that its lock names is its maker's word.
    """
    from suite.cli.progress import Progress
    from suite.reference.pull import verify as verify_pack
    from suite.stack.home import suite_home

    with Progress(quiet=quiet) as progress:
        head = verify_pack(source, home=suite_home(), observer=progress.line("verify"))
    record = head.record
    if as_json:
        _echo_json({"verified": True, "pack_digest": head.digest, "record": record.model_dump(mode="json")})
        return
    click.echo(f"whole: {len(record.members)} members, {record.total_bytes / 1e6:,.1f} MB, digest {head.digest}")
    click.echo(
        f"{head.lock.name}: {record.num_rows:,} rows of {head.lock.workload.name}, licence: {_plain(record.licence)}"
    )


@reference.command("list")
@_JSON
def list_stored(as_json: bool) -> None:
    """List references and pulled packs in the capture store, and what their rows need to be replayed."""
    from tabulate import tabulate

    from suite.reference.store import stored_references
    from suite.stack.home import suite_home

    captures = suite_home() / "captures"
    found = [s for s in stored_references(captures) if s.pack is not None or s.lock.role == "reference"]
    if as_json:
        _echo_json({"references": [{**_summary(s), "needs": _needs(s, captures / "heads")} for s in found]})
        return
    rows = [
        (
            s.lock.name,
            s.lock.digest[:12],
            "made here" if s.pack is None else "pack",
            f"{s.capture.index.num_rows:,}",
            s.capture.index.path,
            _needs(s, captures / "heads"),
            str(s.capture.folder),
        )
        for s in found
    ]
    if rows:
        click.echo(
            tabulate(
                rows, headers=("reference", "lock", "from", "rows", "path", "to replay", "folder"), tablefmt="simple"
            )
        )
    else:
        click.echo("no reference in the capture store", err=True)


def _needs(stored: StoredReference, heads: Path) -> str:
    from suite.reference.store import head_file

    head = stored.capture.index.head
    if stored.capture.index.codec == "logits" or head is None:
        return "nothing: its rows are stored"
    if missing := stored.missing_heads(heads):
        return f"{len(missing)} of {len(head.sha256s)} head files, which are missing; pull it again"
    size = sum(head_file(heads, sha256).stat().st_size for sha256 in head.sha256s)
    torch = stored.lock.runtime.packages.get("torch", "")
    return f"its head ({size / 1e6:,.1f} MB, here) and an interpreter with torch {torch}".rstrip()


def _summary(stored: StoredReference) -> dict[str, object]:
    index = stored.capture.index
    return {
        "name": stored.lock.name,
        "lock_digest": stored.lock.digest,
        "capture_digest": index.capture_digest,
        "index_sha256": stored.capture.index_sha256,
        "num_rows": index.num_rows,
        "codec": index.codec,
        "path": index.path,
        "tokens_sha256": index.tokens_sha256,
        "pulled": stored.pack is not None,
        "folder": str(stored.capture.folder),
    }


def _plain(text: str) -> str:
    """A stranger's text as it may be shown: printable ASCII on one line."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return plain if len(plain) <= 200 else f"{plain[:197]}..."


def _echo_json(value: dict[str, object]) -> None:
    click.echo(json.dumps({"schema_version": 1, **value}, indent=1, sort_keys=True))
