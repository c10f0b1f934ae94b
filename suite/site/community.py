"""What others brought to a results folder, for its site: submissions, attestations, notices, and the tiers that follow.

`suite.results.load_results` reads the same, all or nothing, and opens every bundle; here a part that does not hold is
left out with the reason, and a folder in which nothing changed is not hashed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from suite.bundle.find import folders_in
from suite.errors import SuiteError
from suite.files import sha256_file
from suite.intake.folder import gate_folder
from suite.results.attestation import ATTESTATION_NAME, Attestation, Attested, Consistent, read_attestation
from suite.results.layout import ATTESTATIONS, NOTICES
from suite.results.notice import read_notice
from suite.results.tier import tier_of
from suite.results.trusted import read_trusted
from suite.site.facts import Refused, plain
from suite.site.kept import Kept, of_folder
from suite.site.standing import CheckFacts, NoticeFacts, PrivateFacts, Standing
from suite.submission.private import Aggregates
from suite.submission.read import open_submission, signers_of
from suite.submission.schema import SUBMISSIONS


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Submitted(_Kept):
    """One submission whose record and signature hold; nothing is said yet of what others say of it."""

    bundle: str
    """Its bundle's folder; empty for a private one."""
    bundle_id: str
    record_sha256: str
    standing: Standing
    private: PrivateFacts | None = None


class _Check(_Kept):
    attestation: Attestation
    key_ids: tuple[str, ...]
    sha256: str


class _Signers(_Kept):
    key_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Community:
    """All of one results folder, and how its bundles stand by it."""

    submitted: tuple[Submitted, ...]
    refused: tuple[Refused, ...]
    checks: dict[str, list[tuple[Attested, str]]]
    """`record_sha256` -> attestations of it, each with its file's SHA-256."""
    notices: dict[str, list[NoticeFacts]]
    """`record_sha256` -> notices of it, oldest first."""
    trusted: dict[str, str]
    """Key id -> whose key it is."""

    def standing(self, record_sha256: str, own: Standing) -> Standing:
        """What a bundle brings itself, with what others say of it; the tier follows from both."""
        checks = self.checks.get(record_sha256, [])
        attested = [one for one, _ in checks]
        return own.model_copy(
            update={
                "tier": "self-reported"
                if own.origin == "private"
                else tier_of(record_sha256, own.signers, attested, frozenset(self.trusted)),
                "checks": tuple(
                    _check_facts(
                        one,
                        names={key: self.trusted[key] for key in one.key_ids if key in self.trusted},
                        counts=self._counts(one, own.signers),
                        sha256=sha256,
                    )
                    for one, sha256 in checks
                ),
                "notices": tuple(self.notices.get(record_sha256, ())),
            }
        )

    def _counts(self, attested: Attested, signers: Sequence[str]) -> bool:
        keys = set(attested.key_ids)
        return bool(keys & self.trusted.keys()) and not keys & set(signers)


def read_community(results: Path, *, kept: Kept) -> Community:
    """Everything below `results` but the maintainers' own bundles.

    Raises:
        InvalidInput: the list of trusted keys cannot be read: without it no tier can be told.
        VerificationFailed: likewise.
    """
    refused: list[Refused] = []
    submitted: list[Submitted] = []
    checks: dict[str, list[tuple[Attested, str]]] = defaultdict(list)
    notices: dict[str, list[NoticeFacts]] = defaultdict(list)

    def each(paths: Sequence[Path], take: Callable[[Path], None]) -> None:
        for path in paths:
            try:
                take(path)
            except SuiteError as error:
                refused.append(Refused(place=f"{path.parent.name}/{path.name}", reason=error.message))

    def take_check(folder: Path) -> None:
        check = of_folder(kept, folder, _Check, _read_check)
        one = Attested(attestation=check.attestation, key_ids=check.key_ids, folder=folder, bundle=None)
        checks[check.attestation.record_sha256].append((one, check.sha256))

    def take_notice(path: Path) -> None:
        notice = read_notice(path)
        facts = NoticeFacts(
            kind=notice.kind, created=notice.created, why=notice.why, replaced_by=notice.replaced_by or ""
        )
        notices[notice.record_sha256].append(facts)

    each(list(folders_in(results / ATTESTATIONS)), take_check)
    each(list(folders_in(results / SUBMISSIONS)), lambda f: submitted.append(of_folder(kept, f, Submitted, _submitted)))
    if (results / NOTICES).is_dir():
        each(sorted(p for p in (results / NOTICES).iterdir() if not p.name.startswith(".")), take_notice)
    return Community(
        submitted=tuple(submitted),
        refused=tuple(refused),
        checks=dict(checks),
        notices=dict(notices),
        trusted={key.key_id: key.name for key in read_trusted(results).keys},
    )


