"""Ed25519 keys in PEM files: private ones for their owner alone, public ones named by the hash of what they are."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import PRIVATE, sha256_bytes, write_atomic

ALGORITHM = "ed25519"
SIGNATURE_BYTES = 64
PUBLIC_SUFFIX = ".pub"
_KEY_FILE_LIMIT_BYTES = 1 << 16

_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""All that precedes the 32 bytes of an Ed25519 key in its DER SubjectPublicKeyInfo (RFC 8410, section 4)."""
_FIELD = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER_Y = frozenset({0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8})
"""The y coordinates of the points whose order divides 8: for such a key a signature can be made that fits any text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyKey:
    """A public key. Made by `of_der` or `load_verify_key`, which refuse what no honest key is."""

    der: bytes
    """Its DER SubjectPublicKeyInfo, 44 bytes."""

    @classmethod
    def of_der(cls, der: bytes, *, where: str) -> VerifyKey:
        """The key in a DER SubjectPublicKeyInfo.

        Raises:
            VerificationFailed: no Ed25519 key, one that is not written canonically, or one of small order.
        """
        if len(der) != len(_SPKI_PREFIX) + 32 or not der.startswith(_SPKI_PREFIX):
            raise VerificationFailed("not an Ed25519 public key (44 bytes of SubjectPublicKeyInfo)", where=where)
        y = int.from_bytes(der[-32:], "little") & (2**255 - 1)
        if y >= _FIELD:
            raise VerificationFailed("the public key is not written canonically", where=where)
        if y in _SMALL_ORDER_Y:
            raise VerificationFailed("the public key is of small order: its signatures bind nobody", where=where)
        return cls(der=der)

    @classmethod
    def of_text(cls, text: str, *, where: str) -> VerifyKey:
        """The key in `public_text`.

        Raises:
            VerificationFailed: see `of_der`; also base64 in another form.
        """
        return cls.of_der(strict_base64(text, where=where), where=where)

    @property
    def key_id(self) -> str:
        """`ed25519:` and the SHA-256 of `der`."""
        return f"{ALGORITHM}:{sha256_bytes(self.der)}"

    @property
    def public_text(self) -> str:
        """Base64 of `der`, as it stands in envelopes."""
        return base64.b64encode(self.der).decode()

    def to_pem(self) -> bytes:
        """The key as a PEM file."""
        return self._loaded().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` is this key's over `message` (RFC 8032, Ed25519; S below the order of the group)."""
        try:
            self._loaded().verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def _loaded(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.der[-32:])


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """A private key. Its secret shows in no text of this object."""

    private: Ed25519PrivateKey = field(repr=False)

    @property
    def verify_key(self) -> VerifyKey:
        """Its public half."""
        return VerifyKey(
            der=self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        )

    @property
    def key_id(self) -> str:
        """See `VerifyKey.key_id`."""
        return self.verify_key.key_id

    def sign(self, message: bytes) -> bytes:
        """The signature over `message`, 64 bytes; the same each time."""
        return self.private.sign(message)


def new_key(path: Path, *, passphrase: str | None = None) -> SigningKey:
    """Make a key pair: `path` (PEM PKCS #8, mode 0600) and beside it `<path>.pub`. Nothing is ever written over.

    Args:
        path: The private key's file.
        passphrase: Encrypts it; None for a key that whoever can read the file can use.

    Raises:
        InvalidInput: one of the two files exists, or the passphrase is empty.
    """
    public = path.with_name(path.name + PUBLIC_SUFFIX)
    for existing in (path, public):
        if existing.exists() or existing.is_symlink():
            raise InvalidInput("there is such a file already", where=str(existing), hint="choose another name")
    if passphrase == "":
        raise InvalidInput("an empty passphrase protects nothing", where=str(path), hint="leave it out, or choose one")
    key = SigningKey(private=Ed25519PrivateKey.generate())
    encryption: KeySerializationEncryption = (
        NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
    )
    _write_new(path, key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    write_atomic(public, key.verify_key.to_pem())
    return key


def load_signing_key(path: Path, *, passphrase: Callable[[], str] | None = None) -> SigningKey:
    """Read a private key.

    Args:
        path: PEM PKCS #8.
        passphrase: Asked if the file is encrypted.

    Raises:
        InvalidInput: absent, no such key, readable by others, or the passphrase is wrong.
        MissingPrerequisite: it is encrypted and there is no `passphrase`.
    """
    where = str(path)
    data = _read(path)
    if b"-----BEGIN PUBLIC KEY-----" in data:
        raise InvalidInput("a public key signs nothing", where=where, hint="name the private key, without .pub")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidInput("others may read this private key", where=where, hint=f"chmod 600 {path.name}")
    secret: bytes | None = None
    if b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in data:
        if passphrase is None:
            raise MissingPrerequisite("the key needs its passphrase", where=where, hint="use a terminal that can ask")
        secret = passphrase().encode()
    try:
        private = load_pem_private_key(data, password=secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if secret is not None:
            raise InvalidInput("the passphrase is not that of the key", where=where, hint="try again") from error
        raise InvalidInput("not a private key in PEM", where=where, hint="`suite key new PATH` makes one") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise InvalidInput("not an Ed25519 key", where=where, hint="`suite key new PATH` makes one")
    key = SigningKey(private=private)
    VerifyKey.of_der(key.verify_key.der, where=where)
    return key


def load_verify_key(path: Path) -> VerifyKey:
    """Read a public key.

    Raises:
        InvalidInput: absent, or no Ed25519 public key in PEM that may be trusted.
    """
    where = str(path)
    try:
        public = load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput("not a public key in PEM", where=where, hint="name the .pub file of a key") from error
    if not isinstance(public, Ed25519PublicKey):
        raise InvalidInput("not an Ed25519 key", where=where)
    try:
        return VerifyKey.of_der(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), where=where)
    except VerificationFailed as error:
        raise InvalidInput(error.message, where=error.where) from error


def strict_base64(text: str, *, where: str) -> bytes:
    """Decode base64 that is written in its one canonical form (RFC 4648, section 4).

    Raises:
        VerificationFailed: another alphabet, white space, absent padding, or trailing bits that are set.
    """
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error) as error:
        raise VerificationFailed("not base64", where=where) from error
    if base64.b64encode(data).decode() != text:
        raise VerificationFailed("base64 that is not written canonically", where=where)
    return data


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_KEY_FILE_LIMIT_BYTES + 1)
    except OSError as error:
        hint = "`suite key new PATH` makes a key" if isinstance(error, FileNotFoundError) else None
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    if len(data) > _KEY_FILE_LIMIT_BYTES:
        raise InvalidInput("too large for a key", where=str(path))
    return data


def _write_new(path: Path, data: bytes) -> None:
    """As `write_atomic`, but a file that appeared meanwhile stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    write_atomic(temporary, data, mode=PRIVATE)
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise InvalidInput("there is such a file already", where=str(path), hint="choose another name") from error
    finally:
        temporary.unlink(missing_ok=True)
