"""Who stands behind a file: in-toto statements in DSSE envelopes, signed with Ed25519 keys, or with Sigstore (extra).

A signature says who, never that something is true. Why `cryptography` alone: of a DSSE library only the one line of
the pre-authentication encoding would remain, since envelopes here are hostile input and are read far more strictly.
"""

from suite.signing.folder import (
    SIGSTORE_NAME,
    STATEMENT_NAME,
    STATEMENT_NAMES,
    read_folder_statement,
    sign_folder,
    verify_folder,
)
from suite.signing.keys import SigningKey, VerifyKey, load_signing_key, load_verify_key, new_key
from suite.signing.statement import Kind, Signed, Statement, add_signature, sign_subjects, verify_envelope
from suite.signing.who import Signers, who_signed

__all__ = [
    "SIGSTORE_NAME",
    "STATEMENT_NAME",
    "STATEMENT_NAMES",
    "Kind",
    "Signed",
    "Signers",
    "SigningKey",
    "Statement",
    "VerifyKey",
    "add_signature",
    "load_signing_key",
    "load_verify_key",
    "new_key",
    "read_folder_statement",
    "sign_folder",
    "sign_subjects",
    "verify_envelope",
    "verify_folder",
    "who_signed",
]
