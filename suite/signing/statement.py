"""In-toto statements: which bytes, by name and SHA-256, somebody signed, and what they said about them.

Format: in-toto Attestation Framework, Statement v1 (https://in-toto.io/Statement/v1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from suite import __version__
from suite.capture.index import Sha256
from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json
from suite.signing.envelope import Envelope, open_envelope, read_strictly, seal
from suite.signing.keys import SigningKey, VerifyKey

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:suite:statement:v1"
PAYLOAD_LIMIT_BYTES = 8 << 20
SUBJECT_LIMIT = 16_384
_HINT = "do not rely on this statement; ask its maker for the file again"

Kind = Literal["result", "submission", "attestation", "reference-pack"]
Timestamp = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _Digest(_Strict):
    sha256: Sha256


class _Subject(_Strict):
    name: Annotated[str, Field(max_length=500)]
    digest: _Digest


class _Signer(_Strict):
    key_id: Annotated[str, Field(pattern=r"^ed25519:[0-9a-f]{64}$")]
    public_key: Annotated[str, Field(max_length=200)]


class _Predicate(_Strict):
    kind: Kind
    created: Timestamp
    suite_version: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+-]{1,60}$")]
    signer: _Signer | None
    about: dict[str, JsonValue]


class _Statement(_Strict):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Subject, ...]
    predicateType: Literal["urn:suite:statement:v1"]  # noqa: N815 - as in-toto spells it
    predicate: _Predicate


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What was signed."""

    kind: Kind
    created: str
    """UTC, `YYYY-MM-DDTHH:MM:SSZ`, by the signer's clock."""
    suite_version: str
    signer: str | None
    """Key id of who made it; None if it was made for Sigstore. Others may have signed it too."""
    about: Mapping[str, JsonValue]
    subjects: Mapping[str, str]
    """Name to SHA-256, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """A statement and who signed it; every signature held."""

    statement: Statement
    key_ids: tuple[str, ...]
    """Sorted; never empty."""
    keys: tuple[VerifyKey, ...]
    """In the order of `key_ids`."""
    envelope: Envelope

    def to_bytes(self) -> bytes:
        """The content of the statement's file."""
        return self.envelope.to_bytes()


def statement_payload(
    subjects: Mapping[str, str],
    key: VerifyKey | None,
    *,
    kind: Kind,
    about: Mapping[str, JsonValue],
    created: datetime | None = None,
) -> bytes:
    """The statement's bytes.

    Args:
        subjects: Name to SHA-256.
        key: Of who makes it; None for Sigstore.
        kind: What is signed.
        about: What is said about it; JSON.
        created: By default, now.

    Raises:
        InvalidInput: no subject, too many, a name that may not be signed, or too much about them.
    """
    if kind not in get_args(Kind):
        raise InvalidInput(f"no kind of statement: {kind!a}")
    if not subjects:
        raise InvalidInput("there is nothing to sign")
    for name in subjects:
        if why := name_refusal(name):
            raise InvalidInput(f"a file with such a name cannot be signed: {why}", where=ascii(name)[1:-1])
    value: dict[str, Any] = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "kind": kind,
            "created": (created or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "suite_version": __version__,
            "signer": None if key is None else {"key_id": key.key_id, "public_key": key.public_text},
            "about": dict(about),
        },
    }
    payload = canonical_json(value)
    if len(payload) > PAYLOAD_LIMIT_BYTES or len(subjects) > SUBJECT_LIMIT:
        raise InvalidInput(
            f"{len(subjects):,} files in a statement of {len(payload):,} bytes; at most {SUBJECT_LIMIT:,} in "
            f"{PAYLOAD_LIMIT_BYTES:,} are signed"
        )
    return payload


def sign_subjects(
    subjects: Mapping[str, str],
    key: SigningKey,
    *,
    kind: Kind,
    about: Mapping[str, JsonValue] | None = None,
    created: datetime | None = None,
) -> bytes:
    """An envelope over files by name and SHA-256; see `statement_payload`."""
    payload = statement_payload(subjects, key.verify_key, kind=kind, about=about or {}, created=created)
    return seal(payload, key).to_bytes()


def add_signature(signed: Signed, key: SigningKey) -> bytes:
    """The envelope of `signed` with the signature of another key beside those it has."""
    return seal(signed.envelope.payload, key, others=signed.envelope).to_bytes()


def verify_envelope(data: bytes, *, where: str) -> Signed:
    """Check the signatures and the form of a statement. The files that it names are not looked at.

    Raises:
        VerificationFailed: see `open_envelope` and `parse_statement`; also where its maker's signature is absent.
    """
    envelope = open_envelope(data, where=where)
    statement = parse_statement(envelope.payload, where=where)
    if statement.signer not in envelope.key_ids:
        raise VerificationFailed("the signer that it names did not sign it", where=where, hint=_HINT)
    return Signed(
        statement=statement,
        key_ids=envelope.key_ids,
        keys=tuple(key for key, _ in envelope.signatures),
        envelope=envelope,
    )


def parse_statement(payload: bytes, *, where: str) -> Statement:
    """Read a statement whose signatures hold: who signed it may still be hostile.

    Raises:
        VerificationFailed: too large, not strict JSON in canonical form, of another type or version, names that no
            file of a folder has, or not sorted, each once.
    """
    if len(payload) > PAYLOAD_LIMIT_BYTES:
        raise VerificationFailed(f"a statement of more than {PAYLOAD_LIMIT_BYTES:,} bytes", where=where, hint=_HINT)
    value, found = read_strictly(_Statement, payload, what="a statement that is read here", where=where, hint=_HINT)
    if canonical_json(value) != payload:
        raise VerificationFailed("the statement is not written in canonical form", where=where, hint=_HINT)
    names = [subject.name for subject in found.subject]
    if not 0 < len(names) <= SUBJECT_LIMIT:
        raise VerificationFailed(f"a statement over {len(names):,} files", where=where, hint=_HINT)
    for name in names:
        if why := name_refusal(name):
            raise VerificationFailed(f"it names {ascii(name)[:80]}: {why}", where=where, hint=_HINT)
    if names != sorted(set(names)):
        raise VerificationFailed("its files are not sorted, each once", where=where, hint=_HINT)
    predicate = found.predicate
    if predicate.signer is not None:
        key = VerifyKey.of_text(predicate.signer.public_key, where=f"{where}: signer")
        if key.key_id != predicate.signer.key_id:
            raise VerificationFailed("the signer's key id is not that of its public key", where=where, hint=_HINT)
    return Statement(
        kind=predicate.kind,
        created=predicate.created,
        suite_version=predicate.suite_version,
        signer=None if predicate.signer is None else predicate.signer.key_id,
        about=predicate.about,
        subjects={subject.name: subject.digest.sha256 for subject in found.subject},
    )


def name_refusal(name: str) -> str | None:
    """Why no file below a folder may be signed under this name; None if it may."""
    if not name or not name.isascii() or not name.isprintable():
        return "not printable ASCII"
    if len(name) > 500:
        return "longer than 500 characters"
    if name.startswith("/") or "\\" in name or name[1:2] == ":":
        return "not a relative path with plain slashes"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "a path that is not plain, or leads out of the folder"
    return None
