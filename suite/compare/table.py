"""A comparison as text for a terminal or for GitHub."""

from __future__ import annotations

from typing import Literal

from tabulate import tabulate

from suite.bundle.show import shown
from suite.compare.comparison import MUST_NOT, Comparison, cause, notes, p_text, scope
from suite.compare.entries import Entry
from suite.compare.grouping import By, groups, groups_of
from suite.compare.kernel_change import WORDS, Verdict
from suite.compare.sparkline import sparkline
from suite.score.bootstrap import Interval
from suite.score.floor import RepeatFloor

Style = Literal["table", "github"]
_SPARKLINE_WINDOWS = 40


def render(comparison: Comparison, *, style: Style = "table", by: By | None = None) -> str:
    """Scope first, then counts, divergences and, with `by`, the groups; last what the tests say."""
    parts = [scope(comparison), MUST_NOT, _grid(_count_rows(comparison), style)]
    parts.append(_grid(_divergence_rows(comparison), style))
    if by is not None:
        parts.append(_grid(_group_rows(comparison, by), style))
    listed = notes(comparison)
    parts.append("\n".join(f"- {line}" for line in listed) if style == "github" else "\n".join(listed))
    return "\n\n".join(parts)


def _grid(rows: list[tuple[str, ...]], style: Style) -> str:
    if style == "github":
        rows = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return tabulate(
        rows[1:], headers=rows[0], tablefmt="github" if style == "github" else "simple", disable_numparse=True
    )


def _count_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    windows = len(comparison.rows[0].headlines.by_window)
    top = max((g.flips for entry in comparison.rows for g in groups_of(entry, "window")), default=0)
    drawn = 1 < windows <= _SPARKLINE_WINDOWS
    n = comparison.rows[0].headlines.n
    header = (
        "rank",
        "stack",
        "factor",
        f"flips of {n:,} [95 %]",
        "tied",
        "<0.5",
        "<0.9",
        "confident [95 %]",
        "repeat floor",
        "kernel change",
        *([f"per window (block: {top})"] if drawn else []),
    )
    ranks = comparison.ranking.ranks
    rows = [header]
    for place, (entry, verdict) in enumerate(zip(comparison.rows, comparison.kernel, strict=True)):
        h, intervals = entry.headlines, entry.intervals
        rows.append(
            (
                "-" if ranks is None else str(ranks[place]),
                shown(entry.label) + (" [band]" if entry.is_band else ""),
                cause(entry),
                f"{h.flips:,} ({100 * h.flips / h.n:.1f} %){count_interval(intervals.count('flips'))}",
                str(h.flips_tied),
                str(h.flips_uncertain),
                str(h.flips_leaning),
                f"{h.flips_confident}{count_interval(intervals.count('flips_confident'))}",
                short_floor(entry.bundle.record.repeat_floor),
                _kernel(verdict),
                *([sparkline([g.flips for g in groups_of(entry, "window")], top=top)] if drawn else []),
            )
        )
    return rows


def _divergence_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            "nats",
            "mean KL(ref||cand) [95 %]",
            "rounding KL",
            "median",
            "p99",
            "p99.9",
            "max",
            "mean KL(cand||ref) [95 %]",
            "mean JSD [95 %]",
        )
    ]
    for entry in comparison.rows:
        h = entry.headlines
        forward, backward, jsd = h.kl_ref_cand, h.kl_cand_ref, h.jsd
        # A ledger with a row that is not finite has no sums per turn and is refused before it gets here.
        assert forward is not None
        assert backward is not None
        assert jsd is not None
        rows.append(
            (
                shown(entry.label),
                _mean(forward.mean, entry, "kl_ref_cand"),
                "" if h.rounding_kl is None else f"{h.rounding_kl:.2g}",
                f"{forward.median:.2g}",
                f"{forward.p99:.2g}",
                "n < 10,000" if forward.p999 is None else f"{forward.p999:.2g}",
                f"{forward.max:.2g}",
                _mean(backward.mean, entry, "kl_cand_ref"),
                _mean(jsd.mean, entry, "jsd"),
            )
        )
    return rows


def _group_rows(comparison: Comparison, by: By) -> list[tuple[str, ...]]:
    header = (by, "n", *(f"{shown(entry.label)}: flips (confident)" for entry in comparison.rows))
    rows = [
        (row.name, f"{row.n:,}", *(f"{cell.flips} ({cell.flips_confident})" for cell in row.cells))
        for row in groups(comparison, by)
    ]
    return [header, *rows]


def count_interval(interval: Interval | None) -> str:
    """` [7.2, 18]`; empty where there is none."""
    return "" if interval is None else f" [{_bound(interval.low)}, {_bound(interval.high)}]"


def _bound(value: float) -> str:
    """A bound of a count: three figures, and from a hundred up whole numbers."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def short_floor(floor: RepeatFloor) -> str:
    """Flips of each repeat, for instance `0, 0`."""
    others = floor.starts[1:]
    if not others:
        return "not measured"
    few = "" if len(floor.starts) >= 3 else " (fewer than 3 starts)"
    return ", ".join(str(start.flips) for start in others) + few


def _mean(value: float, entry: Entry, name: str) -> str:
    interval = entry.intervals.mean(name)
    return f"{value:.3g}" + ("" if interval is None else f" [{interval.low:.2g}, {interval.high:.2g}]")


def _kernel(verdict: Verdict) -> str:
    if verdict.p_holm is None:
        return WORDS[verdict.outcome]
    return f"{WORDS[verdict.outcome]} (p {p_text(verdict.p_holm)})"
