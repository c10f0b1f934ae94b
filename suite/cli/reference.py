"""`suite reference`: publish, take in, check and list reference captures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput, MissingPrerequisite

if TYPE_CHECKING:
    from suite.reference.store import StoredReference
    from suite.signing.statement import Signed

PRIVACY = (
    "A pack reveals the session: its ids are in it, and hidden states and rows give back the text. "
    "Publish it only if the session may be public."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
_CHECKPOINT = click.option(
    "--checkpoint",
    metavar="FOLDER_OR_URL",
    help="Where the checkpoint lies, for a pack without its head. Default: this machine's copy, else the hub.",
)
_SIGNERS = click.option(
    "--require-signature",
    "signers",
    multiple=True,
    metavar="KEY",
    help="Key id or public key file; one of those given must have signed the pack.",
)
_INDEX = click.option(
    "--index",
    "index_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="An index of packs. Default: references/index.json.",
)
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
@click.option("--key", "key_file", type=click.Path(dir_okay=False, path_type=Path), help="Sign it with this key.")
@click.option(
    "--without-head",
    is_flag=True,
    help="Leave the output head out: who takes the pack in fetches it from the checkpoint, by byte range.",
)
@click.option(
    "--checkpoint",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the reference's model, for --without-head. Default: this machine's copy.",
)
@_JSON
@_QUIET
def pack(
    source: Path,
    out: Path,
    licence: str | None,
    key_file: Path | None,
    without_head: bool,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a stored capture as a pack.

    CAPTURE_OR_MANIFEST is a folder of the capture store (.../start-0), or the manifest that was run.
    """
    from suite.cli.key import open_key
    from suite.cli.progress import Progress
    from suite.reference.check import digest_of
    from suite.reference.pack import write_pack
    from suite.reference.signature import sign_pack, signature_of
    from suite.reference.store import capture_at
    from suite.stack.home import suite_home

    statement = Path(signature_of(str(out)))
    if statement.exists():
        raise InvalidInput("there is a statement of another pack already", where=str(statement), hint="remove it")
    captures = suite_home() / "captures"
    stored = capture_at(source, captures)
    key = None if key_file is None else open_key(key_file)
    with Progress(quiet=quiet) as progress:
        record = write_pack(
            stored,
            heads=captures / "heads",
            out=out,
            licence=licence,
            checkpoint=_checkpoint_of(stored, checkpoint) if without_head else None,
            observer=progress.line("pack"),
        )
    digest = digest_of(record.to_bytes())
    signer = None
    if key is not None:
        sign_pack(str(out), key)
        signer = key.key_id
    click.echo(PRIVACY, err=True)
    if as_json:
        size = out.stat().st_size
        _echo_json({"pack": str(out), "pack_digest": digest, "size_bytes": size, "signer": signer, **_summary(stored)})
    else:
        click.echo(f"{out}: {record.num_rows:,} rows, {out.stat().st_size / 1e6:,.1f} MB, digest {digest}")
        if signer is not None:
            click.echo(f"signed by {signer}")


@reference.command()
@click.argument("source")
@_SIGNERS
@_CHECKPOINT
@_JSON
@_QUIET
def pull(source: str, signers: tuple[str, ...], checkpoint: str | None, as_json: bool, quiet: bool) -> None:
    """Fetch the pack SOURCE (file, folder or URL), check it and take it into the capture store.

    A fetch that breaks off goes on where it ended when the command is given again. A statement beside the pack
    (SOURCE.dsse.json) is checked where there is one.
    """
    from suite.cli.progress import Progress
    from suite.reference.pull import pull as pull_pack
    from suite.reference.signature import required_signers
    from suite.stack.home import suite_home

    with Progress(quiet=quiet) as progress:
        done = pull_pack(
            source,
            home=suite_home(),
            checkpoint=checkpoint,
            signers=required_signers(signers),
            observer=progress.line("pull"),
        )
    if as_json:
        _echo_json({"pack_digest": done.digest, "new": done.new, **_summary(done.stored), **_signers(done.signed)})
        return
    state = "taken in" if done.new else "already in the store"
    click.echo(f"{done.stored.lock.name}: {state}: {done.stored.capture.folder}")
    click.echo(_signed_by(done.signed))


