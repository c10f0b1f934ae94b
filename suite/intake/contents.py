"""What lies in a folder that passed the gate: each file is read within bounds, and all must agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from suite.bundle.read import Bundle
from suite.bundle.schema import RECORD_NAME
from suite.errors import SuiteError
from suite.files import read_regular
from suite.intake.bundles import BundleIntake
from suite.intake.checking import Checking, NamedCheck
from suite.intake.folder import Tree
from suite.intake.limits import Limits
from suite.intake.outer import (
    Outer,
    attestation_checks,
    read_attestation_record,
    read_submission,
    submission_checks,
)
from suite.intake.refusal import Refused, finding_of
from suite.intake.report import IntakeReport, What
from suite.intake.statement import signers
from suite.intake.strict import bounded_json, check_shown_text, check_text
from suite.results.attestation import ATTESTATION_NAME, Attestation, read_attestations
from suite.results.tier import Tier, tier_of
from suite.results.trusted import read_trusted
from suite.signing import STATEMENT_NAMES, Kind
from suite.submission.schema import AGGREGATES_NAME, COMMITMENT_NAME, SUBMISSION_NAME, Submission

_TEXTS = ("manifest.yaml", "engine.log")
_SHOWN = frozenset({RECORD_NAME, SUBMISSION_NAME, ATTESTATION_NAME, AGGREGATES_NAME, COMMITMENT_NAME})
"""JSON whose every text a page may show; in others, names of kernels look like markup."""
_KINDS: dict[str, Kind] = {RECORD_NAME: "result", SUBMISSION_NAME: "submission", ATTESTATION_NAME: "attestation"}


def contents_report(tree: Tree, *, results: Path | None, limits: Limits, now: datetime) -> IntakeReport:
    """Check what was sent.

    Args:
        tree: A folder that passed the gate.
        results: The results folder that it would join.
        limits: Bounds.
        now: The present.
    """
    return _Contents(tree, results, limits, now).report()


class _Contents:
    """The checks of one tree, in the order in which each may rest on those before it."""

    def __init__(self, tree: Tree, results: Path | None, limits: Limits, now: datetime) -> None:
        self._tree = tree
        self._results = results
        self._limits = limits
        self._now = now
        self._checking = Checking()
        self._own_key_ids: tuple[str, ...] = ()
        self._key_ids: set[str] = set()
        self._bundle: Bundle | None = None
        self._named: Submission | Attestation | None = None

    def report(self) -> IntakeReport:
        if self._checking.run([("files", self._check_files)]) and self._checking.run(self._signatures()):
            self._check_contents()
        bundle_id = record_sha256 = None
        if self._named is not None:
            bundle_id, record_sha256 = self._named.bundle_id, self._named.record_sha256
        elif self._bundle is not None:
            bundle_id, record_sha256 = self._bundle.bundle_id, self._bundle.record.record_sha256
        return IntakeReport(
            what=self._what(),
            bundle_id=bundle_id,
            record_sha256=record_sha256,
            key_ids=tuple(sorted(self._key_ids)),
            tier=None if self._checking.findings else self._tier(record_sha256),
            findings=tuple(self._checking.findings),
            checks=tuple(self._checking.checks),
        )

    def _what(self) -> What:
        if self._tree.marker == ATTESTATION_NAME:
            return "attestation"
        if self._tree.marker == RECORD_NAME:
            return "bundle"
        private = isinstance(self._named, Submission) and self._named.kind == "private"
        return "private submission" if private else "submission"

    def _check_files(self) -> str:
        for path, size in self._tree.files.items():
            name = path.rpartition("/")[2]
            if name in STATEMENT_NAMES:
                continue  # read by the signatures' own, stricter reader
            if name.endswith(".json"):
                data = read_regular(self._tree.folder / path, limit_bytes=size, where=path)
                value = bounded_json(data, where=path, limits=self._limits)
                check_shown_text(value, where=path, markup=name in _SHOWN)
            elif name in _TEXTS:
                data = read_regular(self._tree.folder / path, limit_bytes=size, where=path)
                self._check_text_file(data, path)
        return f"{len(self._tree.files)} files within bounds"

    def _check_text_file(self, data: bytes, path: str) -> None:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise Refused("text-not-utf8", "not UTF-8 text", where=path) from error
        check_text(text, where=path)

    def _signatures(self) -> Iterator[NamedCheck]:
        for folder, kind in self._signed():
            yield f"signature of the {kind}", partial(self._signature, folder, kind)

    def _signed(self) -> Iterator[tuple[Path, Kind]]:
        yield self._tree.folder, _KINDS[self._tree.marker]
        if self._tree.bundle not in (None, self._tree.folder):
            assert self._tree.bundle is not None
            yield self._tree.bundle, "result"

    def _signature(self, folder: Path, kind: Kind) -> str:
        found = signers(folder, kind=kind, now=self._now, limits=self._limits)
        if folder == self._tree.folder:
            self._own_key_ids = found
        # The author of a bundle that an attester made is no signer of the attestation, and the other way round.
        if folder == self._tree.folder or self._tree.marker == SUBMISSION_NAME:
            self._key_ids |= set(found)
        return f"by {', '.join(found)}" if found else "unsigned"

    def _check_contents(self) -> None:
        outer = Outer(
            folder=self._tree.folder,
            files=self._tree.files,
            key_ids=self._own_key_ids,
            results=self._results,
            limits=self._limits,
            now=self._now,
        )
        try:
            if self._tree.marker == SUBMISSION_NAME:
                self._named = read_submission(outer)
            elif self._tree.marker == ATTESTATION_NAME:
                self._named = read_attestation_record(outer)
        except SuiteError as error:
            self._checking.refuse("record", finding_of(error, code="record"))
            return
        private = isinstance(self._named, Submission) and self._named.kind == "private"
        if self._tree.bundle is not None and not private:
            self._bundle = self._bundle_intake(self._tree.bundle).check(self._checking)
        if isinstance(self._named, Submission):
            self._checking.run(submission_checks(outer, self._named, self._bundle))
        elif isinstance(self._named, Attestation):
            self._checking.run(attestation_checks(outer, self._named, self._bundle))

    def _bundle_intake(self, folder: Path) -> BundleIntake:
        prefix = "" if folder == self._tree.folder else f"{folder.relative_to(self._tree.folder).as_posix()}/"
        return BundleIntake(
            folder=folder,
            sent=self._tree.folder,
            files={
                path.removeprefix(prefix): size for path, size in self._tree.files.items() if path.startswith(prefix)
            },
            key_ids=frozenset(self._key_ids),
            results=self._results,
            limits=self._limits,
            now=self._now,
        )

    def _tier(self, record_sha256: str | None) -> Tier | None:
        """What it gets with the attestations that are there already; None for an attestation."""
        if record_sha256 is None or self._tree.marker == ATTESTATION_NAME:
            return None
        private = isinstance(self._named, Submission) and self._named.kind == "private"
        if self._results is None or private:
            return "self-reported"
        trusted = read_trusted(self._results).key_ids
        return tier_of(record_sha256, self._key_ids, read_attestations(self._results), trusted)