def own_signers(folder: Path, *, kept: Kept) -> tuple[str, ...]:
    """Key ids of those who signed one of the maintainers' bundles.

    Raises:
        VerificationFailed: a signature or a hash does not match.
    """
    return of_folder(kept, folder, _Signers, lambda f: _Signers(key_ids=signers_of(f, kind="result"))).key_ids


def _read_check(folder: Path) -> _Check:
    gate_folder(folder)
    attested = read_attestation(folder)
    return _Check(
        attestation=attested.attestation, key_ids=attested.key_ids, sha256=sha256_file(folder / ATTESTATION_NAME)
    )


def _submitted(folder: Path) -> Submitted:
    gate_folder(folder)
    opened = open_submission(folder)
    submission = opened.submission
    standing = Standing(
        origin="private" if opened.bundle is None else "submitted",
        # Nobody takes a place among another's results by giving theirs the same name.
        owner=submission.submitter or submission.id,
        signers=opened.signers,
        licence=submission.licence,
        note=submission.note,
    )
    return Submitted(
        bundle="" if opened.bundle is None else str(opened.bundle),
        bundle_id=submission.bundle_id,
        record_sha256=submission.record_sha256,
        standing=standing,
        private=None if opened.aggregates is None else _private(opened.aggregates, standing),
    )


def _private(found: Aggregates, standing: Standing) -> PrivateFacts:
    stack, totals = found.candidate, found.totals
    return PrivateFacts(
        bundle_id=found.bundle_id,
        record_sha256=found.record_sha256,
        created=found.created,
        name=stack.name,
        model=stack.model,
        weights=stack.weights,
        engine=stack.engine,
        image=stack.image,
        device=stack.device,
        reference=found.reference.name,
        path=found.path,
        factors=tuple(
            f"{factor.key}: {plain(factor.reference)} → {plain(factor.candidate)}" for factor in found.factors
        ),
        causal_claim=found.causal_claim,
        n=totals.n,
        num_turns=len(found.by_turn),
        flips=totals.flips,
        flips_tied=totals.flips_tied,
        flips_uncertain=totals.flips_uncertain,
        flips_leaning=totals.flips_leaning,
        flips_confident=totals.flips_confident,
        kl_mean=totals.kl_ref_cand_sum / totals.n if totals.n else 0.0,
        floor=tuple(start.flips for start in found.repeat_floor.starts[1:]),
        turns=tuple((turn.turn, turn.n, turn.flips, turn.flips_confident) for turn in found.by_turn),
        standing=standing,
    )


def _check_facts(attested: Attested, *, names: dict[str, str], counts: bool, sha256: str) -> CheckFacts:
    one, detail = attested.attestation, attested.attestation.detail
    if isinstance(detail, Consistent):
        drawn = "every row" if detail.method == "whole" else f"{detail.drawn:,} of {detail.rows:,} rows, drawn,"
        told = f"{drawn} computed again from the tensors supplied"
    else:
        told = (
            f"{detail.verdict}: {detail.identical_rows:,} of {detail.n:,} rows bit for bit, {detail.flips:,} flips "
            f"(repeat floor {detail.floor_flips:,}), on {'the same' if detail.same_hardware else 'other'} hardware"
        )
    return CheckFacts(
        name=attested.folder.name,
        folder=str(attested.folder),
        kind=one.kind,
        created=one.created,
        told=told,
        key_ids=attested.key_ids,
        key_names=names,
        counts=counts,
        own_record_sha256="" if isinstance(detail, Consistent) else detail.own_record_sha256,
        sha256=sha256,
    )
