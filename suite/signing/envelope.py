"""DSSE envelopes: a payload and signatures over its pre-authentication encoding, read as hostile input.

An envelope is the canonical JSON of itself, so that one statement with one set of signatures has one form: nothing can
be changed in it, not even a blank, without a signature or this check failing.
Format: https://github.com/secure-systems-lab/dsse, version 1.0; `public_key` beside each `keyid` is an addition, which
makes an envelope whole by itself: a key id is the hash of the key.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json, strict_json
from suite.records import first_problem
from suite.signing.keys import ALGORITHM, SIGNATURE_BYTES, SigningKey, VerifyKey, strict_base64

PAYLOAD_TYPE = "application/vnd.in-toto+json"
ENVELOPE_LIMIT_BYTES = 12 << 20
SIGNATURE_LIMIT = 16
_HINT = "do not rely on this signature; ask its maker for the file again"
_Model = TypeVar("_Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Signature(_Strict):
    keyid: Annotated[str, Field(max_length=200)]
    public_key: Annotated[str, Field(max_length=200)]
    sig: Annotated[str, Field(max_length=200)]


class _Envelope(_Strict):
    payload: str
    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815 - as DSSE spells it
    signatures: tuple[_Signature, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """A payload whose every signature holds."""

    payload: bytes
    signatures: tuple[tuple[VerifyKey, bytes], ...]
    """By key id."""

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Who signed, sorted."""
        return tuple(key.key_id for key, _ in self.signatures)

    def to_bytes(self) -> bytes:
        """The file's content."""
        return canonical_json(
            {
                "payload": base64.b64encode(self.payload).decode(),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [
                    {"keyid": key.key_id, "public_key": key.public_text, "sig": base64.b64encode(signature).decode()}
                    for key, signature in self.signatures
                ],
            }
        )


def pre_authentication_encoding(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """What is signed (DSSE protocol, `PAE`): lengths keep type and payload apart."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, key: SigningKey, *, others: Envelope | None = None) -> Envelope:
    """Sign a payload; `others` is an envelope of the same payload, whose signatures stay.

    Raises:
        InvalidInput: there would be too many signatures.
    """
    assert others is None or others.payload == payload
    held = dict(others.signatures) if others is not None else {}
    held[key.verify_key] = key.sign(pre_authentication_encoding(payload))
    if len(held) > SIGNATURE_LIMIT:
        raise InvalidInput(f"a statement has at most {SIGNATURE_LIMIT} signatures")
    return Envelope(payload=payload, signatures=tuple(sorted(held.items(), key=lambda item: item[0].key_id)))


def read_strictly(model: type[_Model], data: bytes, *, what: str, where: str, hint: str) -> tuple[Any, _Model]:
    """Strict JSON, as a value and as a record.

    Raises:
        VerificationFailed: not strict JSON, or no such record.
    """
    try:
        return strict_json(data, where=where), model.model_validate_json(data)
    except InvalidInput as error:
        raise VerificationFailed(error.message, where=where, hint=hint) from error
    except ValidationError as error:
        raise VerificationFailed(f"not {what}: {first_problem(error)}", where=where, hint=hint) from error


def open_envelope(data: bytes, *, where: str) -> Envelope:
    """Read an envelope and check every signature in it.

    Raises:
        VerificationFailed: too large, not strict JSON in canonical form, another payload type, no signature or too
            many, an unknown algorithm, a key that is none or not that of its id, or a signature that does not hold.
    """
    if len(data) > ENVELOPE_LIMIT_BYTES:
        raise VerificationFailed(f"more than {ENVELOPE_LIMIT_BYTES:,} bytes", where=where, hint=_HINT)
    value, found = read_strictly(_Envelope, data, what="a DSSE envelope", where=where, hint=_HINT)
    if not found.signatures:
        raise VerificationFailed("signatures: there is none", where=where, hint=_HINT)
    if len(found.signatures) > SIGNATURE_LIMIT:
        raise VerificationFailed(f"signatures: more than {SIGNATURE_LIMIT}", where=where, hint=_HINT)
    payload = strict_base64(found.payload, where=f"{where}: payload")
    message = pre_authentication_encoding(payload)
    signatures = tuple(
        _checked(one, message, where=f"{where}: signatures.{number}") for number, one in enumerate(found.signatures)
    )
    key_ids = [key.key_id for key, _ in signatures]
    if len(set(key_ids)) < len(key_ids):
        raise VerificationFailed("signatures: one key signed twice", where=where, hint=_HINT)
    if key_ids != sorted(key_ids) or canonical_json(value) != data:
        raise VerificationFailed("not written in canonical form", where=where, hint=_HINT)
    return Envelope(payload=payload, signatures=signatures)


def _checked(signature: _Signature, message: bytes, *, where: str) -> tuple[VerifyKey, bytes]:
    algorithm = signature.keyid.partition(":")[0]
    if algorithm != ALGORITHM:
        raise VerificationFailed(
            f"signed with {ascii(algorithm)[:40]}; only {ALGORITHM} is read", where=where, hint=_HINT
        )
    key = VerifyKey.of_text(signature.public_key, where=where)
    if key.key_id != signature.keyid:
        raise VerificationFailed("the key id is not that of its public key", where=where, hint=_HINT)
    raw = strict_base64(signature.sig, where=where)
    if len(raw) != SIGNATURE_BYTES:
        raise VerificationFailed(f"a signature of {len(raw)} bytes, not {SIGNATURE_BYTES}", where=where, hint=_HINT)
    if not key.verifies(raw, message):
        raise VerificationFailed("the signature does not hold: another text, or another key", where=where, hint=_HINT)
    return key, raw
