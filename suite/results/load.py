"""Everything that is known of the bundles below one results folder: the one thing that site, index and checks read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from suite.bundle.find import folders_in
from suite.bundle.read import open_bundle
from suite.errors import VerificationFailed
from suite.results.attestation import Attested, read_attestations
from suite.results.git import known_bundles, known_files
from suite.results.notice import Notice, read_notices
from suite.results.tier import Tier, tier_of
from suite.results.trusted import TrustedKeys, read_trusted
from suite.submission.read import OpenSubmission, open_submission, signers_of
from suite.submission.schema import SUBMISSIONS

Origin = Literal["own", "submitted", "private"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One bundle, or the aggregates of a private one."""

    bundle_id: str
    record_sha256: str
    origin: Origin
    """Of the maintainers, submitted whole, or submitted as aggregates."""
    bundle: Path | None
    """The bundle's folder; None for `private`."""
    submission: OpenSubmission | None
    """None for `own`."""
    signers: tuple[str, ...]
    """Key ids of everyone who signed the bundle or its submission, sorted."""
    tier: Tier
    attestations: tuple[Attested, ...]
    """Of this bundle, by trusted keys or not."""
    notices: tuple[Notice, ...]
    """Oldest first."""

    @property
    def name(self) -> str:
        """Of the bundle."""
        return self.bundle_id.partition("/")[0]

    @property
    def withdrawal(self) -> Notice | None:
        """Why it no longer counts: the first withdrawal; None where it stands."""
        return next((notice for notice in self.notices if notice.kind == "withdrawal"), None)

    @property
    def is_withdrawn(self) -> bool:
        """A withdrawn result stands in no rank and stays visible as withdrawn."""
        return self.withdrawal is not None

    @property
    def corrections(self) -> tuple[Notice, ...]:
        """Oldest first."""
        return tuple(notice for notice in self.notices if notice.kind == "correction")


@dataclass(frozen=True, kw_only=True)
class Results:
    """All results of one folder, in order of their ids."""

    folder: Path
    results: tuple[Result, ...]
    trusted: TrustedKeys
    attestations: tuple[Attested, ...]
    """All, also those of bundles that are not here."""
    notices: tuple[Notice, ...]
    """All, also those of bundles that are not here."""

    @cached_property
    def by_record(self) -> dict[str, Result]:
        """`record_sha256` -> result."""
        return {result.record_sha256: result for result in self.results}

    @cached_property
    def by_id(self) -> dict[str, Result]:
        """`bundle_id` -> result."""
        return {result.bundle_id: result for result in self.results}


def load_results(results: Path) -> Results:
    """Read a results folder: bundles' records, submissions, attestations with their signatures, notices, keys.

    Every signed folder is hashed whole; ledgers are not recomputed (see `suite.intake`).

    Args:
        results: As `docs/community.md` lays it out; a folder of plain bundles is one too.
            In a git checkout, bundles right below it that git does not know are passed over: what a person measured
            there. Elsewhere such a bundle may lie beside its own full submission, which then stands for it; a private
            one does not say of which bundle it is.

    Raises:
        InvalidInput: a file there cannot be read as what it must be.
        VerificationFailed: a signature or hash does not match, or one bundle stands twice.
    """
    trusted = read_trusted(results)
    attestations, notices = read_attestations(results), read_notices(results)
    attested: dict[str, list[Attested]] = defaultdict(list)
    for one in attestations:
        attested[one.attestation.record_sha256].append(one)
    noticed: dict[str, list[Notice]] = defaultdict(list)
    for notice in notices:
        noticed[notice.record_sha256].append(notice)
    found: dict[str, Result] = {}
    known = known_files(results)
    for plain in _plain(results, known):
        record = plain.record_sha256
        other = found.get(record)
        if other is not None and (other.origin != "own" or known is not None):
            raise VerificationFailed(
                f"the same bundle as {other.bundle_id}", where=plain.bundle_id, hint="keep one of them"
            )
        ours = tuple(attested[record])
        private = plain.origin == "private"
        found[record] = Result(
            bundle_id=plain.bundle_id,
            record_sha256=record,
            origin=plain.origin,
            bundle=plain.bundle,
            submission=plain.submission,
            signers=plain.signers,
            tier="self-reported" if private else tier_of(record, plain.signers, ours, trusted.key_ids),
            attestations=ours,
            notices=tuple(noticed[record]),
        )
    return Results(
        folder=results,
        results=tuple(sorted(found.values(), key=lambda result: result.bundle_id)),
        trusted=trusted,
        attestations=attestations,
        notices=notices,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plain:
    bundle_id: str
    record_sha256: str
    origin: Origin
    bundle: Path | None
    submission: OpenSubmission | None
    signers: tuple[str, ...]


def _plain(results: Path, known: frozenset[str] | None) -> Iterator[_Plain]:
    for folder in known_bundles(results, known):
        bundle = open_bundle(folder)
        if bundle.record.name != folder.parent.name:
            raise VerificationFailed(f"the folder is not called {bundle.record.name}", where=str(folder.parent))
        yield _Plain(
            bundle_id=bundle.bundle_id,
            record_sha256=bundle.record.record_sha256,
            origin="own",
            bundle=folder,
            submission=None,
            signers=signers_of(folder, kind="result"),
        )
    for folder in folders_in(results / SUBMISSIONS):
        opened = open_submission(folder)
        yield _Plain(
            bundle_id=opened.submission.bundle_id,
            record_sha256=opened.submission.record_sha256,
            origin="private" if opened.bundle is None else "submitted",
            bundle=opened.bundle,
            submission=opened,
            signers=opened.signers,
        )
