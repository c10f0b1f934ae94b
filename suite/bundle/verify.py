"""Verifying a bundle: every claim in it is computed again from what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from suite.branch.schema import BRANCHES_NAME
from suite.bundle.arbiter import ARBITER_NAME, check_arbiter, read_arbiter
from suite.bundle.band import member_of
from suite.bundle.branches import check_branches, read_branches
from suite.bundle.claims import require_same, require_same_value
from suite.bundle.derive import contrast
from suite.bundle.evidence import check_evidence
from suite.bundle.own_manifest import MANIFEST_NAME, check_manifest
from suite.bundle.packages import SBOM_NAME, check_pins, check_sbom, receipt_packages
from suite.bundle.read import Bundle, open_bundle, read_file
from suite.bundle.replays import check_replays, find_session, read_replays
from suite.bundle.report import Check, Report
from suite.bundle.schema import RECORD_NAME, BandMember
from suite.capture.rows import RowFactory
from suite.errors import MissingPrerequisite, RunFailed, SuiteError, VerificationFailed
from suite.files import sha256_bytes
from suite.image.facts import FACTS_NAME, parse_facts, require_pinned
from suite.manifest.lock import Lock
from suite.manifest.positions import probe_positions
from suite.observer import Observer, SilentObserver
from suite.records import first_problem
from suite.replay.schema import REPLAYS_NAME
from suite.score.check import check_ledger
from suite.score.floor import Repeats, floor_of
from suite.score.ledger import Ledger, read_ledger
from suite.score.summary import summarise
from suite.workload.rendered import tokens_sha256

_MOST_FILES = 64
_JSON_FILES = ("performance.json", "receipt.json", "reference-receipt.json", "sbom.cdx.json")


class NotDone(Exception):
    """A check that cannot be made with what is at hand; its text says what is missing."""


def verify_bundle(
    path: Path,
    *,
    captures: Path | None = None,
    replay: RowFactory | None = None,
    evidence: Path | None = None,
    root: Path | None = None,
    yaml: bool = True,
    observer: Observer | None = None,
) -> Report:
    """Check everything in a bundle that can be checked with what is at hand.

    Args:
        path: The bundle's folder; treated as hostile.
        captures: A capture store (`<capture digest>/start-<k>/`); the ledger is computed again where it holds both
            sides' evidence. None for none.
        replay: Gives the rows of `hidden` captures.
        evidence: Another capture store, of evidence packs that came from elsewhere. None for none.
        root: Folder with `workloads`, whose sessions let verdicts of turn replays be computed again. None for none.
        yaml: Whether the manifest may be parsed; intake parses no YAML of strangers.
        observer: Told of progress.

    Returns:
        A report; a failed check is not raised (see `Report.require_passed`), and those that rest on it are not made.
    """
    observer = observer or SilentObserver()
    verification = _Verification(
        path=path, captures=captures, replay=replay, packs=evidence, root=root, yaml=yaml, observer=observer
    )
    checks: list[Check] = []
    failed = ""
    for name, check in verification.checks():
        if failed:
            checks.append(Check(name=name, outcome="not done", detail=f"rests on the failed check: {failed}"))
            continue
        observer.note(f"checking {name}")
        try:
            checks.append(Check(name=name, outcome="passed", detail=check()))
        except NotDone as reason:
            checks.append(Check(name=name, outcome="not done", detail=str(reason)))
        except SuiteError as error:
            where = f"{error.where}: " if error.where else ""
            hint = f" ({error.hint})" if error.hint else ""
            checks.append(Check(name=name, outcome="failed", detail=f"{where}{error.message}{hint}"))
            failed = failed or name
    return Report(folder=path, checks=tuple(checks))


@dataclass(kw_only=True, slots=True)
class _Verification:
    """The checks of one bundle. Each returns one line on what holds, and keeps what later ones need."""

    path: Path
    captures: Path | None
    replay: RowFactory | None
    packs: Path | None
    root: Path | None
    yaml: bool
    observer: Observer
    bundle: Bundle = field(init=False)
    lock: Lock = field(init=False)
    reference_lock: Lock = field(init=False)
    ledger: Ledger = field(init=False)

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Name and check; each rests on those before it."""
        yield "record", self.check_record
        yield "files", self.check_files
        yield "signature", self.check_signature
        yield "locks", self.check_locks
        yield "manifest", self.check_manifest
        yield "receipts", self.check_receipts
        yield "packages", self.check_packages
        yield "factors", self.check_factors
        yield "ledger", self.check_ledger
        yield "headlines", self.check_headlines
        yield "tokens", self.check_tokens
        yield "repeat floor", self.check_floor
        yield "numerical band", self.check_band
        # Unset after a record that could not be read.
        bundle = getattr(self, "bundle", None)
        if bundle is not None and ARBITER_NAME in bundle.record.files:
            yield "arbiter", self.check_arbiter
        if bundle is not None and BRANCHES_NAME in bundle.record.files:
            yield "branches", self.check_branches
        if bundle is not None and REPLAYS_NAME in bundle.record.files:
            yield "replays", self.check_replays
        if bundle is not None and FACTS_NAME in bundle.record.files:
            yield "image", self.check_image
        yield "evidence", self.check_evidence

    def check_record(self) -> str:
        self.bundle = open_bundle(self.path)
        if self.bundle.folder.name != self.bundle.record.folder_name:
            raise VerificationFailed(f"the folder is not called {self.bundle.record.folder_name}", where=RECORD_NAME)
        return "bundle.json is whole and well-formed"

    def check_files(self) -> str:
        files = self.bundle.record.files
        found = {entry.name for entry in islice(self.bundle.folder.iterdir(), _MOST_FILES)}
        for name in sorted(found - files.keys() - {RECORD_NAME} - _statement_names(found)):
            raise VerificationFailed("a file that the bundle does not name", where=ascii(name)[1:-1])
        for name in sorted(files.keys() - found):
            raise VerificationFailed("a file that the bundle names is missing", where=name)
        for name in sorted(files):
            if sha256_bytes(read_file(self.bundle.folder, name)) != files[name]:
                raise VerificationFailed("its SHA-256 is not the one that the bundle names", where=name)
        for name in _JSON_FILES:
            if name in files:
                self.bundle.json_object(name)
        return f"{len(files)} files, each with the SHA-256 that bundle.json names"

    def check_signature(self) -> str:
        found = {entry.name for entry in islice(self.bundle.folder.iterdir(), _MOST_FILES)}
        if not _statement_names(found):
            raise NotDone("unsigned: nobody says whose it is")
        from suite.signing import who_signed

        signers = who_signed(self.bundle.folder, kind="result")
        assert signers is not None
        if not signers.key_ids and signers.sigstore is None:
            raise NotDone(signers.told())
        return f"{signers.told()}: says who, and not that it is right"

    def check_locks(self) -> str:
        record = self.bundle.record
        self.lock, self.reference_lock = self.bundle.lock(), self.bundle.lock("reference-lock.json")
        evidence = record.evidence
        require_same("name", record.name, self.lock.name, where="lock.json")
        require_same("digest", record.lock_digest, self.lock.digest, where="lock.json")
        require_same("digest", record.reference_lock_digest, self.reference_lock.digest, where="reference-lock.json")
        for name, lock, side in (
            ("lock.json", self.lock, evidence.candidate),
            ("reference-lock.json", self.reference_lock, evidence.reference),
        ):
            require_same("capture digest", side.capture_digest, lock.capture_digest, where=name)
            require_same("capture path", side.path, lock.capture.path, where=name)
            bounds = list(chain.from_iterable(lock.capture.ranges))
            if any(a > b for a, b in pairwise([0, *bounds, lock.workload.num_tokens])):
                raise VerificationFailed("its capture ranges are not sorted and disjoint", where=name)
        require_same(
            "tokens_sha256",
            self.lock.workload.tokens_sha256,
            self.reference_lock.workload.tokens_sha256,
            where="reference-lock.json",
        )
        return f"lock {record.lock_digest[:12]} against reference lock {record.reference_lock_digest[:12]}"

    def check_receipts(self) -> str:
        record = self.bundle.record
        for name, side in (
            ("receipt.json", record.evidence.candidate),
            ("reference-receipt.json", record.evidence.reference),
        ):
            require_same("SHA-256", side.receipt_sha256, record.files[name], where=name)
            receipt = self.bundle.json_object(name)
            requested, effective = receipt.get("requested"), receipt.get("effective")
            if not isinstance(requested, dict) or not isinstance(effective, dict):
                raise VerificationFailed("holds no requested and effective settings", where=name)
            for key, wanted in sorted(requested.items()):
                if wanted is not None and effective.get(key) != wanted:
                    raise VerificationFailed(
                        f"{key}: requested {wanted!r}, effective {effective.get(key)!r}", where=name
                    )
        return "both are the captures' own; every requested setting was effective"

    def check_manifest(self) -> str:
        if not self.yaml:
            raise NotDone("no YAML is parsed here")
        return check_manifest(self.bundle.read(MANIFEST_NAME), self.lock)

    def check_packages(self) -> str:
        found = {}
        for name, lock in (("receipt.json", self.lock), ("reference-receipt.json", self.reference_lock)):
            found[name] = receipt_packages(self.bundle.json_object(name), where=name)
            check_pins(lock, found[name], where=name)
        packages = found["receipt.json"]
        if not packages:
            raise NotDone("the receipt names no package")
        if SBOM_NAME not in self.bundle.record.files:
            raise NotDone(f"there is no SBOM; {len(packages)} packages of the receipt agree with the lock's pins")
        told, absent = check_sbom(self.bundle.read(SBOM_NAME), packages)
        if absent:
            raise NotDone(told)
        return told

    def check_factors(self) -> str:
        record = self.bundle.record
        stacks = contrast(
            self.reference_lock,
            self.lock,
            reference_receipt=self.bundle.json_object("reference-receipt.json"),
            candidate_receipt=self.bundle.json_object("receipt.json"),
        )
        for name in ("factors", "consequent", "causal_claim"):
            require_same_value(name, getattr(record, name), getattr(stacks, name))
        names = ", ".join(factor.key for factor in record.factors) or "none: the same stack again"
        return f"factors: {names}"

    def check_ledger(self) -> str:
        self.ledger = read_ledger(self.bundle.folder / "ledger.parquet")
        facts, lock, evidence = self.ledger.facts, self.lock, self.bundle.record.evidence
        check_ledger(self.ledger)
        where = "ledger.parquet"
        require_same("tokens_sha256", lock.workload.tokens_sha256, facts.tokens_sha256, where=where)
        require_same("num_tokens", lock.workload.num_tokens, facts.num_tokens, where=where)
        require_same("path", lock.capture.path, facts.path, where=where)
        for side, column in (("reference", "ref"), ("candidate", "cand")):
            named = getattr(evidence, side)
            require_same("dtype", named.dtype, getattr(facts, f"{column}_dtype"), where=where)
            hashes = self.ledger.columns[f"{column}_row_sha256"]
            require_same(f"{side}'s rows_sha256", named.rows_sha256, sha256_bytes(hashes.tobytes()), where=where)
            require_same("number of probes", named.num_rows, self.ledger.num_rows, where=where)
        capture = lock.capture
        expected = probe_positions(
            path=capture.path, stride=capture.stride, ranges=capture.ranges, num_tokens=facts.num_tokens
        )
        positions = self.ledger.columns["position"].tolist()
        if positions != expected:
            pairs = zip(positions, expected, strict=False)
            at = next((a for a, b in pairs if a != b), "the end")
            raise VerificationFailed(
                f"its positions are not those of the lock's capture policy, first at {at}", where=where
            )
        return f"{self.ledger.num_rows:,} probes, at the positions of the lock, consistent in themselves"

    def check_headlines(self) -> str:
        record = self.bundle.record
        headlines = summarise(self.ledger)
        require_same_value("headlines", record.headlines, headlines)
        require_same_value("off_policy", record.off_policy, headlines.off_policy)
        if headlines.invalid_rows:
            raise VerificationFailed(f"{headlines.invalid_rows} rows are not finite; such a run is no result")
        return f"{headlines.flips} flips of {headlines.n} probes and all other headlines follow from the ledger"

    def check_tokens(self) -> str:
        columns, facts = self.ledger.columns, self.ledger.facts
        ids = np.full(facts.num_tokens, -1, dtype=np.int64)
        ids[columns["position"]] = columns["token_id"]
        ids[columns["position"] + 1] = columns["target_id"]
        known = int((ids >= 0).sum())
        if known < facts.num_tokens:
            raise NotDone(f"the ledger holds {known:,} of {facts.num_tokens:,} token ids; the rest is not at hand")
        require_same(
            "tokens_sha256", self.lock.workload.tokens_sha256, tokens_sha256(map(int, ids)), where="ledger.parquet"
        )
        return "the ledger's token ids are the workload's"

    def check_floor(self) -> str:
        where = "repeats.json"
        try:
            self.bundle.json_object(where)
            repeats = Repeats.model_validate_json(self.bundle.read(where))
        except ValidationError as error:
            raise VerificationFailed(first_problem(error), where=where) from error
        side = self.bundle.record.evidence.candidate
        start = repeats.starts[0]
        require_same("capture_digest", side.capture_digest, repeats.capture_digest, where=where)
        for key in ("start", "rows_sha256", "index_sha256", "receipt_sha256"):
            require_same(f"the first start's {key}", getattr(side, key), getattr(start, key), where=where)
        require_same("number of probes", self.ledger.num_rows, start.n, where=where)
        self._check_repeat_flips(repeats)
        require_same_value("repeat_floor", self.bundle.record.repeat_floor, floor_of(repeats))
        return self.bundle.record.repeat_floor.text()

    def _check_repeat_flips(self, repeats: Repeats) -> None:
        columns = self.ledger.columns
        top1 = dict(zip(columns["position"].tolist(), columns["cand_top1"].tolist(), strict=True))
        for start in repeats.starts:
            positions = [flip.position for flip in start.flips]
            if sorted(set(positions)) != positions:
                raise VerificationFailed(f"the flips of start {start.start} are not in order", where="repeats.json")
            for flip in start.flips:
                if top1.get(flip.position) != flip.first_top1:
                    raise VerificationFailed(
                        f"start {start.start}, position {flip.position}: {flip.first_top1} is not start 0's top-1",
                        where="repeats.json",
                    )

    def check_band(self) -> str:
        band = self.bundle.record.band
        if not band:
            raise NotDone("the bundle names no member")
        results = self.bundle.folder.parent.parent
        seen = 0
        for member in band:
            folder = results / member.bundle
            if (folder / RECORD_NAME).is_file():
                self._check_member(member, folder)
                seen += 1
        if seen < len(band):
            raise NotDone(f"{len(band) - seen} of {len(band)} members' bundles are not at hand; the others agree")
        return f"{len(band)} members, each with the counts of its own bundle"

    def _check_member(self, member: BandMember, folder: Path) -> None:
        other = open_bundle(folder)
        require_same_value(f"band member {member.name}", member, member_of(other))
        require_same("role", "band", other.lock().role, where=member.bundle)
        rows = other.record.evidence.reference.rows_sha256
        require_same("reference rows", self.bundle.record.evidence.reference.rows_sha256, rows, where=member.bundle)

    def check_arbiter(self) -> str:
        record = read_arbiter(self.bundle)
        assert record is not None
        return check_arbiter(
            record, self.ledger, reference=self.reference_lock, candidate=self.lock, captures=self.captures
        )

    def check_image(self) -> str:
        facts = parse_facts(read_file(self.bundle.folder, FACTS_NAME), where=FACTS_NAME)
        image = self.lock.runtime.image
        if image is None:
            raise VerificationFailed("names an image, but the stack is a process", where=FACTS_NAME)
        require_pinned(image, facts, where=FACTS_NAME)
        return f"configuration {facts.config_digest}, {len(facts.diff_ids)} layers, as locked"

    def check_branches(self) -> str:
        found = read_branches(self.bundle)
        assert found is not None
        return check_branches(
            found,
            self.bundle.record.branches,
            self.ledger,
            lock=self.lock,
            reference_lock=self.reference_lock,
            evidence=self.bundle.record.evidence,
            session=None if self.root is None else find_session(self.root, self.lock.workload.digest),
            captures=self.captures,
        )

    def check_replays(self) -> str:
        record = read_replays(self.bundle)
        assert record is not None
        session = None if self.root is None else find_session(self.root, self.lock.workload.digest)
        return check_replays(
            record, self.bundle.record.replays, lock=self.lock, reference=self.reference_lock, session=session
        )

    def check_evidence(self) -> str:
        try:
            return check_evidence(
                self.bundle.record.evidence,
                self.ledger,
                ranges=self.lock.capture.ranges,
                captures=[store for store in (self.packs, self.captures) if store is not None],
                replay=self.replay,
                observer=self.observer,
            )
        except (MissingPrerequisite, RunFailed) as error:
            what = "evidence not at hand" if isinstance(error, MissingPrerequisite) else "rows cannot be replayed here"
            where = f"{error.where}: " if error.where else ""
            raise NotDone(f"{what}: ledger not recomputed ({where}{error.message})") from error


def _statement_names(found: set[str]) -> set[str]:
    """Of these files those that hold signatures; a statement names every file but itself."""
    if not any(name.startswith("statement.") for name in found):
        return set()  # and the cryptography is not imported
    from suite.signing.folder import STATEMENT_NAMES

    return found.intersection(STATEMENT_NAMES)
