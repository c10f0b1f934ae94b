"""Finding bundles below a results folder, quickly: what has not changed since the last build is not read again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.bundle.find import find_bundles
from suite.bundle.read import read_file
from suite.bundle.schema import RECORD_NAME
from suite.errors import InvalidInput, SuiteError
from suite.files import sha256_bytes
from suite.results.git import known_bundles, known_files
from suite.results.layout import ATTESTATIONS, NOTICES, TRUSTED_NAME
from suite.site.facts import Refused
from suite.site.kept import Kept
from suite.site.keys import key_of
from suite.site.standing import PrivateFacts, Standing
from suite.submission.schema import SUBMISSIONS

if TYPE_CHECKING:
    from suite.site.community import Community

_COMMUNITY = (SUBMISSIONS, ATTESTATIONS, NOTICES, TRUSTED_NAME)
"""Where any of these lies, others have brought something, or said something of what lies there."""
_STATEMENT = "statement.dsse.json"
"""As `suite.signing` names it, which is loaded only where there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A folder that claims to be a bundle."""

    folder: Path
    place: str
    """`<name>/<stamp>-<lock digest>`."""
    key: str
    """Digest of the record's bytes and of the names, sizes and times of all files."""
    record_file_sha256: str
    record_sha256: str
    """As the record gives it for itself; not checked yet."""
    group: str
    """Bundles of different groups never stand in one table."""
    standing: Standing
    latest: bool = True
    """No later bundle of this name and owner lies beside it, and it was not withdrawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What lies below results folders."""

    found: tuple[Found, ...]
    private: tuple[PrivateFacts, ...]
    refused: tuple[Refused, ...]
    unknown: frozenset[str]
    """Places of bundles right below a folder of a checkout that git does not know: what a person measured there."""


def scan(
    results: Iterable[Path], *, known_groups: Mapping[str, tuple[str, str]], kept: Kept, published_only: bool = False
) -> Scan:
    """Find bundles.

    Args:
        results: Folders that hold `<name>/<stamp>-<lock digest>/`, and what others brought (docs/community.md).
        known_groups: Key -> group and `record_sha256`, from an earlier build.
        kept: Where builds remember what they made of others' folders.
        published_only: Pass over bundles that git does not know.

    Raises:
        InvalidInput: a folder is absent, one bundle lies in two of them, a list of trusted keys cannot be read, or only
            what git knows is wanted of a folder in no checkout.
        VerificationFailed: likewise of a list of trusted keys.
    """
    found: dict[str, Found] = {}
    private: dict[str, PrivateFacts] = {}
    refused: list[Refused] = []
    unknown: set[str] = set()
    for root in results:
        if not root.is_dir():
            raise InvalidInput("no such folder", where=str(root), hint="name a folder that `suite run` writes into")
        community = _community(root, kept)
        bundles, beside = _bundles(root, published_only=published_only)
        unknown |= beside
        for folder in bundles:
            place = f"{folder.parent.name}/{folder.name}"
            if place in found:
                raise InvalidInput(
                    f"the bundle {place} lies in two of the folders", hint="name each results folder once"
                )
            try:
                own = Standing()
                if (folder / _STATEMENT).exists():
                    from suite.site.community import own_signers

                    own = Standing(signers=own_signers(folder, kept=kept))
                found[place] = _found(folder, own, community, known_groups)
            except SuiteError as error:
                refused.append(Refused(place=place, reason=error.message))
        if community is not None:
            refused += community.refused
            for submitted in community.submitted:
                taken = found.get(submitted.bundle_id)
                same = taken is not None and taken.record_sha256 == submitted.record_sha256
                if (taken is not None and not same) or submitted.bundle_id in private:
                    reason = "another result has this name, time and lock already"
                    refused.append(Refused(place=f"submissions: {submitted.bundle_id}", reason=reason))
                elif submitted.private is not None:
                    if taken is None:
                        standing = community.standing(submitted.record_sha256, submitted.standing)
                        private[submitted.bundle_id] = submitted.private.model_copy(update={"standing": standing})
                else:
                    unknown.discard(submitted.bundle_id)  # its submission, which is to become public, stands for it
                    found[submitted.bundle_id] = _found(
                        Path(submitted.bundle), submitted.standing, community, known_groups
                    )
    ordered = [found[place] for place in sorted(found)]
    return Scan(
        found=tuple(_mark_latest(ordered)),
        private=tuple(private.values()),
        refused=tuple(refused),
        unknown=frozenset(unknown),
    )


def _bundles(root: Path, *, published_only: bool) -> tuple[list[Path], set[str]]:
    """Bundles right below a folder, and places of those among them that git does not know."""
    known = known_files(root)
    if published_only:
        if known is None:
            raise InvalidInput(
                "not in a checkout of git, so nothing tells what is published", where=str(root), hint="omit --published"
            )
        return known_bundles(root, known), set()
    bundles = find_bundles(root)
    beside = set() if known is None else set(bundles).difference(known_bundles(root, known))
    return bundles, {f"{folder.parent.name}/{folder.name}" for folder in beside}


def _community(root: Path, kept: Kept) -> Community | None:
    """None where nobody has brought anything: then nothing that reads signatures is loaded."""
    if not any((root / name).exists() for name in _COMMUNITY):
        return None
    from suite.site.community import read_community

    return read_community(root, kept=kept)


def _found(
    folder: Path, own: Standing, community: Community | None, known_groups: Mapping[str, tuple[str, str]]
) -> Found:
    data = read_file(folder, RECORD_NAME)
    record = sha256_bytes(data)
    key = _key(folder, record)
    group, record_sha256 = known_groups.get(key) or _group(data)
    return Found(
        folder=folder,
        place=f"{folder.parent.name}/{folder.name}",
        key=key,
        record_file_sha256=record,
        record_sha256=record_sha256,
        group=group,
        standing=own if community is None else community.standing(record_sha256, own),
    )


def _key(folder: Path, record_file_sha256: str) -> str:
    with os.scandir(folder) as entries:
        stats = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    files = sorted([name, status.st_size, status.st_mtime_ns] for name, status in stats)
    return key_of(str(folder), record_file_sha256, files)


def _group(data: bytes) -> tuple[str, str]:
    """By what a record says of its reference rows, and of itself; a record that says nothing is a group of its own.

    A lie puts a bundle among others with which it then shares no table: records are checked when they are measured.
    """
    try:
        record: Any = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    reference = record
    for name in ("evidence", "reference", "rows_sha256"):
        reference = reference.get(name) if isinstance(reference, dict) else None
    named = record.get("record_sha256") if isinstance(record, dict) else None
    group = key_of("group", reference if isinstance(reference, str) else sha256_bytes(data))
    return group, named if isinstance(named, str) else ""


def _mark_latest(found: list[Found]) -> list[Found]:
    newest: dict[tuple[str, str], str] = {}
    for one in found:
        if one.standing.withdrawal is None:
            name, _, folder = one.place.partition("/")
            owned = (one.standing.owner, name)
            newest[owned] = max(newest.get(owned, ""), folder)
    return [replace(one, latest=_is_latest(one, newest)) for one in found]


def _is_latest(one: Found, newest: Mapping[tuple[str, str], str]) -> bool:
    name, _, folder = one.place.partition("/")
    return one.standing.withdrawal is None and newest[one.standing.owner, name] == folder
