"""What stands around a bundle, or instead of it: a submission's and an attestation's own records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from suite.bundle.read import Bundle
from suite.bundle.schema import Factor
from suite.errors import InvalidInput, SuiteError
from suite.evidence.commitment import Commitment, parse_commitment
from suite.files import canonical_json, read_regular
from suite.intake.checking import NamedCheck
from suite.intake.history import read_known, read_private
from suite.intake.limits import Limits
from suite.intake.refusal import Refused
from suite.intake.runs import require_past
from suite.results.attestation import (
    ATTESTATION_NAME,
    Attestation,
    Reproduced,
    attestation_id,
    parse_attestation,
)
from suite.submission.private import AGGREGATES_LIMIT_BYTES, Aggregates, parse_aggregates
from suite.submission.schema import (
    AGGREGATES_NAME,
    COMMITMENT_NAME,
    SUBMISSION_NAME,
    Submission,
    parse_submission,
)

_COMMITMENT_LIMIT_BYTES = 16 << 20
_FACTOR_BYTES = 4_000
"""Of both values of a factor as JSON: settings, and never a list of token ids."""


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A submission or an attestation whose names and sizes passed the gate."""

    folder: Path
    files: Mapping[str, int]
    key_ids: tuple[str, ...]
    results: Path | None
    limits: Limits
    now: datetime

    @property
    def is_named(self) -> bool:
        """Whether its folder has a name: one that is being written, or was unpacked without a folder, has none."""
        return not self.folder.name.startswith(".")

    def read(self, name: str, limit_bytes: int) -> bytes:
        """One of its own files."""
        return read_regular(self.folder / name, limit_bytes=limit_bytes, where=name)


def read_submission(outer: Outer) -> Submission:
    """The record of a submission.

    Raises:
        Refused: `tier-claim`, or `submission-record`.
    """
    data = outer.read(SUBMISSION_NAME, outer.limits.json_bytes)
    try:
        return parse_submission(data, where=SUBMISSION_NAME)
    except InvalidInput as error:
        code = "tier-claim" if error.message.startswith("not a submission: tier") else "submission-record"
        raise Refused(code, error.message, where=SUBMISSION_NAME, hint="write it with `suite submit`") from error


def submission_checks(outer: Outer, submission: Submission, bundle: Bundle | None) -> Iterator[NamedCheck]:
    """Name and check of everything about a submission but the bundle in it."""
    yield "submission", lambda: _check_submission(outer, submission)
    yield "submitter", lambda: _check_submitter(outer, submission)
    if submission.kind == "private":
        yield "private", lambda: _check_private(outer, submission)
    else:
        yield "submitted bundle", lambda: _check_bundle(outer, submission, bundle)
        yield "commitment", lambda: _check_commitment(outer, submission)


def _check_submission(outer: Outer, submission: Submission) -> str:
    require_past(submission.created, now=outer.now, limits=outer.limits, where=f"{SUBMISSION_NAME}: created")
    if outer.is_named and outer.folder.name != submission.id:
        raise Refused("folder-name", f"the folder is not called {submission.id}", where=outer.folder.name)
    return f"{submission.kind}, {submission.id}, {submission.licence}"


def _check_submitter(outer: Outer, submission: Submission) -> str:
    if submission.submitter is None and not outer.key_ids:
        return "nobody signed it"
    if submission.submitter not in outer.key_ids:
        raise Refused(
            "other-submitter",
            f"names {submission.submitter} as submitter; signed by {', '.join(outer.key_ids) or 'nobody'}",
            where=f"{SUBMISSION_NAME}: submitter",
        )
    return f"signed by {', '.join(outer.key_ids)}"


def _check_private(outer: Outer, submission: Submission) -> str:
    for name in sorted(outer.files):
        if name == COMMITMENT_NAME or "/" in name:
            raise Refused(
                "private-carries-text",
                "a private submission holds no bundle and no commitment: token ids and rows are the session's text",
                where=name,
                hint="write it with `suite submit --private`, or say that the session is public",
            )
    if AGGREGATES_NAME not in outer.files:
        raise Refused(
            "file-missing", "a private submission holds aggregates, and they are missing", where=AGGREGATES_NAME
        )
    aggregates = _aggregates(outer)
    for factor in (*aggregates.factors, *aggregates.consequent):
        _check_factor(factor)
    if (aggregates.bundle_id, aggregates.record_sha256) != (submission.bundle_id, submission.record_sha256):
        raise Refused(
            "other-bundle", "the aggregates are of another bundle than the submission names", where=AGGREGATES_NAME
        )
    require_past(aggregates.created, now=outer.now, limits=outer.limits, where=f"{AGGREGATES_NAME}: created")
    if outer.results is not None:
        known = read_private(outer.results, but=outer.folder)
        known |= {one.record_sha256: one.bundle_id for one in read_known(outer.results, but=outer.folder)}
        if submission.record_sha256 in known:
            raise Refused("duplicate", f"{known[submission.record_sha256]} is here already", where=SUBMISSION_NAME)
    return f"counts of {len(aggregates.by_turn)} turns and keyed hashes; no text"


def _aggregates(outer: Outer) -> Aggregates:
    try:
        return parse_aggregates(outer.read(AGGREGATES_NAME, AGGREGATES_LIMIT_BYTES), where=AGGREGATES_NAME)
    except InvalidInput as error:
        extra = "Extra inputs" in error.message
        raise Refused(
            "private-carries-text" if extra else "aggregates", error.message, where=AGGREGATES_NAME
        ) from error