@reference.command()
@click.argument("source", metavar="FILE")
@_SIGNERS
@_CHECKPOINT
@_JSON
@_QUIET
def verify(source: str, signers: tuple[str, ...], checkpoint: str | None, as_json: bool, quiet: bool) -> None:
    """Check the pack FILE (or folder, or URL) as `pull` does, and import nothing.

    What passes is whole and consistent. That its rows were made by the stack that its lock names is its maker's word.
    """
    from suite.cli.progress import Progress
    from suite.reference.pull import verify as verify_pack
    from suite.reference.signature import required_signers
    from suite.stack.home import suite_home

    with Progress(quiet=quiet) as progress:
        head = verify_pack(
            source,
            home=suite_home(),
            checkpoint=checkpoint,
            signers=required_signers(signers),
            observer=progress.line("verify"),
        )
    record = head.record
    if as_json:
        told = {"verified": True, "pack_digest": head.digest, **_signers(head.signed)}
        _echo_json({**told, "record": record.model_dump(mode="json")})
        return
    click.echo(f"whole: {len(record.members)} members, {record.total_bytes / 1e6:,.1f} MB, digest {head.digest}")
    click.echo(
        f"{head.lock.name}: {record.num_rows:,} rows of {head.lock.workload.name}, licence: {_plain(record.licence)}"
    )
    click.echo(_signed_by(head.signed))


@reference.command()
@click.argument("source", metavar="PACK")
@click.option("--url", required=True, help="Where everyone finds it.")
@_INDEX
def add(source: str, url: str, index_file: Path | None) -> None:
    """Name the pack PACK (file, folder or URL) in an index, with digest, size and signer.

    Only record, lock and signature of PACK are read; `suite reference verify` checks the rest.
    """
    from suite.reference.index import INDEX_PATH, add_to_index, indexed
    from suite.reference.pull import peek

    target = index_file or INDEX_PATH
    entry = indexed(peek(source), url=url)
    add_to_index(target, [entry])
    click.echo(f"{target}: {entry.name}, digest {entry.pack_digest}, {_by(entry.signer)}")


@reference.command("list")
@click.option("--indexed", is_flag=True, help="The packs that the repository's index names, instead.")
@_INDEX
@_JSON
def list_stored(indexed: bool, index_file: Path | None, as_json: bool) -> None:
    """List references and pulled packs in the capture store, and what their rows need to be replayed."""
    from tabulate import tabulate

    from suite.reference.store import stored_references
    from suite.stack.home import suite_home

    if indexed or index_file is not None:
        _list_indexed(index_file, as_json)
        return

    captures = suite_home() / "captures"
    found = [s for s in stored_references(captures) if s.pack is not None or s.lock.role == "reference"]
    if as_json:
        _echo_json({"references": [{**_summary(s), "needs": _needs(s, captures / "heads")} for s in found]})
        return
    rows = [
        (
            s.lock.name,
            s.lock.digest[:12],
            "made here" if s.pack is None else f"pack, {_by(next(iter(_kept_signers(s)), None))}",
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


def _list_indexed(index_file: Path | None, as_json: bool) -> None:
    from tabulate import tabulate

    from suite.reference.index import INDEX_PATH, read_index

    packs = read_index(index_file or INDEX_PATH).packs
    if as_json:
        _echo_json({"packs": [pack.model_dump(mode="json") for pack in packs]})
        return
    rows = [
        (p.name, p.lock_digest[:12], f"{p.num_rows:,}", p.path, f"{p.size_bytes / 1e6:,.1f}", _by(p.signer), p.url)
        for p in packs
    ]
    if rows:
        headers = ("reference", "lock", "rows", "path", "MB", "signed by", "address")
        click.echo(tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True))
    else:
        click.echo("the index names no pack", err=True)


def _kept_signers(stored: StoredReference) -> tuple[str, ...]:
    """Who signed a pulled pack, from the statement that came with it."""
    from suite.reference.signature import kept_signature

    signed = kept_signature(stored.capture.folder)
    return () if signed is None else signed.key_ids


def _by(signer: str | None) -> str:
    return "unsigned" if signer is None else signer[:20]


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


def _checkpoint_of(stored: StoredReference, folder: Path | None) -> Path:
    from suite.reference.checkpoint import local_checkpoint
    from suite.stack.home import suite_home

    found = folder or local_checkpoint(stored.lock, home=suite_home())
    if found is None:
        raise MissingPrerequisite(
            "the reference's model is not on this machine", where=stored.lock.name, hint="name its folder: --checkpoint"
        )
    return found


def _signers(signed: Signed | None) -> dict[str, object]:
    return {"signers": [] if signed is None else list(signed.key_ids)}


def _signed_by(signed: Signed | None) -> str:
    return "unsigned" if signed is None else f"signed by {', '.join(signed.key_ids)}"


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
        "signers": list(_kept_signers(stored)),
        "folder": str(stored.capture.folder),
    }


def _plain(text: str) -> str:
    """A stranger's text as it may be shown: printable ASCII on one line."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return plain if len(plain) <= 200 else f"{plain[:197]}..."


def _echo_json(value: dict[str, object]) -> None:
    click.echo(json.dumps({"schema_version": 1, **value}, indent=1, sort_keys=True))
