"""Identities that every honest ledger satisfies, and the comparison of two ledgers of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import VerificationFailed
from suite.score.classes import FLIP_CLASSES, flip_classes
from suite.score.interface import KERNEL_COLUMNS, Columns
from suite.score.ledger import WINDOW_TOKENS, Ledger

RELATIVE = 1e-9
ABSOLUTE = 1e-12
"""How far two kernels, or two processors, may differ in a float column."""
REPLAYED_ABSOLUTE = 0.05
"""The same where either side's row was replayed elsewhere, and only its best logits are those captured."""

_SLACK = 1e-9
_UNDERFLOW = 1e-300
_DIVERGENCES = ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation")


def check_ledger(ledger: Ledger) -> None:
    """Check what can be checked of a ledger without the rows: order, ranges of values, and identities between columns.

    Raises:
        VerificationFailed: the first position, in order of the rules, that breaks one.
    """
    for rule, holds in _rules(ledger):
        broken = np.flatnonzero(~holds)
        if broken.size:
            position = int(ledger.columns["position"][broken[0]])
            raise VerificationFailed(f"position {position}: {rule}", where="ledger.parquet")


def check_same_scores(claimed: Columns, recomputed: Columns) -> None:
    """Compare columns of the same probes: ids, flags, text and hashes exactly, floats within 1e-9 relative or 1e-12.

    Args:
        claimed: Columns of a ledger.
        recomputed: Any of the same columns, of the same length; where a row is `replayed` in either, floats within
            0.05, and the class of a flip, which rests on one, not at all. `replayed` itself is not compared: it
            tells of the machine that computes.

    Raises:
        VerificationFailed: the first column and position that differ, with both values.
    """
    for name, equal in equal_scores(claimed, recomputed):
        differing = np.flatnonzero(~equal)
        if differing.size:
            row = differing[0]
            position = int(claimed["position"][row])
            raise VerificationFailed(
                f"position {position}: {name} is {_show(claimed[name][row])}, the evidence gives "
                f"{_show(recomputed[name][row])}",
                where="ledger.parquet",
            )


def equal_scores(claimed: Columns, recomputed: Columns) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """For each column of `recomputed` its name, and at which probes the two agree; see `check_same_scores`."""
    replayed = claimed["replayed"] | recomputed["replayed"] if "replayed" in recomputed else np.False_
    for name, values in recomputed.items():
        theirs = claimed[name]
        if name == "replayed":
            continue
        if KERNEL_COLUMNS.get(name) is np.float64:
            least = np.where(replayed, REPLAYED_ABSOLUTE, ABSOLUTE)
            with np.errstate(invalid="ignore"):
                near = np.abs(theirs - values) <= np.maximum(least, RELATIVE * np.abs(values))
            equal = near | (theirs == values) | (np.isnan(theirs) & np.isnan(values))
        else:
            equal = theirs == values
            equal = equal.all(axis=1) if equal.ndim == 2 else equal
            # The class rests on a probability, and `check_ledger` has seen that it follows from the one claimed.
            equal = equal | replayed if name == "flip_class" else equal
        yield name, equal


def _rules(ledger: Ledger) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    c, facts = ledger.columns, ledger.facts
    position, vocab_size = c["position"], facts.vocab_size
    yield "positions do not increase", np.diff(position, prepend=-1) > 0
    yield "no token follows it in this workload", position <= facts.num_tokens - 2
    yield "window is not position // 8000", c["window"] == position // WINDOW_TOKENS
    yield "path is not the ledger's", c["path"] == facts.path
    for name in ("token_id", "target_id"):
        yield f"{name} is no id of the vocabulary", (c[name] >= 0) & (c[name] < vocab_size)
    follows = np.ones(len(position), dtype=np.bool_)
    follows[1:] = (np.diff(position) != 1) | (c["token_id"][1:] == c["target_id"][:-1])
    yield "its token is not the target of the position before", follows
    finite = c["finite_ref"] & c["finite_cand"]
    for name, kind in KERNEL_COLUMNS.items():
        if kind is np.float64:
            yield f"{name} is not finite exactly where both rows are", np.isfinite(c[name]) == finite
    unknown = (c["ref_top1"] == -1) & (c["cand_top1"] == -1) & (c["rank_ref_top1_in_cand"] == 0) & ~c["flip"]
    yield "a row that is not finite has scores", finite | unknown
    yield from _finite_rules(c, finite, vocab_size)