def _check_factor(factor: Factor) -> None:
    size = len(canonical_json([factor.reference, factor.candidate]))
    if size > _FACTOR_BYTES:
        raise Refused(
            "private-carries-text",
            f"the factor {ascii(factor.key)[1:-1]} has values of {size:,} bytes; a setting has fewer",
            where=AGGREGATES_NAME,
        )


def _check_bundle(outer: Outer, submission: Submission, bundle: Bundle | None) -> str:
    if bundle is None:
        raise Refused("file-missing", "a full submission holds a bundle that can be read; this one has none")
    if AGGREGATES_NAME in outer.files:
        raise Refused("unlisted-file", "aggregates belong to a private submission", where=AGGREGATES_NAME)
    if (bundle.bundle_id, bundle.record.record_sha256) != (submission.bundle_id, submission.record_sha256):
        raise Refused(
            "other-bundle", f"names {submission.bundle_id}, and holds {bundle.bundle_id}", where=SUBMISSION_NAME
        )
    if bundle.folder.parent.name != bundle.record.name:
        raise Refused(
            "folder-name", f"the bundle's folder does not lie in {bundle.record.name}", where=bundle.bundle_id
        )
    return f"holds {bundle.bundle_id}, as it says"


def _check_commitment(outer: Outer, submission: Submission) -> str:
    if COMMITMENT_NAME not in outer.files:
        if submission.commitment is not None:
            raise Refused("file-missing", "the submission names a commitment, and it is missing", where=COMMITMENT_NAME)
        return "none"
    found = _commitment(outer)
    note = submission.commitment
    if note is None or (note.root, note.leaves) != (found.root, found.leaves):
        raise Refused("other-commitment", "not the commitment that the submission names", where=COMMITMENT_NAME)
    if (found.bundle_id, found.record_sha256) != (submission.bundle_id, submission.record_sha256):
        raise Refused("other-commitment", f"a commitment to {found.bundle_id}", where=COMMITMENT_NAME)
    return f"to {found.leaves:,} rows, root {found.root[:12]}"


def _commitment(outer: Outer) -> Commitment:
    try:
        return parse_commitment(outer.read(COMMITMENT_NAME, _COMMITMENT_LIMIT_BYTES), where=COMMITMENT_NAME)
    except InvalidInput as error:
        raise Refused("commitment", error.message, where=COMMITMENT_NAME) from error


def read_attestation_record(outer: Outer) -> Attestation:
    """The record of an attestation.

    Raises:
        Refused: `attestation-record`.
    """
    try:
        return parse_attestation(outer.read(ATTESTATION_NAME, outer.limits.json_bytes), where=ATTESTATION_NAME)
    except SuiteError as error:
        raise Refused("attestation-record", error.message, where=ATTESTATION_NAME) from error


def attestation_checks(outer: Outer, attestation: Attestation, bundle: Bundle | None) -> Iterator[NamedCheck]:
    """Name and check of everything about an attestation but the bundle in it."""
    yield "attestation", lambda: _check_attestation(outer, attestation)
    yield "attester's bundle", lambda: _check_own(outer, attestation, bundle)
    if outer.results is not None:
        yield "attested bundle", lambda: _check_attested(outer, attestation)


def _check_attestation(outer: Outer, attestation: Attestation) -> str:
    require_past(attestation.created, now=outer.now, limits=outer.limits, where=f"{ATTESTATION_NAME}: created")
    if not outer.key_ids:
        raise Refused("unsigned-attestation", "nobody signed it: a word needs somebody who gives it")
    names = {attestation_id(attestation, key_id=key_id) for key_id in outer.key_ids}
    if outer.is_named and outer.folder.name not in names:
        raise Refused("folder-name", f"the folder is not called {min(names)}", where=outer.folder.name)
    return f"{attestation.kind}, of {attestation.bundle_id}, by {', '.join(outer.key_ids)}"


def _check_own(outer: Outer, attestation: Attestation, bundle: Bundle | None) -> str:
    detail = attestation.detail
    if bundle is None:
        if any("/" in name for name in outer.files):
            raise Refused("other-bundle", "the bundle in it cannot be read")
        return "none came with it"
    if not isinstance(detail, Reproduced) or detail.own_record_sha256 != bundle.record.record_sha256:
        raise Refused("other-bundle", "not the bundle that the attestation names as its own", where=bundle.bundle_id)
    if detail.own_record_sha256 == attestation.record_sha256:
        raise Refused("attests-itself", "the attester's own bundle is the one that is attested", where=bundle.bundle_id)
    return f"{bundle.bundle_id}, as it says"


def _check_attested(outer: Outer, attestation: Attestation) -> str:
    assert outer.results is not None
    known = {one.record_sha256: one for one in read_known(outer.results, but=outer.folder)}
    found = known.get(attestation.record_sha256)
    if found is None or found.bundle_id != attestation.bundle_id:
        raise Refused(
            "unknown-bundle", f"no bundle {attestation.bundle_id} with this record is here", where=ATTESTATION_NAME
        )
    if found.key_ids & set(outer.key_ids):
        raise Refused(
            "attests-own-bundle", "who signed a bundle attests to it", where=ATTESTATION_NAME, hint="somebody else must"
        )
    return f"{found.bundle_id} is here, signed by others or nobody"
