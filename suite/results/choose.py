"""Which result a person means: a folder, a bundle's id, a submission's id, or the beginning of a record's digest."""

from __future__ import annotations

import re
from pathlib import Path

from suite.errors import InvalidInput
from suite.results.load import Result, Results

_DIGITS = re.compile(r"[0-9a-f]{12,64}")


def choose_result(results: Results, named: str) -> Result:
    """The one result that `named` names.

    Args:
        results: All of a folder.
        named: A bundle's or submission's folder, `<name>/<folder>`, a submission's id, or 12 and more digits of
            `record_sha256`.

    Raises:
        InvalidInput: none, or more than one.
    """
    path = Path(named).resolve()
    found = [result for result in results.results if _is_named(result, named, path)]
    if len(found) == 1:
        return found[0]
    told = "several results are called so" if found else "no such result"
    raise InvalidInput(
        told,
        where=ascii(named)[1:-1],
        hint=f"name a folder below {results.folder}, or an id that `suite result list` shows",
    )


def _is_named(result: Result, named: str, path: Path) -> bool:
    folders = {result.bundle, None if result.submission is None else result.submission.folder}
    if any(folder is not None and folder.resolve() == path for folder in folders):
        return True
    if result.submission is not None and result.submission.submission.id == named:
        return True
    digits = _DIGITS.fullmatch(named) is not None and result.record_sha256.startswith(named)
    return digits or result.bundle_id == named
