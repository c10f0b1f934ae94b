"""One bundle: bounded files, then a record that agrees with them, then what they say of one another and of the past."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from suite.branch.schema import FORKS_NAME
from suite.bundle.read import Bundle, open_bundle, read_file
from suite.bundle.report import Check
from suite.bundle.schema import RECORD_NAME, parse_record
from suite.bundle.verify import verify_bundle
from suite.errors import SuiteError
from suite.files import strict_json
from suite.image.facts import FACTS_NAME, parse_facts
from suite.intake.checking import Checking, NamedCheck
from suite.intake.history import History, read_known
from suite.intake.ledger import check_ledger_file
from suite.intake.limits import Limits
from suite.intake.refusal import Refused, finding_of
from suite.intake.report import Finding
from suite.intake.runs import RunClaims
from suite.intake.stacks import StackClaims, sides_of
from suite.intake.zipped import check_gzip
from suite.signing import STATEMENT_NAMES

_LEDGER = "ledger.parquet"
_VERIFY_CODES = {
    "record": "record",
    "files": "file-changed",
    "locks": "lock-contradiction",
    "signature": "signature",
    "receipts": "setting-not-effective",
    "packages": "versions-contradict",
    "factors": "factor-claim",
    "ledger": "ledger-contradiction",
    "headlines": "headline-claim",
    "tokens": "other-tokens",
    "repeat floor": "floor-claim",
    "numerical band": "band-claim",
    "arbiter": "arbiter-claim",
    "branches": "branch-claim",
    "replays": "replay-claim",
    "image": "patched-image",
}
"""Check of `suite verify` -> code."""
_SAID_BEFORE = {"packages": frozenset({"versions-contradict", "sbom-contradicts-receipt", "broken-sbom"})}
"""Check of `suite verify` -> codes of findings that said it before, and more exactly."""
_HINT = "get the bundle again from its author, or run its manifest"


@dataclass(frozen=True, kw_only=True)
class BundleIntake:
    """A bundle whose names and sizes passed the gate, and whose JSON and texts are bounded."""

    folder: Path
    sent: Path
    """What was sent: this folder, or the submission's around it."""
    files: Mapping[str, int]
    """Names and sizes of its own files."""
    key_ids: frozenset[str]
    results: Path | None
    limits: Limits
    now: datetime

    def check(self, checking: Checking) -> Bundle | None:
        """Check everything; returns the bundle where its record can be read."""
        if not checking.run(self._packed()):
            return None
        opened: list[Bundle] = []
        if not checking.run([("record", lambda: self._record(opened))]):
            return None
        bundle = opened[0]
        if not checking.run([("listed files", lambda: self._listed(bundle))]):
            return bundle
        self._claims(bundle, checking)
        self._verify(checking)
        return bundle

    def _packed(self) -> Iterator[NamedCheck]:
        if _LEDGER in self.files:
            yield "ledger file", self._ledger
        if FORKS_NAME in self.files:
            yield "forks file", self._forks

    def _ledger(self) -> str:
        check_ledger_file(self.folder / _LEDGER, self.limits)
        return "columns, rows and sizes of its footer are a ledger's"

    def _forks(self) -> str:
        check_gzip(self.folder / FORKS_NAME, self.limits)
        return "expands within bounds"

    def _record(self, opened: list[Bundle]) -> str:
        data = read_file(self.folder, RECORD_NAME)
        value = strict_json(data, where=RECORD_NAME)
        tier = value.get("tier") if isinstance(value, dict) else None
        if isinstance(tier, str) and tier != "self-reported":
            raise Refused(
                "tier-claim",
                f"claims the tier {tier}",
                where=f"{RECORD_NAME}: tier",
                hint="a bundle is self-reported; others' attestations lift it",
            )
        parse_record(data, where=RECORD_NAME)
        bundle = open_bundle(self.folder)
        opened.append(bundle)
        return f"{bundle.bundle_id}, whole and well-formed"

    def _listed(self, bundle: Bundle) -> str:
        found, listed = self.files.keys() - {RECORD_NAME, *STATEMENT_NAMES}, bundle.record.files.keys()
        for name in sorted(listed - found):
            raise Refused("file-missing", "the record names this file, and it is missing", where=name, hint=_HINT)
        for name in sorted(found - listed):
            raise Refused("file-added", "the record does not name this file", where=name, hint=_HINT)
        return f"{len(found)} files, those that the record names"

    def _claims(self, bundle: Bundle, checking: Checking) -> None:
        try:
            candidate, reference = sides_of(bundle.folder)
            image = None
            if FACTS_NAME in bundle.record.files:
                image = parse_facts(bundle.read(FACTS_NAME), where=FACTS_NAME)
        except SuiteError as error:
            checking.refuse("stacks", finding_of(error, code="broken-stack"))
            return
        checking.run(StackClaims(bundle=bundle, candidate=candidate, reference=reference).checks())
        runs = RunClaims(bundle=bundle, candidate=candidate, reference=reference, now=self.now, limits=self.limits)
        checking.run(runs.checks())
        if self.results is None:
            checking.checks.append(Check(name="history", outcome="not done", detail="no results folder was given"))
            return
        history = History(
            bundle=bundle,
            candidate=candidate,
            reference=reference,
            image=image,
            key_ids=self.key_ids,
            known=read_known(self.results, but=self.sent),
        )
        checking.run(history.checks())

    def _verify(self, checking: Checking) -> None:
        report = verify_bundle(self.folder, yaml=False)
        checking.checks += [check for check in report.checks if check.outcome != "failed"]
        failure, said = report.failure, {finding.code for finding in checking.findings}
        if failure is not None and not said & _SAID_BEFORE.get(failure.name, frozenset()):
            code = _VERIFY_CODES.get(failure.name, failure.name.replace(" ", "-").lower())
            checking.refuse(failure.name, Finding(code=code, where="", message=failure.detail, hint=_HINT))
