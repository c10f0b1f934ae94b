"""Signatures of packs: a statement beside the pack, over its `pack.json`, which names every other byte."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

from suite.errors import InvalidInput, VerificationFailed
from suite.files import write_atomic
from suite.reference.check import digest_of
from suite.reference.reader import open_pack
from suite.reference.schema import RECORD_NAME
from suite.reference.source import public_name, read_small
from suite.signing.envelope import ENVELOPE_LIMIT_BYTES
from suite.signing.keys import SigningKey, load_verify_key
from suite.signing.statement import Signed, add_signature, sign_subjects, verify_envelope

SIGNATURE_SUFFIX = ".dsse.json"
KEPT_SIGNATURE_NAME = "pack.dsse.json"
"""Beside a pulled capture."""
_KEY_ID = re.compile(r"ed25519:[0-9a-f]{64}")


def signature_of(source: str) -> str:
    """Where the statement of a pack lies: `NAME.tar.dsse.json`, before a URL's query."""
    if "://" not in source:
        return source.rstrip("/") + SIGNATURE_SUFFIX
    head, mark, query = source.partition("?")
    return f"{head.rstrip('/')}{SIGNATURE_SUFFIX}{mark}{query}"


def is_pack(path: Path) -> bool:
    """Whether a path looks like a pack: a file, or a folder with a pack's record."""
    return path.is_file() or (path / RECORD_NAME).is_file()


def sign_pack(source: str, key: SigningKey) -> Path:
    """Sign a pack of this machine, or add a signature to the statement beside it.

    Args:
        source: The tar, or the folder.
        key: Who signs.

    Returns:
        The statement's file.

    Raises:
        InvalidInput: no such pack.
        VerificationFailed: not a pack, or the statement that is there is not over this pack.
    """
    with closing(open_pack(source)) as reader:
        digest = digest_of(reader.record_bytes)
    target = Path(signature_of(source)).expanduser()
    signed = read_signature(source, digest=digest)
    data = (
        sign_subjects({RECORD_NAME: digest}, key, kind="reference-pack")
        if signed is None
        else add_signature(signed, key)
    )
    write_atomic(target, data)
    return target


def read_signature(source: str, *, digest: str) -> Signed | None:
    """The statement beside a pack; None where there is none.

    Args:
        source: The pack's path or URL.
        digest: The pack's digest, which must be what was signed.

    Raises:
        MissingPrerequisite: it cannot be reached.
        VerificationFailed: a signature does not hold, or it is over something else.
    """
    place = signature_of(source)
    where = public_name(place) if "://" in place else place
    data = read_small(place, limit_bytes=ENVELOPE_LIMIT_BYTES)
    return None if data is None else parse_signature(data, digest=digest, where=where)


def parse_signature(data: bytes, *, digest: str, where: str) -> Signed:
    """Check that a statement is over the pack with this digest.

    Raises:
        VerificationFailed: it does not hold, or is over something else.
    """
    signed = verify_envelope(data, where=where)
    if signed.statement.kind != "reference-pack" or dict(signed.statement.subjects) != {RECORD_NAME: digest}:
        raise VerificationFailed(
            "the statement beside this pack is not over this pack", where=where, hint="get both from their maker again"
        )
    return signed


def required_signers(named: Iterable[str]) -> tuple[str, ...]:
    """Key ids of what a user names: an id, or the file of a public key.

    Raises:
        InvalidInput: neither.
    """
    found = []
    for text in named:
        if _KEY_ID.fullmatch(text):
            found.append(text)
        elif text.startswith("ed25519:"):
            raise InvalidInput("not a key id: ed25519: and 64 hexadecimal digits", where=text)
        else:
            found.append(load_verify_key(Path(text).expanduser()).key_id)
    return tuple(found)


def kept_signature(folder: Path) -> Signed | None:
    """The statement that came with a pack of the capture store; None where nobody signed it, or it was made here.

    Raises:
        VerificationFailed: it does not hold, or is not over this pack.
    """
    path = folder / KEPT_SIGNATURE_NAME
    data = read_small(str(path), limit_bytes=ENVELOPE_LIMIT_BYTES)
    if data is None:
        return None
    return parse_signature(data, digest=digest_of((folder / RECORD_NAME).read_bytes()), where=str(path))


def require_signer(
    signed: Signed | None,
    signers: Collection[str],
    *,
    where: str,
    hint: str = "do not use this pack, unless you know why its signature is absent",
) -> None:
    """Refuse a pack that none of `signers` signed; no signers, no requirement.

    Raises:
        VerificationFailed: nobody signed it, or others did.
    """
    if not signers or (signed is not None and not set(signers).isdisjoint(signed.key_ids)):
        return
    by = "nobody" if signed is None else ", ".join(signed.key_ids)
    raise VerificationFailed(
        f"signed by {by}, and not by {' or '.join(signers)}",
        where=where,
        hint=hint,
    )
