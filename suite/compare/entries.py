"""The rows of a comparison: bundles found, read, checked against their own ledgers, and of one cohort."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from suite.bundle.read import Bundle, open_bundle
from suite.bundle.schema import RECORD_NAME, is_bundle_folder_name
from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.files import sha256_bytes
from suite.manifest.lock import Lock
from suite.score.check import check_ledger
from suite.score.intervals import LedgerIntervals, intervals_of
from suite.score.ledger import Ledger, read_ledger
from suite.score.same_probes import differing, told_differences
from suite.score.summary import Headlines, summarise
from suite.score.turns import TurnTotals, turn_totals

LEDGER_NAME = "ledger.parquet"
_SHOWN_FILES = ("lock.json", "reference-lock.json", "receipt.json", "reference-receipt.json", "repeats.json")
"""What a comparison shows or rests on beside the ledger."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One bundle whose ledger has the hash it claims and gives the headlines it claims."""

    bundle: Bundle
    lock: Lock
    ledger: Ledger
    totals: TurnTotals
    label: str
    """Its name; with its time where another entry has the same name."""

    @property
    def headlines(self) -> Headlines:
        """Counts and means, as the ledger gives them."""
        return self.bundle.record.headlines

    @property
    def is_band(self) -> bool:
        """Whether this is a member of the numerical band."""
        return self.lock.role == "band"

    @cached_property
    def intervals(self) -> LedgerIntervals:
        """Its intervals; computed on first use."""
        return intervals_of(self.totals)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What `load_entries` found."""

    entries: tuple[Entry, ...]
    passed_over: tuple[str, ...]
    """Bundles below a named folder that are not in the table, with the reason."""


def load_entries(paths: Sequence[Path]) -> Found:
    """Read the bundles at `paths`.

    Args:
        paths: Bundles, which must be readable; or folders of results, of which the latest bundle of each name is
            taken and what cannot be read is passed over.

    Raises:
        InvalidInput: nothing there, an unreadable bundle that was named, or bundles of more than one cohort.
        VerificationFailed: a bundle's ledger is not the one it names, or does not give its headlines.
    """
    opened: dict[Path, Bundle] = {}
    passed_over: list[str] = []
    for path in paths:
        if (path / RECORD_NAME).exists():
            bundle = open_bundle(path)
            opened[bundle.folder] = bundle
            continue
        latest, others = _latest(path)
        passed_over += others
        opened |= {bundle.folder: bundle for bundle in latest}
    names = [bundle.record.name for bundle in opened.values()]
    entries = tuple(
        load_entry(b, label=b.record.name if names.count(b.record.name) == 1 else f"{b.record.name} {b.record.created}")
        for b in opened.values()
    )
    require_one_cohort(entries)
    return Found(entries=entries, passed_over=tuple(passed_over))


def load_entry(bundle: Bundle, *, label: str | None = None) -> Entry:
    """Read a bundle's ledger and check that it is what the record rests on.

    Raises:
        VerificationFailed: another hash, columns that contradict each other, or other headlines.
        InvalidInput: not a ledger.
    """
    data = bundle.read(LEDGER_NAME)
    where = f"{bundle.bundle_id}/{LEDGER_NAME}"
    if sha256_bytes(data) != bundle.record.files[LEDGER_NAME]:
        raise VerificationFailed("not the file that the bundle names", where=where, hint="see suite verify")
    del data
    bundle.require_unchanged(*_SHOWN_FILES)
    ledger = read_ledger(bundle.folder / LEDGER_NAME)
    try:
        check_ledger(ledger)
    except VerificationFailed as error:
        raise VerificationFailed(error.message, where=where, hint="see suite verify") from error
    if summarise(ledger) != bundle.record.headlines:
        raise VerificationFailed("does not give the bundle's headlines", where=where, hint="see suite verify")
    return Entry(
        bundle=bundle,
        lock=bundle.lock(),
        ledger=ledger,
        totals=turn_totals(ledger),
        label=label or bundle.record.name,
    )


def require_one_cohort(entries: Iterable[Entry]) -> None:
    """Refuse entries that were not measured against the same reference rows at the same probes.

    Raises:
        InvalidInput: what differs, and which bundles belong together.
    """
    cohorts: list[list[Entry]] = []
    for entry in entries:
        home = next((c for c in cohorts if not differing(c[0].ledger, entry.ledger)), None)
        if home is None:
            cohorts.append([entry])
        else:
            home.append(entry)
    if len(cohorts) < 2:
        return
    first = cohorts[0][0]
    told = "; ".join(
        f"{cohort[0].label} differs from {first.label} in {', '.join(told_differences(first.ledger, cohort[0].ledger))}"
        for cohort in cohorts[1:]
    )
    groups = "".join(f"\n  - {' '.join(entry.label for entry in cohort)}" for cohort in cohorts)
    raise InvalidInput(
        f"these bundles cannot stand in one table: {told}",
        hint=f"name the bundles of one group at a time (results/NAME takes the latest of a name):{groups}",
    )


def _latest(folder: Path) -> tuple[list[Bundle], list[str]]:
    """The latest readable bundle of each name below a results folder, and what was passed over."""
    records = sorted(
        path
        for pattern in (f"*/{RECORD_NAME}", f"*/*/{RECORD_NAME}")
        for path in folder.glob(pattern)
        if is_bundle_folder_name(path.parent.name) and not path.parent.is_symlink()
    )
    if not records:
        raise InvalidInput(
            "neither a bundle nor a folder of results", where=str(folder), hint="name what `suite run` wrote"
        )
    passed_over, latest = [], dict[str, Bundle]()
    for record in sorted(records, key=lambda path: path.parent.name):
        try:
            bundle = open_bundle(record.parent)
        except SuiteError as error:
            passed_over.append(f"{record.parent.parent.name}/{record.parent.name}: {error.message}")
            continue
        older = latest.get(bundle.record.name)
        if older is not None:
            passed_over.append(f"{older.bundle_id}: a later bundle of that name is there")
        latest[bundle.record.name] = bundle
    if not latest:
        raise InvalidInput(f"no bundle can be read: {passed_over[0]}", where=str(folder))
    return [latest[name] for name in sorted(latest)], passed_over
