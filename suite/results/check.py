"""Whether a results folder holds together: known files only, everything named is there, and the index is current."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.bundle.read import open_bundle
from suite.results.git import known_files
from suite.results.history import Problem, history_since, is_local, place_of
from suite.results.index import index_is_current
from suite.results.layout import INDEX_NAME, TRUSTED_NAME
from suite.results.load import Results, load_results


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultsReport:
    """What a check of a results folder found."""

    problems: tuple[Problem, ...]
    added: tuple[str, ...]
    """With a commit to compare with: what is new, as paths relative to the results folder."""
    num_results: int


def check_results(
    results: Path, *, since: str | None = None, names_only: bool = False, by_maintainer: bool = False
) -> ResultsReport:
    """Check a results folder and, with a commit, that since then it was only added to.

    Args:
        results: The folder.
        since: A commit, branch or tag of the checkout that the folder lies in; None for no comparison.
        names_only: Look at names and kinds of files, and open none.
        by_maintainer: Whether trusted keys may have changed since, and bundles of the maintainers been added.

    Raises:
        InvalidInput: a file cannot be read as what it must be; or see `suite.results.history.history_since`.
        VerificationFailed: a signature or hash does not match, or one bundle stands twice.
    """
    problems = list(_strays(results))
    added: tuple[str, ...] = ()
    if since is not None:
        history = history_since(results, since, by_maintainer=by_maintainer)
        problems += history.problems
        added = history.added
    # What is not a plain file at a known place is not opened.
    if problems or names_only:
        return ResultsReport(problems=tuple(problems), added=added, num_results=0)
    loaded = load_results(results)
    for result in loaded.results:
        if result.bundle is not None:
            open_bundle(result.bundle).require_unchanged()
    problems += [*_dangling(loaded), *_own_words(loaded), *_index(loaded)]
    return ResultsReport(problems=tuple(problems), added=added, num_results=len(loaded.results))


def _strays(results: Path) -> Iterator[Problem]:
    known = known_files(results)
    for folder, folders, files in os.walk(results):
        for name in sorted((*folders, *files)):
            path = Path(folder) / name
            where = path.relative_to(results).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) or (known is not None and is_local(where, known)):
                continue
            if not stat.S_ISREG(mode):
                yield Problem(where=ascii(where)[1:-1], message="neither a folder nor a plain file")
            elif where not in (INDEX_NAME, TRUSTED_NAME) and place_of(where) is None:
                yield Problem(
                    where=ascii(where)[1:-1], message="belongs to no submission, attestation, bundle or notice"
                )


def _dangling(loaded: Results) -> Iterator[Problem]:
    """Notices and attestations of bundles that are not here, and replacements that are not."""
    for notice in loaded.notices:
        result = loaded.by_record.get(notice.record_sha256)
        if result is None or result.bundle_id != notice.bundle_id:
            yield Problem(where=notice.file_name, message=f"no bundle {notice.bundle_id} with this record is here")
        elif notice.replaced_by is not None and notice.replaced_by not in loaded.by_id:
            yield Problem(where=notice.file_name, message=f"the replacement {notice.replaced_by} is not here")
    for one in loaded.attestations:
        result = loaded.by_record.get(one.attestation.record_sha256)
        if result is None or result.bundle_id != one.attestation.bundle_id:
            yield Problem(
                where=one.folder.name, message=f"no bundle {one.attestation.bundle_id} with this record is here"
            )


def _own_words(loaded: Results) -> Iterator[Problem]:
    """Attestations by who signed what they attest."""
    for result in loaded.results:
        for one in result.attestations:
            if own := sorted(set(one.key_ids) & set(result.signers)):
                yield Problem(
                    where=one.folder.name, message=f"{own[0]} signed {result.bundle_id} too: somebody else must attest"
                )


def _index(loaded: Results) -> Iterator[Problem]:
    if not index_is_current(loaded):
        yield Problem(where=INDEX_NAME, message="not what a rebuild gives; run `suite result index`")
