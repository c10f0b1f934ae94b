"""A bundle as a person reads it: scope first, then counts, floor and band, then what was really run."""

from __future__ import annotations

from typing import Any

from suite.bundle.arbiter import SIDES, ArbiterRecord
from suite.bundle.read import Bundle
from suite.bundle.schema import BundleRecord, Factor
from suite.errors import SuiteError
from suite.score.summary import Distribution, Group
from suite.stack.receipt_view import receipt_rows

Table = list[tuple[str, ...]]


def shown(text: object, *, limit: int = 100) -> str:
    """Text from a bundle as it may be shown: printable ASCII, at most `limit` characters."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in str(text))
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


def scope_line(record: BundleRecord) -> str:
    """What the numbers speak of, and what they must not be quoted for."""
    headlines = record.headlines
    return (
        f"{headlines.n:,} probes of one recorded session, {headlines.path} path, vocabulary {headlines.vocab_size:,}, "
        f"{record.tier}. Speaks of this session only; must not be quoted for other workloads, paths or hardware."
    )


def causal_line(record: BundleRecord) -> str:
    """Factors and whether a cause may be named."""
    names = ", ".join(shown(factor.key) for factor in record.factors)
    if not record.factors:
        return "no factor: the same stack as its reference"
    if record.causal_claim:
        return f"one factor varies: {names}"
    return f"{len(record.factors)} factors ({names}): measured and shown, no causal claim"


def count_table(record: BundleRecord) -> Table:
    """Headline counts, each with n."""
    h = record.headlines
    floor = record.repeat_floor.text()
    rows: Table = [
        ("flips", of(h.flips, h.n)),
        ("- tied", of(h.flips_tied, h.n)),
        ("- uncertain (p < 0.5)", of(h.flips_uncertain, h.n)),
        ("- leaning (0.5 to 0.9)", of(h.flips_leaning, h.n)),
        ("- confident (p >= 0.9)", of(h.flips_confident, h.n)),
        ("repeat floor", floor),
        ("numerical band", _band_text(record)),
        ("identical rows", of(h.identical_rows, h.n)),
        *([("replayed rows", f"{of(h.replayed_rows, h.n)}; KL replayed")] if h.replayed_rows else []),
        (
            "off-policy",
            f"{of(record.off_policy.count, record.off_policy.n)} recorded tokens are not the reference's top-1",
        ),
    ]
    return rows


def divergence_table(record: BundleRecord) -> Table:
    """Distributions in nats: name, mean, median, p90, p99, p99.9, max."""
    h = record.headlines
    rows: Table = [
        ("KL(ref||cand)", *_spread(h.kl_ref_cand)),
        ("KL(cand||ref)", *_spread(h.kl_cand_ref)),
        ("JSD", *_spread(h.jsd)),
        ("rounding KL", _number(h.rounding_kl), "", "", "", "", ""),
        ("total variation", _number(h.total_variation.mean if h.total_variation else None), "", "", "", "", ""),
        ("NLL reference", _number(h.nll_ref), "", "", "", "", ""),
        ("NLL candidate", _number(h.nll_cand), "", "", "", "", ""),
    ]
    return rows


def band_table(record: BundleRecord) -> Table:
    """Members of the numerical band: name, flips, of which confident."""
    return [(shown(m.name), of(m.flips, m.n), str(m.flips_tied), str(m.flips_confident)) for m in record.band]


def arbiter_table(arbiter: ArbiterRecord) -> Table:
    """Flip class, and at how many of its flips a float32 stack's top-1 is the reference's, the candidate's, neither."""
    rows: Table = [(c.flip_class, str(c.reference), str(c.candidate), str(c.neither)) for c in arbiter.counts]
    return [*rows, (f"all flips ({shown(arbiter.name)}, float32)", *(str(arbiter.total(side)) for side in SIDES))]


def group_table(groups: tuple[Group, ...]) -> Table:
    """Key, n, flips and the four classes, off-policy."""
    return [
        (
            shown("none" if group.key in (-1, "") else group.key),
            str(group.n),
            str(group.flips),
            str(group.flips_tied),
            str(group.flips_uncertain),
            str(group.flips_leaning),
            str(group.flips_confident),
            str(group.off_policy),
        )
        for group in groups
    ]


def factor_table(factors: tuple[Factor, ...], *, reasons: bool = False) -> Table:
    """Key, reference, candidate and, if asked for, why it is consequent."""
    rows: Table = []
    for factor in factors:
        sides = [shown(_word(value), limit=40) for value in (factor.reference, factor.candidate)]
        rows.append((shown(factor.key), *sides, *([shown(factor.reason)] if reasons else [])))
    return rows


def settings_table(bundle: Bundle) -> Table:
    """Requested beside effective settings of the candidate; empty where its receipt cannot be read."""
    try:
        receipt = bundle.json_object("receipt.json")
    except SuiteError:
        return []
    requested, effective = receipt.get("requested"), receipt.get("effective")
    if not isinstance(requested, dict) or not isinstance(effective, dict):
        return []
    return [
        (
            shown(key, limit=40),
            shown(_word(requested.get(key)), limit=40),
            shown(_word(effective.get(key)), limit=40),
            "" if requested.get(key) is None or requested.get(key) == effective.get(key) else "DIFFERS",
        )
        for key in sorted(requested.keys() | effective.keys())
    ]


def ran_table(bundle: Bundle) -> Table:
    """Layers, kernels, capacity and hardware as the candidate's workers reported them; empty without a receipt."""
    try:
        receipt = bundle.json_object("receipt.json")
    except SuiteError:
        return []
    return [(shown(name, limit=40), shown(text, limit=160)) for name, text in receipt_rows(receipt)]


def of(count: int, n: int) -> str:
    """A count with n and its share, for example `12 of 218 (5.5 %)`."""
    return f"{count:,} of {n:,} ({100 * count / n:.1f} %)" if n else f"{count:,} of 0"


def _band_text(record: BundleRecord) -> str:
    if not record.band:
        return "no member measured against this reference"
    flips = [member.flips for member in record.band]
    return f"{min(flips):,} to {max(flips):,} flips of {record.band[0].n:,} ({len(flips)} equally valid BF16 stacks)"


def _spread(values: Distribution | None) -> tuple[str, ...]:
    if values is None:
        return ("invalid", "", "", "", "", "")
    p999 = "" if values.p999 is None else _number(values.p999)
    return (*(_number(v) for v in (values.mean, values.median, values.p90, values.p99)), p999, _number(values.max))


def _number(value: float | None) -> str:
    return "invalid" if value is None else f"{value:.4g}"


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_word(item)}" for key, item in value.items())
    return "not set" if value is None else str(value)
