"""What is new about a bundle: compared with every bundle of a results folder, it may repeat and contradict none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.bundle.band import member_of
from suite.bundle.find import find_bundles, folders_in
from suite.bundle.read import Bundle, open_bundle, read_file
from suite.bundle.schema import EvidencePair
from suite.errors import SuiteError
from suite.image.facts import FACTS_NAME, ImageFacts, parse_facts
from suite.intake.refusal import Refused
from suite.intake.stacks import Side, sides_of
from suite.manifest.lock import Lock, parse_lock
from suite.results.git import published_bundles
from suite.results.layout import ATTESTATIONS
from suite.signing import STATEMENT_NAME, read_folder_statement
from suite.submission.schema import BUNDLE_FOLDER, SUBMISSION_NAME, SUBMISSIONS, parse_submission


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """One bundle that was taken in before."""

    folder: Path
    bundle_id: str
    record_sha256: str
    evidence: EvidencePair
    has_image: bool
    key_ids: frozenset[str]
    """Who signed it or its submission."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A bundle beside all that are known."""

    bundle: Bundle
    candidate: Side
    reference: Side
    image: ImageFacts | None
    key_ids: frozenset[str]
    known: tuple[Known, ...]

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Name and check; each stands alone, raises `Refused`, and returns one line on what holds."""
        yield "new", self._check_new
        yield "measured once", self._check_measurement
        yield "rows of others", self._check_rows
        yield "known reference", self._check_reference
        yield "known checkpoints", self._check_checkpoints
        yield "known image", self._check_image
        yield "band of known members", self._check_band

    def _check_new(self) -> str:
        for known in self.known:
            if known.record_sha256 == self.bundle.record.record_sha256:
                if self.key_ids - known.key_ids:
                    raise Refused(
                        "re-signed",
                        f"the bundle {known.bundle_id}, which is here already, signed by somebody else",
                        hint="whose measurement it is was said when it was first sent; attest to it instead",
                    )
                raise Refused("duplicate", f"the bundle {known.bundle_id} is here already")
        return f"none of {len(self.known)} bundles is this one"

    def _check_measurement(self) -> str:
        ours = self.bundle.record.evidence
        for known in self.known:
            theirs = known.evidence
            is_same = known.record_sha256 == self.bundle.record.record_sha256
            if is_same or ours.candidate.index_sha256 != theirs.candidate.index_sha256:
                continue
            if ours.candidate.capture_digest != theirs.candidate.capture_digest:
                raise Refused(
                    "replayed-ledger",
                    f"its candidate is the capture of {known.bundle_id}, under another lock",
                    where="bundle.json: evidence.candidate.index_sha256",
                )
            if ours.reference.index_sha256 == theirs.reference.index_sha256 and not (self.key_ids & known.key_ids):
                raise Refused(
                    "sealed-anew",
                    f"the measurement of {known.bundle_id} under another record, by nobody who signed that",
                    where="bundle.json",
                    hint="its author corrects a bundle: `suite result correct`",
                )
        return "no other bundle rests on these two captures"

    def _check_rows(self) -> str:
        ours, same = self.bundle.record.evidence.candidate, 0
        for known in self.known:
            for name in ("candidate", "reference"):
                theirs = getattr(known.evidence, name)
                if ours.rows_sha256 != theirs.rows_sha256 or ours.capture_digest == theirs.capture_digest:
                    continue
                side = dict(zip(("candidate", "reference"), sides_of(known.folder), strict=True))[name]
                same += 1
                if side.arithmetic != self.candidate.arithmetic:
                    raise Refused(
                        "replayed-ledger",
                        f"every row is one of the {name} of {known.bundle_id}, whose dtypes or weights differ",
                        where="bundle.json: evidence.candidate.rows_sha256",
                        hint="another arithmetic gives other bits: these rows were made by that stack",
                    )
        return f"{same} captures of other locks gave the same bits, with the same arithmetic"

    def _check_reference(self) -> str:
        ours = self.bundle.record.evidence.reference
        same_probes = 0
        for known in self.known:
            theirs = known.evidence.reference
            if ours.index_sha256 == theirs.index_sha256:
                if ours != theirs:
                    raise Refused(
                        "reference-of-other-rows",
                        f"the reference capture of {known.bundle_id}, with another content",
                        where="bundle.json: evidence.reference",
                    )
                same_probes += 1
        if not same_probes:
            return "no other bundle here rests on this reference capture"
        return f"{same_probes} other bundles rest on the same reference rows"

    def _check_checkpoints(self) -> str:
        seen: dict[str, tuple[str, dict[str, str]]] = {}
        for known in self.known:
            for name in ("lock.json", "reference-lock.json"):
                lock = parse_lock(read_file(known.folder, name), where=f"{known.bundle_id}/{name}")
                if (origin := _origin(lock)) is not None:
                    seen.setdefault(origin, (known.bundle_id, _tensor_hashes(lock)))
        for side in (self.candidate, self.reference):
            bundle_id, theirs = seen.get(_origin(side.lock) or "", ("", {}))
            for path, digest in _tensor_hashes(side.lock).items():
                if theirs.get(path, digest) != digest:
                    raise Refused(
                        "other-checkpoint",
                        f"{path} is not the file that {bundle_id} loaded from the same revision",
                        where=side.lock_file,
                        hint="fetch the checkpoint again, or name where this one is from",
                    )
        return "where a revision is known, its files are the same"

    def _check_image(self) -> str:
        if self.image is None:
            return "no image"
        ours = _digests(self.image)
        for known in self.known:
            if not known.has_image:
                continue
            theirs = _digests(parse_facts(read_file(known.folder, FACTS_NAME), where=f"{known.bundle_id}/{FACTS_NAME}"))
            for kind, below in (("index_digest", "platform_digest"), ("platform_digest", "config_digest")):
                same_platform = ours["platform"] == theirs["platform"]
                if ours[kind] and ours[kind] == theirs[kind] and same_platform and ours[below] != theirs[below]:
                    raise Refused(
                        "patched-image",
                        f"{below} is {ours[below]}; {known.bundle_id} found {theirs[below]} under the same {kind}",
                        where=FACTS_NAME,
                        hint="one digest is one content: this image was changed",
                    )
            if ours["config_digest"] == theirs["config_digest"] and ours["diff_ids"] != theirs["diff_ids"]:
                raise Refused(
                    "patched-image", "one configuration with other layers", where=FACTS_NAME, hint="it was changed"
                )
        return "no known image has one of its digests and another content"

    def _check_band(self) -> str:
        by_id = {known.bundle_id: known for known in self.known}
        seen = 0
        for member in self.bundle.record.band:
            known = by_id.get(member.bundle)
            if known is None:
                continue
            seen += 1
            rows = (known.evidence.reference.rows_sha256, self.bundle.record.evidence.reference.rows_sha256)
            if member != member_of(open_bundle(known.folder)) or rows[0] != rows[1]:
                raise Refused(
                    "band-claim",
                    f"the band names {member.bundle} with other counts or other reference rows than it has",
                    where="bundle.json: band",
                )
        return f"{seen} of {len(self.bundle.record.band)} members are here, with the counts that it names"


def read_known(results: Path, *, but: Path) -> tuple[Known, ...]:
    """Every bundle of a results folder, of the maintainers and submitted, but those at or below `but`.

    In a checkout those of the maintainers are the ones that git knows: what else lies there a person measured, perhaps
    to submit it. What cannot be read is passed over: `suite result check` speaks of it.
    """
    own = [(folder, folder) for folder in published_bundles(results)]
    for outer in (SUBMISSIONS, ATTESTATIONS):
        for sent in folders_in(results / outer):
            own += [(folder, sent) for folder in find_bundles(sent / BUNDLE_FOLDER)]
    known = []
    skipped = but.resolve()
    for folder, signed in own:
        place = folder.resolve()
        if place == skipped or skipped in place.parents:
            continue
        try:
            bundle = open_bundle(folder)
            key_ids = {key for one in {folder, signed} for key in _key_ids(one)}
        except SuiteError:
            continue
        known.append(
            Known(
                folder=folder,
                bundle_id=bundle.bundle_id,
                record_sha256=bundle.record.record_sha256,
                evidence=bundle.record.evidence,
                has_image=FACTS_NAME in bundle.record.files,
                key_ids=frozenset(key_ids),
            )
        )
    return tuple(known)


def read_private(results: Path, *, but: Path) -> dict[str, str]:
    """`record_sha256` -> id of every private submission, but the one at `but`."""
    found = {}
    for sent in folders_in(results / SUBMISSIONS):
        path = sent / SUBMISSION_NAME
        if sent.resolve() == but.resolve() or not path.is_file() or path.is_symlink():
            continue
        try:
            submission = parse_submission(path.read_bytes(), where=str(path))
        except SuiteError:
            continue
        if submission.kind == "private":
            found[submission.record_sha256] = submission.id
    return found


def _key_ids(folder: Path) -> tuple[str, ...]:
    if not (folder / STATEMENT_NAME).exists():
        return ()
    signed = read_folder_statement(folder)
    return () if signed is None else signed.key_ids


def _origin(lock: Lock) -> str | None:
    """Where the files came from, to the revision; None where that is not known."""
    source = lock.model.source
    if source.revision is None and (source.pypi is None or source.pypi.wheel_sha256 is None):
        return None
    return source.model_dump_json()


def _tensor_hashes(lock: Lock) -> dict[str, str]:
    return {file.path: file.sha256 for file in lock.model.files if file.path.endswith(".safetensors")}


def _digests(facts: ImageFacts) -> dict[str, Any]:
    return facts.model_dump(
        mode="json", include={"platform", "index_digest", "platform_digest", "config_digest", "diff_ids"}
    )
