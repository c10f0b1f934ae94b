"""`suite key`: make and show the Ed25519 keys that sign results, attestations and reference packs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.signing.keys import SigningKey

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def key() -> None:
    """Make and show the Ed25519 keys that sign results, attestations and reference packs, all on this machine."""


@key.command()
@click.argument("path", type=_FILE)
@click.option("--passphrase", "ask", is_flag=True, help="Ask for a passphrase that encrypts the private key.")
def new(path: Path, ask: bool) -> None:
    """Make a key pair: PATH for you alone, PATH.pub for everyone. Neither is ever written over."""
    from suite.signing.keys import PUBLIC_SUFFIX, new_key

    passphrase = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True) if ask else None
    made = new_key(path, passphrase=passphrase)
    click.echo(made.key_id)
    click.echo(
        f"{path} signs in your name: keep it, and a copy, to yourself. Who lost it cannot correct a result with it.\n"
        f"{path}{PUBLIC_SUFFIX} goes to whoever checks your signatures.",
        err=True,
    )


@key.command()
@click.argument("path", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def show(path: Path, as_json: bool) -> None:
    """Print the key id and public key of PATH, a private or public key file."""
    from suite.signing.keys import load_verify_key

    public = (
        load_verify_key(path)
        if path.is_file() and b"-----BEGIN PUBLIC KEY-----" in path.read_bytes()[:4096]
        else open_key(path).verify_key
    )
    if as_json:
        click.echo(
            json.dumps({"schema_version": 1, "key_id": public.key_id, "public_key": public.public_text}, indent=1)
        )
        return
    click.echo(f"{public.key_id}\n{public.to_pem().decode()}", nl=False)


def open_key(path: Path) -> SigningKey:
    """A private key for a command that signs; asks for its passphrase where it has one.

    Raises:
        InvalidInput: see `load_signing_key`.
    """
    from suite.signing.keys import load_signing_key

    return load_signing_key(path, passphrase=lambda: click.prompt("Passphrase", hide_input=True, err=True))
