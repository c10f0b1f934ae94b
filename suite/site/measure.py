"""From bundles to facts: ledgers checked and summed, with the intervals and paired tests of `suite compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.branch.schema import BRANCHES_NAME, parse_branches
from suite.bundle.read import Bundle, open_bundle
from suite.compare.comparison import Comparison, band_text, compare_entries, scope, winner_text
from suite.compare.entries import LEDGER_NAME, Entry, load_entry
from suite.errors import SuiteError, VerificationFailed
from suite.files import sha256_bytes
from suite.intake.folder import gate_folder
from suite.sbom.read import BUNDLE_NAME
from suite.score.same_probes import differing
from suite.score.together import intervals_together
from suite.site.bundle_facts import facts_of
from suite.site.facts import (
    BundleFacts,
    CohortFacts,
    Measured,
    PairFacts,
    Refused,
    RowFacts,
)
from suite.site.keys import key_of
from suite.site.scan import Found

SHOWN_INTERVALS = ("flips", "flips_confident", "kl_ref_cand")
_CHECKED_LATER = frozenset({LEDGER_NAME, BUNDLE_NAME})


def measure(group: Sequence[Found]) -> Measured:
    """Facts of bundles that name the same reference rows, and the tables that they may stand in.

    A bundle that cannot be read, or whose ledger is not what its record says, is refused with the reason; the others
    stay.
    """
    entries: list[tuple[Found, Entry]] = []
    refused: list[Refused] = []
    for found in group:
        try:
            gate_folder(found.folder)
            bundle = open_bundle(found.folder)
            check_files(bundle)
            entries.append((found, load_entry(bundle)))
        except SuiteError as error:
            where = f"{error.where}: " if error.where else ""
            refused.append(Refused(place=found.place, reason=f"{where}{error.message}"))
    intervals = intervals_together([entry.totals for _, entry in entries], SHOWN_INTERVALS)
    facts = {
        entry.bundle.bundle_id: facts_of(entry, found, own)
        for (found, entry), own in zip(entries, intervals, strict=True)
    }
    tables: list[list[Entry]] = []
    withdrawn: dict[int, list[str]] = {}
    # Withdrawn ones last: they stand in a table that others make.
    for found, entry in sorted(entries, key=lambda one: one[0].standing.withdrawal is not None):
        gone = found.standing.withdrawal is not None
        if not found.latest and not gone:
            continue
        mine = facts[entry.bundle.bundle_id]
        home = next((i for i, table in enumerate(tables) if _same_table(facts, table[0], entry, mine)), None)
        if gone:
            if home is not None:
                withdrawn.setdefault(home, []).append(entry.bundle.bundle_id)
        elif home is None:
            tables.append([entry])
        else:
            tables[home].append(entry)
    return Measured(
        bundles=tuple(facts.values()),
        cohorts=tuple(cohort_of(table, facts, withdrawn=withdrawn.get(i, ())) for i, table in enumerate(tables)),
        refused=tuple(refused),
    )


def check_files(bundle: Bundle) -> None:
    """See that what the pages are made from is what the record names; `suite verify` does this and much more.

    Raises:
        VerificationFailed: a file has another hash, or a lock another digest.
        InvalidInput: a lock, or the index of its forks, cannot be read.
    """
    for name, sha256 in sorted(bundle.record.files.items()):
        # The ledger is checked where it is read, an SBOM where it is offered.
        if name not in _CHECKED_LATER and sha256_bytes(bundle.read(name)) != sha256:
            raise VerificationFailed("not the file that the record names", where=name)
    record = bundle.record
    for name, digest in (("lock.json", record.lock_digest), ("reference-lock.json", record.reference_lock_digest)):
        if bundle.lock(name).digest != digest:
            raise VerificationFailed("not the lock that the record names", where=name)
    if record.branches is not None:
        parse_branches(bundle.read(BRANCHES_NAME))


def _same_table(facts: Mapping[str, BundleFacts], first: Entry, entry: Entry, mine: BundleFacts) -> bool:
    theirs = facts[first.bundle.bundle_id]
    return (theirs.gpu, theirs.model) == (mine.gpu, mine.model) and not differing(first.ledger, entry.ledger)


def cohort_of(
    entries: Sequence[Entry], facts: Mapping[str, BundleFacts], *, withdrawn: Sequence[str] = ()
) -> CohortFacts:
    """One table: its order, its ranks, and what the tests say of each row.

    Args:
        entries: At least one; of one GPU and model, with the same reference rows and probes.
        facts: Of each entry, by bundle.
        withdrawn: Bundles that would stand in the table too.
    """
    comparison = compare_entries(entries, also_by_kl=False)
    reproduced = [entry for entry in entries if facts[entry.bundle.bundle_id].tier == "reproduced"]
    ranks = _ranks(comparison)
    ranks_reproduced = _ranks(compare_entries(reproduced, also_by_kl=False)) if reproduced else {}
    first, any_facts = comparison.rows[0], facts[comparison.rows[0].bundle.bundle_id]
    ids = [entry.bundle.bundle_id for entry in comparison.rows]
    return CohortFacts(
        key=key_of("cohort", any_facts.gpu, any_facts.model, *sorted(ids)),
        withdrawn=tuple(withdrawn),
        gpu=any_facts.gpu,
        model=any_facts.model,
        path=first.headlines.path,
        workload=any_facts.workload,
        workload_tokens=any_facts.workload_tokens,
        reference=any_facts.reference,
        n=first.headlines.n,
        num_turns=any_facts.num_turns,
        scope=scope(comparison),
        winner=None if comparison.ranking.winner is None else comparison.ranking.winner.bundle.bundle_id,
        winner_text=winner_text(comparison),
        band_text=band_text(comparison),
        refusal=comparison.ranking.refusal,
        rows=tuple(
            RowFacts(
                bundle_id=bundle_id,
                rank=ranks.get(bundle_id),
                rank_reproduced=ranks_reproduced.get(bundle_id),
                kernel_outcome=verdict.outcome,
                kernel_member=verdict.member,
                kernel_member_flips=verdict.member_flips,
                kernel_p=verdict.p_holm,
            )
            for bundle_id, verdict in zip(ids, comparison.kernel, strict=True)
        ),
        pairs=tuple(
            PairFacts(lower=ids[pair.lower], higher=ids[pair.higher], p=pair.p_holm, separated=pair.separated)
            for pair in comparison.ranking.pairs
        ),
    )


def _ranks(comparison: Comparison) -> dict[str, int]:
    ranks = comparison.ranking.ranks
    ids = [entry.bundle.bundle_id for entry in comparison.rows]
    return {} if ranks is None else dict(zip(ids, ranks, strict=True))
