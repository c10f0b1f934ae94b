"""`suite sign`: put one's name under a bundle, submission, attestation or reference pack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.signing.statement import Kind

_KINDS: tuple[tuple[str, Kind], ...] = (
    ("submission.json", "submission"),
    ("attestation.json", "attestation"),
    ("bundle.json", "result"),
)


@click.command()
@click.argument("target", metavar="FOLDER_OR_PACK", type=click.Path(exists=True, path_type=Path))
@click.option("--key", "key_file", type=click.Path(dir_okay=False, path_type=Path), help="Private key of `suite key`.")
@click.option("--sigstore", is_flag=True, help="Sign with your identity at an OpenID provider instead of a key.")
@click.option("--token", "token_file", type=click.Path(path_type=Path), help="Identity token, in a file; else ask one.")
@click.option("--yes", is_flag=True, help="Do not ask whether the identity may become public.")
def sign(target: Path, key_file: Path | None, sigstore: bool, token_file: Path | None, yes: bool) -> None:
    """Sign every file of FOLDER_OR_PACK: a bundle, submission, attestation or reference pack.

    A signature says who stands behind the files, not that they are true. A second key adds its signature. Of a folder
    the statement lies in it, of a pack beside it.
    """
    from suite.reference.signature import is_pack, sign_pack
    from suite.signing.folder import sign_folder

    if sigstore == (key_file is not None):
        raise InvalidInput("sign with either a key or Sigstore", where="--key, --sigstore", hint="name one of them")
    pack = is_pack(target)
    kind = None if pack else _kind_of(target)
    if sigstore:
        if kind is None:
            raise InvalidInput("reference packs are signed with a key", where=str(target), hint="--key KEY")
        written = _with_sigstore(target, kind, token_file, yes)
    else:
        from suite.cli.key import open_key

        assert key_file is not None
        key = open_key(key_file)
        written = sign_pack(str(target), key) if kind is None else sign_folder(target, key, kind=kind)
        click.echo(f"signed by {key.key_id}")
    click.echo(str(written))


def _kind_of(folder: Path) -> Kind:
    for name, kind in _KINDS:
        if (folder / name).is_file():
            return kind
    raise InvalidInput(
        "neither a bundle, submission, attestation nor reference pack",
        where=str(folder),
        hint="name the folder that holds bundle.json, submission.json or attestation.json, or a pack",
    )


def _with_sigstore(folder: Path, kind: Kind, token_file: Path | None, yes: bool) -> Path:
    from suite.signing.sigstore import WARNING, identity_of, sign_folder_with_sigstore

    token = None if token_file is None else token_file.read_text(encoding="ascii", errors="replace").strip()
    click.echo(WARNING, err=True)
    if token is not None:
        click.echo(f"It will say: {identity_of(token)}", err=True)
    if not yes:
        click.confirm("Publish this identity for ever?", abort=True, err=True)
    return sign_folder_with_sigstore(folder, kind=kind, token=token)
