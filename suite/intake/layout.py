"""Which files what may hold: a bundle, a submission, an attestation. Nothing else is opened."""

from __future__ import annotations

import re
from collections.abc import Collection

from suite.bundle.schema import (
    NAME_PATTERN,
    OPTIONAL_FILES,
    RECORD_LIMIT_BYTES,
    RECORD_NAME,
    REQUIRED_FILES,
    is_bundle_folder_name,
)
from suite.intake.limits import Limits
from suite.intake.refusal import Unusable
from suite.results.attestation import ATTESTATION_NAME
from suite.results.attestation import LIMIT_BYTES as ATTESTATION_LIMIT_BYTES
from suite.signing import STATEMENT_NAMES
from suite.submission.schema import (
    AGGREGATES_NAME,
    BUNDLE_FOLDER,
    COMMITMENT_NAME,
    SUBMISSION_LIMIT_BYTES,
    SUBMISSION_NAME,
)

_MIB = 1 << 20
_NAME = re.compile(NAME_PATTERN)

_STATEMENTS = dict.fromkeys(STATEMENT_NAMES, 12 * _MIB)
_BUNDLE = {RECORD_NAME: RECORD_LIMIT_BYTES} | REQUIRED_FILES | OPTIONAL_FILES | _STATEMENTS
_OUTER = {
    SUBMISSION_NAME: {
        SUBMISSION_NAME: SUBMISSION_LIMIT_BYTES,
        COMMITMENT_NAME: 16 * _MIB,
        AGGREGATES_NAME: 16 * _MIB,
    }
    | _STATEMENTS,
    ATTESTATION_NAME: {ATTESTATION_NAME: ATTESTATION_LIMIT_BYTES} | _STATEMENTS,
    RECORD_NAME: {},
}
MARKERS = tuple(_OUTER)
"""The file that says what a folder is, outermost first."""

FILE_NAMES = frozenset(_BUNDLE).union(*_OUTER.values())
"""Every name that a file may have, wherever it stands."""


def marker_of(names: Collection[str]) -> str:
    """The marker among the names of a folder's own entries.

    Raises:
        Unusable: there is none.
    """
    for marker in MARKERS:
        if marker in names:
            return marker
    raise Unusable(
        "nothing-here",
        f"neither {', '.join(MARKERS[:-1])} nor {MARKERS[-1]} is here",
        hint="name a bundle's folder, a submission's or an attestation's, or an archive of one",
    )


def file_limit(marker: str, parts: tuple[str, ...], limits: Limits) -> int | None:
    """Largest accepted size in bytes of the file at `parts` of a folder with this marker; None if it may hold none."""
    own = _bundle_limit(parts[0], limits) if marker == RECORD_NAME else _OUTER[marker].get(parts[0])
    if len(parts) == 1:
        return own
    if marker == RECORD_NAME or not _is_inner(parts[:3]) or len(parts) != 4:
        return None
    return _bundle_limit(parts[3], limits)


def is_folder(marker: str, parts: tuple[str, ...]) -> bool:
    """Whether a folder with this marker may have the folder `parts`."""
    return marker != RECORD_NAME and len(parts) <= 3 and _is_inner(parts)


def _is_inner(parts: tuple[str, ...]) -> bool:
    folder, name, stamp = (*parts, "", "")[:3]
    return (
        folder == BUNDLE_FOLDER
        and (not name or _NAME.match(name) is not None)
        and (not stamp or is_bundle_folder_name(stamp))
    )


def _bundle_limit(name: str, limits: Limits) -> int | None:
    limit = _BUNDLE.get(name)
    if limit is None:
        return None
    if name.endswith(".json"):
        return min(limit, limits.json_bytes)
    return min(limit, limits.ledger_bytes)
