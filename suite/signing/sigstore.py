"""Sigstore (optional): the same statement, signed in the name of an identity at an OpenID provider, without a key file.

A certificate for a few minutes binds a fresh key to the identity, and a public log keeps it with the signature. The
log is append-only: the identity, often an e-mail address, stands there for ever. Hence `WARNING`, which callers must
show and have confirmed before they sign.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, SuiteError, VerificationFailed
from suite.files import write_atomic
from suite.signing.envelope import PAYLOAD_TYPE
from suite.signing.folder import (
    SIGSTORE_NAME,
    STATEMENT_NAME,
    check_subjects,
    hash_folder,
    read_folder_statement,
    read_limited,
)
from suite.signing.statement import Kind, Statement, parse_statement, statement_payload

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig, TrustedRoot
    from sigstore.oidc import IdentityToken

WARNING = (
    "Sigstore writes your identity (an e-mail address, or the name of a repository's workflow) into a public log that "
    "nothing can be taken out of again. A key of `suite key new` says who you are without that."
)
_INSTALL = "pip install 'suite[sigstore]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class SigstoreSigned:
    """A statement, and the identity in whose name it was signed; certificate, log entry and signature held."""

    statement: Statement
    identity: str
    """Subject alternative name of the certificate: an e-mail address or a URI."""
    issuer: str
    """The OpenID provider that vouched for it."""


def identity_of(token: str) -> str:
    """The identity that an OpenID token would make public.

    Raises:
        InvalidInput: no such token, or no longer valid.
        MissingPrerequisite: the extra is not installed.
    """
    return str(_token(token).identity)


def sign_folder_with_sigstore(
    folder: Path, *, kind: Kind, token: str | None = None, trust: ClientTrustConfig | None = None
) -> Path:
    """Sign a folder's statement in the name of an identity; the caller has shown `WARNING` and it was confirmed.

    Args:
        folder: Its files are the subjects; a statement that is there already is signed as it is.
        kind: What the folder is.
        token: OpenID token; None to take that of the CI job this is, else to ask in a browser.
        trust: Which Sigstore; None for the public one.

    Returns:
        The Sigstore bundle that was written.

    Raises:
        InvalidInput: the folder cannot be signed, is signed so already, or the token is none.
        MissingPrerequisite: the extra is not installed, or no service can be reached.
        RunFailed: a service refused.
        VerificationFailed: the statement that is there does not hold, or is of another kind.
    """
    sign = _module("sigstore.sign")
    dsse = _module("sigstore.dsse")
    target = folder / SIGSTORE_NAME
    if target.exists() or target.is_symlink():
        raise InvalidInput("signed with Sigstore already", where=str(target), hint="remove it to sign anew")
    signed = read_folder_statement(folder)
    if signed is None:
        payload = statement_payload(hash_folder(folder), None, kind=kind, about={})
    else:
        check_subjects(folder, signed.statement)
        if signed.statement.kind != kind:
            raise VerificationFailed(f"the statement is over a {signed.statement.kind}", where=STATEMENT_NAME)
        payload = signed.envelope.payload
    with _told():
        trust = trust or _module("sigstore.models").ClientTrustConfig.production()
        identity = _token(token) if token is not None else _found_token(trust)
        with sign.SigningContext.from_trust_config(trust).signer(identity) as signer:
            bundle = signer.sign_dsse(dsse.Statement(payload))
    write_atomic(target, bundle.to_json().encode())
    return target


def verify_folder_with_sigstore(folder: Path, *, trusted_root: TrustedRoot | None = None) -> SigstoreSigned | None:
    """Check a folder's Sigstore signature and every file that it names, offline; None where there is none.

    Args:
        folder: Treated as hostile.
        trusted_root: Whom to trust; None for the public Sigstore as last fetched, or as installed.

    Raises:
        MissingPrerequisite: the extra is not installed.
        VerificationFailed: certificate, log entry, signature, statement or a file does not hold, or the statement is
            not the one that keys signed.
    """
    path = folder / SIGSTORE_NAME
    data = read_limited(path)
    if data is None:
        return None
    where = str(path)
    models = _module("sigstore.models")
    policy = _module("sigstore.verify.policy")
    verifier = _verifier(trusted_root)
    try:
        bundle = models.Bundle.from_json(data)
        # Any identity will do here: this says who signed, and whoever reads it decides whom to trust.
        kind, payload = verifier.verify_dsse(bundle, policy.UnsafeNoOp())
    except Exception as error:  # besides its own errors, those of every parser below it on hostile bytes
        raise VerificationFailed(
            f"the Sigstore signature does not hold: {_shown(str(error)) or type(error).__name__}", where=where
        ) from error
    if kind != PAYLOAD_TYPE:
        raise VerificationFailed(f"its payload is {ascii(kind)[:80]}, not {PAYLOAD_TYPE}", where=where)
    statement = parse_statement(payload, where=where)
    signed = read_folder_statement(folder)
    if signed is not None and signed.envelope.payload != payload:
        raise VerificationFailed(f"signs another statement than {STATEMENT_NAME}", where=where)
    check_subjects(folder, statement)
    identity, issuer = _certified(bundle.signing_certificate, where=where)
    return SigstoreSigned(statement=statement, identity=identity, issuer=issuer)


def _verifier(trusted_root: TrustedRoot | None) -> Any:
    verify = _module("sigstore.verify")
    if trusted_root is not None:
        return verify.Verifier(trusted_root=trusted_root)
    try:
        return verify.Verifier.production(offline=True)
    except Exception as error:  # it keeps the roots in the user's cache folder
        raise MissingPrerequisite(
            f"the roots of Sigstore cannot be read: {str(error) or type(error).__name__}",
            where="sigstore",
            hint=_INSTALL,
        ) from error


def _certified(certificate: Any, *, where: str) -> tuple[str, str]:
    """Identity and issuer of a Fulcio certificate that was verified (OID 1.3.6.1.4.1.57264.1.8, else .1.1)."""
    from cryptography.x509 import ObjectIdentifier, RFC822Name, SubjectAlternativeName, UniformResourceIdentifier

    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    found = names.get_values_for_type(RFC822Name) + names.get_values_for_type(UniformResourceIdentifier)
    raw = {e.oid: e.value for e in certificate.extensions}
    current, old = (raw.get(ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}")) for number in (8, 1))
    # The newer extension is a DER UTF8String of fewer than 128 bytes; the older one is the bare text.
    issuer = current.value[2:] if current is not None else old.value if old is not None else b""
    if len(found) != 1 or not issuer:
        raise VerificationFailed("its certificate names no one identity and issuer", where=where)
    return _shown(str(found[0])), _shown(issuer.decode(errors="replace"))


def _shown(text: str) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in text)[:300]


def _token(text: str) -> IdentityToken:
    oidc = _module("sigstore.oidc")
    try:
        token: IdentityToken = oidc.IdentityToken(text)
    except (oidc.IdentityError, ValueError) as error:
        raise InvalidInput(f"no identity token that is valid now: {error}", where="--token") from error
    return token


def _found_token(trust: ClientTrustConfig) -> IdentityToken:
    oidc = _module("sigstore.oidc")
    ambient = oidc.detect_credential()
    if ambient is not None:
        return _token(ambient)
    found: IdentityToken = oidc.Issuer(trust.signing_config.get_oidc_url()).identity_token()
    return found


@contextmanager
def _told() -> Iterator[None]:
    """Turn what a service or the line to it raises into an error that says which of the two it was."""
    errors = _module("sigstore.errors")
    try:
        yield
    except SuiteError:
        raise
    except (OSError, errors.NetworkError, errors.TUFError) as error:
        raise MissingPrerequisite(
            f"Sigstore cannot be reached: {str(error) or type(error).__name__}",
            where="--sigstore",
            hint="sign with a key of `suite key new`, which needs no network",
        ) from error
    except Exception as error:  # its clients share no base class
        raise RunFailed(f"Sigstore refused: {str(error) or type(error).__name__}", where="--sigstore") from error


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPrerequisite("the package sigstore is not installed", where=name, hint=_INSTALL) from error
