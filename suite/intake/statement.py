"""Whose statement lies in a folder, and whether it is of this folder as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from suite.errors import VerificationFailed
from suite.intake.limits import Limits
from suite.intake.refusal import Refused
from suite.intake.runs import require_past
from suite.signing import SIGSTORE_NAME, STATEMENT_NAME, Kind, read_folder_statement
from suite.signing.folder import hash_folder

_DAMAGED = "get the folder again from whoever sent it"
_OTHER = f"remove {STATEMENT_NAME} and sign with your own key (`suite sign`), if the result is yours"
_EDITED = "send it as it was signed; a change that is meant is a new result, with a statement of its own"


def signers(folder: Path, *, kind: Kind, now: datetime, limits: Limits) -> tuple[str, ...]:
    """Key ids of a folder's statement; none where it has none.

    A Sigstore bundle beside it is not looked at: that needs the network (see docs/signing.md).

    Args:
        folder: Passed the gate.
        kind: What its statement must be over.
        now: The present.
        limits: How far a clock may be ahead.

    Raises:
        Refused: `signature` (one does not hold), `statement-of-another-kind`, `statement-of-another-folder` or
            `edited-after-signing`.
    """
    try:
        signed = read_folder_statement(folder)
    except VerificationFailed as error:
        raise Refused("signature", error.message, where=STATEMENT_NAME, hint=_DAMAGED) from error
    if signed is None:
        return ()
    statement = signed.statement
    if statement.kind != kind:
        raise Refused(
            "statement-of-another-kind",
            f"signed as a {statement.kind}, sent as a {kind}",
            where=STATEMENT_NAME,
            hint="who signs one thing does not vouch for another",
        )
    require_past(statement.created, now=now, limits=limits, where=f"{STATEMENT_NAME}: created")
    _compare(statement.subjects, hash_folder(folder, refuse=VerificationFailed))
    return signed.key_ids


def has_sigstore(folder: Path) -> bool:
    """Whether a Sigstore bundle lies there too."""
    return (folder / SIGSTORE_NAME).exists()


def _compare(signed: Mapping[str, str], found: Mapping[str, str]) -> None:
    kept = [name for name in signed if found.get(name) == signed[name]]
    differing = sorted(name for name in signed.keys() | found.keys() if signed.get(name) != found.get(name))
    if not differing:
        return
    if len(kept) * 2 < len(signed):
        raise Refused(
            "statement-of-another-folder",
            f"of the {len(signed)} files that were signed, {len(kept)} are here as they were",
            where=STATEMENT_NAME,
            hint=_OTHER,
        )
    first = differing[0]
    what = "is missing" if first not in found else "was added" if first not in signed else "was changed"
    raise Refused("edited-after-signing", f"{what} after it was signed", where=ascii(first)[1:-1], hint=_EDITED)
