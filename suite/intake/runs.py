"""What the files of a bundle say of its run: when it was, how often it was started, and whose rows it shows.

Nothing here shows that a stranger is honest. Each check makes one cheap lie contradict another file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from suite.bundle.read import Bundle
from suite.errors import InvalidInput
from suite.image.facts import FACTS_NAME
from suite.intake.limits import Limits
from suite.intake.refusal import Refused
from suite.intake.stacks import Side
from suite.records import parse_strictly
from suite.score.floor import Repeats
from suite.untyped import as_dict, as_list

_NAME_LINE = re.compile(rb"(?m)^name:[ \t]*['\"]?([a-z0-9][a-z0-9._-]*)['\"]?[ \t]*(?:#.*)?\r?$")


@dataclass(frozen=True, kw_only=True)
class RunClaims:
    """One bundle's run."""

    bundle: Bundle
    candidate: Side
    reference: Side
    now: datetime
    limits: Limits

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Name and check; each stands alone, raises `Refused`, and returns one line on what holds."""
        yield "times", self._check_times
        yield "manifest", self._check_manifest
        yield "image", self._check_image
        yield "starts", self._check_starts
        yield "rows", self._check_rows

    def _check_times(self) -> str:
        record = self.bundle.record
        require_past(record.created, now=self.now, limits=self.limits, where="bundle.json: created")
        return f"made {record.created}, not in the future"

    def _check_manifest(self) -> str:
        """The manifest is looked at as text: it is never parsed as YAML here."""
        data = self.bundle.read("manifest.yaml")
        found = [match.decode() for match in _NAME_LINE.findall(data)]
        if found and found != [self.bundle.record.name]:
            raise Refused(
                "manifest-of-another-stack",
                f"names the stack {found[0]}, the bundle {self.bundle.record.name}",
                where="manifest.yaml",
            )
        if not found:
            return "names no stack in plain text; not compared"
        return f"names {found[0]}, as the bundle does"

    def _check_image(self) -> str:
        """Digests against the lock are compared by `suite verify`."""
        lock = self.candidate.lock
        image = lock.runtime.image
        if image is None:
            return "the stack is a process"
        if FACTS_NAME not in self.bundle.record.files:
            raise Refused(
                "image-missing",
                f"the lock names an image, and {FACTS_NAME} is absent",
                where=FACTS_NAME,
                hint="`suite run` writes it",
            )
        return f"{image.pinned_name}"

    def _check_starts(self) -> str:
        where = "repeats.json"
        try:
            starts = parse_strictly(Repeats, self.bundle.read(where), where=where).starts
        except InvalidInput as error:
            raise Refused("floor-claim", error.message, where=where) from error
        numbers = [start.start for start in starts]
        wanted = self.candidate.lock.repeats
        if numbers != list(range(len(numbers))):
            raise Refused(
                "cherry-picked-repeats",
                f"shows the starts {', '.join(map(str, numbers))[:80]}: some are left out",
                where=where,
                hint="every start of a run is shown",
            )
        timed = [
            as_dict(start).get("start") for start in as_list(self.bundle.json_object("performance.json").get("starts"))
        ]
        if timed and timed != numbers:
            raise Refused(
                "hidden-starts",
                f"performance.json speaks of {len(timed)} starts, repeats.json of {len(numbers)}",
                where=where,
                hint="every start of a run is shown",
            )
        if len(numbers) < wanted:
            raise Refused(
                "too-few-repeats",
                f"{len(numbers)} starts, where the manifest asks for {wanted}",
                where=where,
                hint="run all of them: `suite run` without --repeats",
            )
        indexes = [start.index_sha256 for start in starts]
        if len(set(indexes)) < len(indexes):
            raise Refused("copied-start", "two starts are one and the same capture", where=where)
        return f"{len(numbers)} starts, all of those that the manifest asks for, none left out"

    def _check_rows(self) -> str:
        evidence = self.bundle.record.evidence
        if evidence.candidate.index_sha256 == evidence.reference.index_sha256:
            if self.candidate.lock.capture_digest != self.reference.lock.capture_digest:
                raise Refused(
                    "replayed-ledger", "both sides name one capture, of two different stacks", where="bundle.json"
                )
            return "both sides are one stack"
        same = evidence.candidate.rows_sha256 == evidence.reference.rows_sha256
        if same and self.candidate.arithmetic != self.reference.arithmetic:
            raise Refused(
                "rows-of-the-reference",
                "every row equals the reference's bit for bit, though dtypes or weights differ",
                where="bundle.json",
                hint="another arithmetic gives other bits: these are the reference's rows",
            )
        return "rows differ where the arithmetic does" if not same else "all rows equal, and so does the arithmetic"


def require_past(created: str, *, now: datetime, limits: Limits, where: str) -> None:
    """Refuse a time that has not come yet.

    Args:
        created: `YYYY-MM-DDTHH:MM:SSZ`.
        now: The present.
        limits: How far a clock may be ahead.
        where: The file and key.

    Raises:
        Refused: it lies in the future, or is no time at all.
    """
    try:
        time = datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise Refused("no-such-time", f"{created} is no time", where=where) from error
    if time > now + timedelta(seconds=limits.future_seconds):
        raise Refused("from-the-future", f"{created} lies in the future", where=where, hint="set the machine's clock")
