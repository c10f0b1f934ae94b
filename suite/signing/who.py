"""Answers the one question that others ask of a folder's signatures: who stands behind these files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.signing.folder import SIGSTORE_NAME, STATEMENT_NAME, verify_folder
from suite.signing.sigstore import SigstoreSigned, verify_folder_with_sigstore
from suite.signing.statement import Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Signers:
    """Who signed a folder as it is now; every signature that could be checked held."""

    key_ids: tuple[str, ...]
    """Sorted; empty where only Sigstore was used."""
    sigstore: SigstoreSigned | None
    """None where there is no such signature, or it could not be checked."""
    unchecked: str
    """Why a Sigstore signature that is there was not checked; empty otherwise."""

    def told(self) -> str:
        """One line for people."""
        names = list(self.key_ids)
        if self.sigstore is not None:
            names.append(f"{self.sigstore.identity} (Sigstore, vouched for by {self.sigstore.issuer})")
        known = f"signed by {', '.join(names)}" if names else "no key signed it"
        return f"{known}; {self.unchecked}" if self.unchecked else known


def who_signed(folder: Path, *, kind: Kind) -> Signers | None:
    """Check all signatures of a folder and every file that they name, without a network.

    Args:
        folder: Treated as hostile.
        kind: What the statement must be over.

    Returns:
        None where nobody signed.

    Raises:
        VerificationFailed: a signature or a file does not hold, or the statement is over another kind of thing.
    """
    by_keys, by_sigstore = (os.path.lexists(folder / name) for name in (STATEMENT_NAME, SIGSTORE_NAME))
    if not by_keys and not by_sigstore:
        return None
    signed = verify_folder(folder) if by_keys else None
    identity, unchecked = None, ""
    if by_sigstore:
        try:
            identity = verify_folder_with_sigstore(folder)
        except MissingPrerequisite as error:
            unchecked = f"its Sigstore signature was not checked: {error.message} ({error.hint})"
    for statement in (one.statement for one in (signed, identity) if one is not None):
        if statement.kind != kind:
            raise VerificationFailed(
                f"the statement is over a {statement.kind}, not over a {kind}", where=str(folder / STATEMENT_NAME)
            )
    return Signers(key_ids=() if signed is None else signed.key_ids, sigstore=identity, unchecked=unchecked)
