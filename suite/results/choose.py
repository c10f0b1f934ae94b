"""Which result a person means: a folder, a bundle's id, a submission's id, or the beginning of a record's digest."""

from __future__ import annotations

import re
from pathlib import Path

from suite.bundle.read import open_bundle
from suite.bundle.schema import RECORD_NAME
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
        InvalidInput: none, more than one, or a bundle that git does not know.
    """
    path = Path(named).resolve()
    found = [result for result in results.results if _is_named(result, named, path)]
    if len(found) == 1:
        return found[0]
    _require_known(results, named, path)
    told = "several results are called so" if found else "no such result"
    raise InvalidInput(
        told,
        where=ascii(named)[1:-1],
        hint=f"name a folder below {results.folder}, or an id that `suite result list` shows",
    )


def _require_known(results: Results, named: str, path: Path) -> None:
    """Refuse a bundle that lies below the results folder and was passed over: git does not know it."""
    root = results.folder.resolve()
    for folder in (path, (root / named).resolve()):
        if folder.parent.parent != root or not (folder / RECORD_NAME).is_file():
            continue
        ours = results.by_record.get(open_bundle(folder).record.record_sha256)
        if ours is not None and ours.submission is not None:
            raise InvalidInput(
                "what stands for this bundle is its submission",
                where=ascii(named)[1:-1],
                hint=f"name {ours.submission.folder}",
            )
        raise InvalidInput(
            "git does not know this bundle: it was measured here, and is no published result",
            where=ascii(named)[1:-1],
            hint="`suite submit` makes it one; the maintainers add theirs with git",
        )


def _is_named(result: Result, named: str, path: Path) -> bool:
    folders = {result.bundle, None if result.submission is None else result.submission.folder}
    if any(folder is not None and folder.resolve() == path for folder in folders):
        return True
    if result.submission is not None and result.submission.submission.id == named:
        return True
    digits = _DIGITS.fullmatch(named) is not None and result.record_sha256.startswith(named)
    return digits or result.bundle_id == named
