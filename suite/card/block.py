"""The Markdown block that a model card may carry: scope, counts with intervals, floor and band, the full method."""

from __future__ import annotations

import re

from suite.bundle.read import Bundle
from suite.bundle.show import causal_line, of
from suite.card.markdown import escaped, table
from suite.card.method import method_of
from suite.compare.entries import Entry, load_entry
from suite.errors import InvalidInput
from suite.score.bootstrap import Interval
from suite.score.summary import Distribution

_ADDRESS = re.compile(r"https://[A-Za-z0-9.-]+(?::\d{1,5})?(?:/[A-Za-z0-9._~/-]*)?\Z")


def card_block(bundle: Bundle, *, site: str | None = None, badge: str | None = None) -> str:
    """The block of one bundle, recomputed from its ledger.

    Args:
        bundle: An opened bundle.
        site: Address of a site built by `suite site build`, for a link to the result's page.
        badge: Where the badge will lie, as the card is to name it.

    Raises:
        InvalidInput: an address that cannot stand in a card.
        VerificationFailed: a file is not the bundle's, or the ledger does not give its headlines.
    """
    bundle.require_unchanged()
    entry = load_entry(bundle)
    record = bundle.record
    link = _page(site, bundle) if site is not None else None
    reference = escaped(bundle.lock("reference-lock.json").name)
    parts = [
        f"## Divergence from {reference}",
        *([f"![{escaped(record.name)}: flips]({_target(badge)})"] if badge is not None else []),
        f"Scope: {escaped(_scope(entry), limit=600)}",
        _counts(entry),
        "Intervals: 95 %, cluster bootstrap over turns."
        if entry.intervals.bootstrap is not None
        else "No intervals: too few turns.",
        f"{escaped(causal_line(record)).capitalize()}. Each flip is in one class: tied, else by the reference's "
        f"probability of its own "
        "top-1. The repeat floor is the same stack against itself, the band are equally valid BF16 stacks; "
        "neither is subtracted. "
        "BF16 is a reference, not the truth.",
        "### Method",
        table([("field", "value"), *((row.title, escaped(row.value)) for row in method_of(bundle))]),
        f"Result `{bundle.bundle_id}`, {record.tier}, record sha256 `{record.record_sha256}`."
        + (f" [Ledger, receipts, SBOM and how to reproduce it]({link})." if link else ""),
    ]
    return "\n\n".join(parts) + "\n"


def _scope(entry: Entry) -> str:
    headlines = entry.headlines
    turns = f" in {entry.totals.num_turns} turns" if entry.totals.known else ""
    return (
        f"{headlines.n:,} positions{turns} of one recorded session, {headlines.path} path. Must not be quoted "
        f"for other sessions, "
        "lengths, paths, hardware or versions, nor for what the model can do."
    )


def _counts(entry: Entry) -> str:
    record, headlines, intervals = entry.bundle.record, entry.headlines, entry.intervals
    n = headlines.n
    rows: list[tuple[str, ...]] = [("figure", "value", "95 % interval")]
    for title, name, value in (
        ("flips", "flips", headlines.flips),
        ("flips, tied", "flips_tied", headlines.flips_tied),
        ("flips, uncertain (p < 0.5)", "flips_uncertain", headlines.flips_uncertain),
        ("flips, leaning (0.5 to 0.9)", "flips_leaning", headlines.flips_leaning),
        ("flips, confident (p >= 0.9)", "flips_confident", headlines.flips_confident),
    ):
        rows.append((title, of(value, n), _interval(intervals.count(name), counts=True)))
    rows += _divergence("KL(ref\\|\\|cand)", headlines.kl_ref_cand, intervals.mean("kl_ref_cand"))
    if headlines.rounding_kl is not None:
        rows.append(("rounding of the stored rows alone, mean KL", f"{headlines.rounding_kl:.3g} nats", ""))
    rows.append(("repeat floor", escaped(record.repeat_floor.text()), ""))
    band = [member.flips for member in record.band]
    told = f"{min(band):,} to {max(band):,} of {record.band[0].n:,} ({len(band)} stacks)" if band else "not measured"
    rows.append(("numerical band", told, ""))
    return table(rows)


def _divergence(name: str, spread: Distribution | None, interval: Interval | None) -> list[tuple[str, ...]]:
    if spread is None:
        return [(f"{name}", "invalid: a row is not finite", "")]
    rows: list[tuple[str, ...]] = [(f"{name}, mean", f"{spread.mean:.4g} nats", _interval(interval, counts=False))]
    named = (
        ("median", spread.median),
        ("p90", spread.p90),
        ("p99", spread.p99),
        ("p99.9", spread.p999),
        ("maximum", spread.max),
    )
    rows += [(f"{name}, {title}", f"{value:.4g} nats", "") for title, value in named if value is not None]
    return rows


def _interval(interval: Interval | None, *, counts: bool) -> str:
    if interval is None:
        return ""
    return f"{interval.low:,.0f} to {interval.high:,.0f}" if counts else f"{interval.low:.3g} to {interval.high:.3g}"


def _page(site: str, bundle: Bundle) -> str:
    if not _ADDRESS.match(site):
        raise InvalidInput(
            "not an https address of plain characters",
            where=site[:200],
            hint="for instance https://example.org/results-site",
        )
    return f"{site.rstrip('/')}/results/{bundle.bundle_id}/index.html"


def _target(badge: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._/-]{1,200}", badge):
        raise InvalidInput("a badge's file name may hold letters, digits and ._-/ only", where=badge[:200])
    return badge
