"""Before anything is written: whether a bundle may be published, holds, and has nothing secret in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from suite.bundle.read import Bundle, open_bundle
from suite.bundle.replays import find_session
from suite.bundle.report import Check, Report
from suite.bundle.verify import verify_bundle
from suite.capture.rows import RowFactory
from suite.errors import InvalidInput
from suite.observer import Observer
from suite.submission.schema import CommitmentNote, EvidencePacks, Licence
from suite.submission.secrets import Suspicion, suspicions_in, suspicions_in_factors, suspicions_in_session
from suite.workload.session import Session

UNLICENSED = "private"
"""Licence of a session as it is imported or recorded, until its owner says another."""
_SHOWN = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What the owner of a bundle says of its publication."""

    private: bool = False
    """Publish aggregates alone."""
    licence: str | None = None
    """As `spdx_licence` takes it; None for the session's own, which a private submission never has."""
    session_public: bool = False
    note: str = ""
    evidence: EvidencePacks | None = None
    commitment: Path | None = None
    """A `commitment.json` over this bundle."""
    reviewed: frozenset[str] = field(default_factory=frozenset)
    """Ids of suspicions that the owner looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """A bundle that may be submitted."""

    bundle: Bundle
    report: Report
    licence: str
    session: Session | None
    """The workload, where it is at hand."""
    commitment: CommitmentNote | None
    warnings: tuple[str, ...]
    """What the owner should know before saying yes."""


def preflight(
    folder: Path,
    terms: Terms,
    *,
    captures: Path | None,
    replay: RowFactory | None,
    root: Path,
    observer: Observer | None = None,
) -> Preflight:
    """Verify a bundle and look for what should not be published.

    Args:
        folder: The bundle.
        terms: What its owner says.
        captures: The capture store, where the ledger can be recomputed from.
        replay: Gives the rows of `hidden` captures.
        root: Folder with `workloads`, where the session may be.
        observer: Told of progress.

    Raises:
        InvalidInput: it may not be published on these terms, or holds what looks like secrets.
        VerificationFailed: it does not hold.
    """
    bundle = open_bundle(folder)
    given = None if terms.licence is None else spdx_licence(terms.licence, where="--licence")
    if not terms.private and not terms.session_public:
        raise InvalidInput(
            "its ledger holds the session's token ids, and they are its text",
            where=bundle.bundle_id,
            hint="say --session-public if everyone may read the session; --private publishes counts and sums alone",
        )
    report = verify_bundle(bundle.folder, captures=captures, replay=replay, root=root, observer=observer)
    report.require_passed()
    session = find_session(root, bundle.lock().workload.digest)
    licence = _licence(given, session, private=terms.private)
    if terms.private:
        require_reviewed(list(suspicions_in_factors(bundle.record)), terms.reviewed)
        return Preflight(bundle=bundle, report=report, licence=licence, session=session, commitment=None, warnings=())
    found = [*suspicions_in(bundle), *(suspicions_in_session(session) if session is not None else ())]
    require_reviewed(found, terms.reviewed)
    return Preflight(
        bundle=bundle,
        report=report,
        licence=licence,
        session=session,
        commitment=_commitment(terms.commitment, bundle),
        warnings=tuple(_warnings(terms, session, report.checks)),
    )


def require_reviewed(found: Collection[Suspicion], reviewed: Collection[str]) -> None:
    """Refuse suspicions that nobody looked at.

    Raises:
        InvalidInput: with kind, place and id of each.
    """
    left = list({one.id: one for one in found if one.id not in reviewed}.values())
    if not left:
        return
    lines = "".join(f"\n  {one.id}  {one.kind}, {one.where}: {one.excerpt}" for one in left[:_SHOWN])
    more = f"\n  and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    raise InvalidInput(
        f"{len(left)} things in it look like secrets or name your machine:{lines}{more}",
        hint="run again without them (suite workload scrub); say --reviewed ID for each that everyone may read",
    )


def _licence(given: str | None, session: Session | None, *, private: bool) -> str:
    if session is None or private:
        if given is None:
            told = (
                "nothing says under which licence the counts become public: the session's own is not theirs"
                if private
                else "nothing says under which licence it becomes public: the session, which might, is not at hand"
            )
            raise InvalidInput(told, where="--licence", hint="for instance --licence CC-BY-4.0")
        return given
    if session.licence == UNLICENSED:
        raise InvalidInput(
            "its licence is `private`: nobody has said that its text may be published",
            where=session.name,
            hint="set `licence` in the session if it may, and run again; --private publishes counts and sums alone",
        )
    own = spdx_licence(session.licence, where=f"{session.name}: licence")
    if given not in (None, own):
        raise InvalidInput(
            f"the session's own licence is {session.licence}",
            where="--licence",
            hint="leave it out, or change the session",
        )
    return own


def spdx_licence(text: str, *, where: str) -> str:
    """An SPDX expression, spelled as SPDX spells it.

    Args:
        text: In any case. `LicenseRef-NAME` stands for a licence that SPDX does not list.
        where: For messages.

    Raises:
        InvalidInput: no such expression, an id that SPDX does not list, or more than 100 characters.
    """
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        found = str(canonicalize_license_expression(text))
        return TypeAdapter(Licence).validate_python(found)
    except (InvalidLicenseExpression, ValidationError) as error:
        raise InvalidInput(
            f"no SPDX licence: {ascii(text)[:100]}",
            where=where,
            hint="for instance CC-BY-4.0, CC0-1.0 or Apache-2.0; LicenseRef-NAME for one that SPDX does not list",
        ) from error


def _commitment(path: Path | None, bundle: Bundle) -> CommitmentNote | None:
    if path is None:
        return None
    from suite.evidence.commitment import parse_commitment

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    found = parse_commitment(data, where=str(path))
    if found.record_sha256 != bundle.record.record_sha256:
        raise InvalidInput("a commitment to another bundle", where=str(path), hint="suite evidence commit")
    return CommitmentNote(root=found.root, leaves=found.leaves)


def _warnings(terms: Terms, session: Session | None, checks: Collection[Check]) -> list[str]:
    told = []
    if session is None:
        told.append("the session is not at hand, so that its own text was not looked through for secrets")
    elif session.provenance.kind == "recorded" and session.provenance.scrubbed is None:
        told.append("the session was recorded and never scrubbed")
    evidence = next((check for check in checks if check.name == "evidence"), None)
    if evidence is None or evidence.outcome != "passed":
        why = "no check of it was made" if evidence is None else evidence.detail
        told.append(f"its ledger was not recomputed before you send it: {why}")
    if terms.evidence is None and terms.commitment is None:
        told.append("without evidence packs and without a commitment nobody can recompute its ledger")
    return told