def _finite_rules(c: Columns, finite: NDArray[np.bool_], vocab_size: int) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for name in ("ref_top1", "cand_top1"):
        yield f"{name} is no id of the vocabulary", ~finite | ((c[name] >= 0) & (c[name] < vocab_size))
    yield "flip does not follow from the two top-1", c["flip"] == (c["ref_top1"] != c["cand_top1"])
    yield "tied without a flip", c["flip"] | ~c["tied"]
    classes = flip_classes(c["flip"], c["tied"], c["ref_p_ref_top1"])
    yield "flip_class does not follow from tie and probability", c["flip_class"] == classes
    yield "flip_class is none of the four", np.isin(c["flip_class"], ["", *FLIP_CLASSES])
    rank = c["rank_ref_top1_in_cand"]
    yield "the rank is not 1 exactly where there is no flip", ~finite | ((rank == 1) == ~c["flip"])
    yield "the rank lies outside the vocabulary", ~finite | ((rank >= 1) & (rank <= vocab_size))
    for name in ("ref_p_ref_top1", "ref_p_cand_top1", "cand_p_ref_top1", "cand_p_cand_top1"):
        yield f"{name} is no probability", ~finite | _between(c[name], 0, 1)
    yield "the reference prefers another top-1", ~finite | (c["ref_p_ref_top1"] >= c["ref_p_cand_top1"] - _SLACK)
    yield "the candidate prefers another top-1", ~finite | (c["cand_p_cand_top1"] >= c["cand_p_ref_top1"] - _SLACK)
    for name in ("ref_margin_nats", "ref_margin_ulps", "cand_margin_nats", "nll_ref", "nll_cand", "rounding_kl"):
        yield f"{name} is negative", ~finite | (c[name] >= -_SLACK)
    for side in ("ref", "cand"):
        entropy, best = c[f"entropy_{side}"], c[f"{side}_p_{side}_top1"]
        yield f"entropy_{side} is impossible", ~finite | _between(entropy, 0, np.log(vocab_size))
        with np.errstate(divide="ignore"):
            bound = -np.log(best)
        # The most likely token gives the least NLL, and entropy is the mean NLL.
        yield f"nll_{side} is below that of the most likely token", ~finite | (c[f"nll_{side}"] >= bound - _SLACK)
        yield f"entropy_{side} is below -ln of the largest probability", ~finite | (entropy >= bound - _SLACK)
    yield from _probability_rules(c, finite, vocab_size)
    for name in _DIVERGENCES:
        yield f"{name} is negative", ~finite | (c[name] >= 0)
    yield "jsd is above ln 2", ~finite | (c["jsd"] <= np.log(2) + _SLACK)
    least = np.minimum(c["kl_ref_cand"], c["kl_cand_ref"])
    with np.errstate(invalid="ignore"):
        pinsker = np.sqrt(np.maximum(least, 0) / 2)
    yield "total variation is above sqrt(KL/2)", ~finite | (c["total_variation"] <= pinsker + 1e-6)
    yield from _divergence_rules(c, finite)
    same = (c["ref_row_sha256"] == c["cand_row_sha256"]).all(axis=1)
    yield "replayed, though both rows are the same", ~(c["replayed"] & same)
    for name in _DIVERGENCES:
        yield f"{name} is not 0 between equal rows", ~finite | ~same | (c[name] == 0)
    for ours, theirs in (("entropy_ref", "entropy_cand"), ("nll_ref", "nll_cand"), ("ref_top1", "cand_top1")):
        yield f"{ours} and {theirs} differ between equal rows", ~finite | ~same | (c[ours] == c[theirs])


def _probability_rules(
    c: Columns, finite: NDArray[np.bool_], vocab_size: int
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """What four probabilities say of NLL, entropy and ties."""
    for side in ("ref", "cand"):
        ours, theirs = c[f"{side}_p_ref_top1"], c[f"{side}_p_cand_top1"]
        yield f"{side} has two probabilities of one top-1", ~finite | c["flip"] | (ours == theirs)
        nll = c[f"nll_{side}"]
        for top, chance in (("ref_top1", ours), ("cand_top1", theirs)):
            known = finite & (c["target_id"] == c[top]) & (chance > _UNDERFLOW)
            with np.errstate(divide="ignore"):
                near = np.abs(nll + np.log(chance)) <= _SLACK * (1 + nll)
            yield f"nll_{side} is not -ln of its token's probability", ~known | near
        best = c[f"{side}_p_{side}_top1"]
        rest = np.clip(1 - best, _UNDERFLOW, 1)
        # Largest where all other ids are equally likely.
        with np.errstate(divide="ignore", invalid="ignore"):
            most = -best * np.log(best) - rest * np.log(rest / (vocab_size - 1))
        yield (
            f"entropy_{side} is above what the largest probability leaves",
            ~finite | (c[f"entropy_{side}"] <= most + 1e-6),
        )
    equal = [
        np.abs(c[f"{side}_p_ref_top1"] - c[f"{side}_p_cand_top1"]) <= 1e-12 * c[f"{side}_p_{side}_top1"]
        for side in ("ref", "cand")
    ]
    yield "tied, and both probabilities differ on either side", ~finite | ~c["tied"] | equal[0] | equal[1]


def _divergence_rules(c: Columns, finite: NDArray[np.bool_]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Merging all ids but one into a single event makes no divergence larger (data processing inequality)."""
    for top in ("ref_top1", "cand_top1"):
        p, q = c[f"ref_p_{top}"], c[f"cand_p_{top}"]
        yield (
            f"total variation is below what {top} alone makes",
            ~finite | (c["total_variation"] >= np.abs(p - q) - _SLACK),
        )
        for name, a, b in (("kl_ref_cand", p, q), ("kl_cand_ref", q, p)):
            least = _two_outcomes(a, b)
            yield f"{name} is below what {top} alone makes", ~finite | (c[name] >= least - _SLACK * (1 + least))
    yield (
        "jsd is above ln 2 times the total variation",
        ~finite | (c["jsd"] <= np.log(2) * c["total_variation"] + _SLACK),
    )


def _two_outcomes(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    """A lower bound of KL(p || q) over an event of these probabilities and its opposite.

    Both of q are made larger by more than 1 - q can be wrong by, which makes the result smaller.
    """
    p, rest = np.clip(p, _UNDERFLOW, 1), np.clip(1 - p, _UNDERFLOW, 1)
    with np.errstate(invalid="ignore"):
        bound: NDArray[Any] = p * np.log(p / (q + 1e-12)) + rest * np.log(rest / (1 - q + 1e-12))
    return bound


def _between(values: NDArray[Any], low: float, high: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (values >= low - _SLACK) & (values <= high + _SLACK)
    return inside


def _show(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, np.ndarray) else str(value)
