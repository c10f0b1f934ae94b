"""What was added to a results folder since a commit, and a refusal of everything that is no addition."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.bundle.schema import RECORD_NAME, is_bundle_folder_name
from suite.errors import InvalidInput, MissingPrerequisite
from suite.results.git import git, known_files, names, unknown_files
from suite.results.layout import ATTESTATIONS, INDEX_NAME, NOTICES, TRUSTED_NAME
from suite.submission.schema import SUBMISSIONS

_PLAIN_MODE = "100644"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing in a results folder that may not be."""

    where: str
    """Relative to the results folder; escaped."""
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What happened to a results folder since a commit."""

    added: tuple[str, ...]
    """New submissions, attestations, bundles and notices, as paths relative to the results folder, sorted."""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Change:
    path: str
    kind: str
    """`A` added, else as git calls it."""
    mode: str


def history_since(results: Path, reference: str, *, by_maintainer: bool = False) -> History:
    """Compare a results folder with the commit at which its branch left `reference`.

    Only additions are allowed, and only of whole submissions, attestations, bundles and notices; `index.json` may
    change. Whether an addition is whole, its content shows.

    Args:
        results: In a git checkout; files that git does not know yet count as added.
        reference: A commit, branch or tag.
        by_maintainer: Whether `trusted-keys.json` may change, and bundles of the maintainers be added.

    Raises:
        InvalidInput: not in a git checkout, or no such commit.
        MissingPrerequisite: no git here, or the checkout's history does not reach back far enough.
    """
    base = _fork_point(results, reference)
    before = set(names(git(results, "ls-tree", "-r", "-z", "--name-only", base, "--", ".")))
    places = {place for name in before if (place := place_of(name)) is not None}
    problems: list[Problem] = []
    added: set[str] = set()
    for change in sorted(_changes(results, base), key=lambda change: change.path):
        if change.path == INDEX_NAME and change.kind != "D":
            message = "" if change.mode == _PLAIN_MODE else "not a plain file"
        elif change.path == TRUSTED_NAME:
            message = "" if by_maintainer else "trusted keys are changed by the maintainers alone"
        else:
            message = _refusal(change, places, by_maintainer=by_maintainer)
        if message:
            problems.append(Problem(where=ascii(change.path)[1:-1], message=message))
        elif place := place_of(change.path):
            added.add(place)
    return History(added=tuple(sorted(added)), problems=tuple(problems))


def place_of(path: str) -> str | None:
    """The submission, attestation, bundle or notice to which a file belongs; None where it belongs to none.

    Args:
        path: Relative to the results folder, with forward slashes.
    """
    parts = path.split("/")
    if parts[0] in (SUBMISSIONS, ATTESTATIONS):
        return "/".join(parts[:2]) if len(parts) > 2 else None
    if parts[0] == NOTICES:
        return path if len(parts) == 2 and path.endswith(".json") else None
    return "/".join(parts[:2]) if len(parts) == 3 and is_bundle_folder_name(parts[1]) else None


def is_local(path: str, known: Collection[str]) -> bool:
    """Whether a file is of a bundle that a person measured into the folder and git does not know.

    Args:
        path: Relative to the results folder.
        known: The files that git knows.
    """
    name, _, rest = path.partition("/")
    if name in (SUBMISSIONS, ATTESTATIONS, NOTICES) or not rest:
        return False
    place = place_of(path)
    return path not in known and (place is None or f"{place}/{RECORD_NAME}" not in known)


def _refusal(change: _Change, places: set[str], *, by_maintainer: bool) -> str:
    """Why a change may not be; empty where it may."""
    if change.kind != "A":
        told = {"D": "deleted", "M": "changed", "T": "changed in kind"}.get(change.kind, f"changed ({change.kind})")
        return f"{told}: what is published stays as it is; write a notice (suite result correct or withdraw)"
    if change.mode != _PLAIN_MODE:
        return "not a plain file: links, executables and nested repositories are refused"
    place = place_of(change.path)
    if place is None:
        return "belongs to no submission, attestation, bundle or notice"
    if place in places:
        return f"added to {place}, which was there already"
    if not by_maintainer and place.partition("/")[0] not in (SUBMISSIONS, ATTESTATIONS, NOTICES):
        return "a bundle of the maintainers is added by them alone; `suite submit` makes yours a submission"
    return ""


def _changes(results: Path, base: str) -> Iterator[_Change]:
    told = git(results, "diff", "--raw", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative", base)
    fields = iter(names(told))
    for header in fields:
        # `:<old mode> <new mode> <old id> <new id> <status>`, then the path.
        _, mode, _, _, status = header.split(" ")
        yield _Change(path=next(fields), kind=status[:1], mode=mode)
    known = known_files(results) or frozenset()
    for name in unknown_files(results):
        if is_local(name, known):
            continue
        found = os.lstat(results / name).st_mode
        plain = stat.S_ISREG(found) and not found & 0o111
        yield _Change(path=name, kind="A", mode=_PLAIN_MODE if plain else "")


def _fork_point(results: Path, reference: str) -> str:
    commits = []
    for name in (reference, "HEAD"):
        found = git(results, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", fails=True)
        if not found:
            raise InvalidInput(
                "no such commit in this checkout",
                where=ascii(name)[1:-1],
                hint="fetch it, or name another with --since",
            )
        commits.append(found.decode().strip())
    base = git(results, "merge-base", *commits, fails=True).decode().strip()
    if not base:
        raise MissingPrerequisite(
            f"the checkout's history does not reach the commit at which it left {ascii(reference)[1:-1]}",
            where=str(results),
            hint="fetch the whole history (git fetch --unshallow)",
        )
    return base
