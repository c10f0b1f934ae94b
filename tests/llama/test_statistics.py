"""The formulas, against plain sums and against the ± values that were published with them."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.llama.pair import PairColumns
from suite.llama.statistics import (
    half_width_of_difference,
    half_width_of_mean,
    half_width_of_share,
    quantile,
    summary_statistics,
)

PUBLISHED = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "llama_kld" / "published_llama3_8b.json").read_text(encoding="utf-8")
)
ROWS = PUBLISHED["rows"]
PAIRS = PUBLISHED["llama2_vs_llama3"]

# Wikitext-2 test at a context of 512: 564 chunks with LLaMA 3's tokenizer, 655 with LLaMA 2's, 255 rows each.
NUM_ROWS = {"L3": 564 * 255, "L2": 655 * 255}

INCONSISTENT = {("q4_1", "None"), ("iq1_S", "WT 100k")}
"""Published Δp that cannot belong to its own RMS. The second has the Δp of the `WT 10k` row."""


def columns(n: int, seed: int = 0) -> PairColumns:
    random = np.random.default_rng(seed)
    base = random.exponential(2, n)
    return PairColumns(
        nll_q=base + random.normal(0.1, 0.3, n),
        nll_base=base,
        kld=random.exponential(0.1, n),
        delta_p=random.normal(-0.02, 0.1, n),
        same_top=random.random(n) < 0.8,
    )


def by_name(pair: PairColumns):
    return {figure.name: figure for figure in summary_statistics(pair)}


def test_means_and_errors_are_those_of_the_textbook():
    pair = columns(400)
    figures = by_name(pair)
    for name, values in (("Mean KLD", pair.kld), ("Mean Δp", 100 * pair.delta_p)):
        assert figures[name].value == pytest.approx(statistics.fmean(values))
        spread = statistics.pstdev(values) / math.sqrt(399)  # (n - 1) divides a variance over n
        assert figures[name].half_width == pytest.approx(spread, rel=1e-9)
    assert figures["RMS Δp"].value == pytest.approx(100 * math.sqrt(statistics.fmean(pair.delta_p**2)))
    squares = pair.delta_p**2
    expected = 100 * statistics.pstdev(squares) / math.sqrt(399) / (2 * math.sqrt(statistics.fmean(squares)))
    assert figures["RMS Δp"].half_width == pytest.approx(expected, rel=1e-9)


def test_the_ratio_has_the_error_of_the_paired_differences():
    """σ_Q² + σ_base² - 2 cov is the variance of the differences: what pairing buys."""
    pair = columns(400)
    figures = by_name(pair)
    differences = pair.nll_q - pair.nll_base
    error = statistics.pstdev(differences) / math.sqrt(399)
    assert figures["Mean ln(PPL(Q)/PPL(base))"].value == pytest.approx(differences.mean())
    assert figures["Mean ln(PPL(Q)/PPL(base))"].half_width == pytest.approx(error, rel=1e-6)
    ratio = figures["Mean PPL(Q)/PPL(base)"]
    assert ratio.value == pytest.approx(figures["Mean PPL(Q)"].value / figures["Mean PPL(base)"].value)
    assert ratio.half_width == pytest.approx(ratio.value * error, rel=1e-6)
    correlation = statistics.correlation(pair.nll_q, pair.nll_base)
    assert figures["Cor(ln(PPL(Q)), ln(PPL(base)))"].value == pytest.approx(100 * correlation)
    ends = pair.nll_q * figures["Mean PPL(Q)"].value - pair.nll_base * figures["Mean PPL(base)"].value
    difference = figures["Mean PPL(Q)-PPL(base)"]
    assert difference.half_width == pytest.approx(statistics.pstdev(ends) / math.sqrt(399), rel=1e-6)


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=60), st.floats(0, 1))
def test_quantiles_interpolate_between_order_statistics(values, fraction):
    ordered = np.sort(np.array(values, np.float32))
    assert quantile(ordered, fraction) == pytest.approx(np.quantile(ordered.astype(float), fraction), abs=1e-3)


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11])
def test_few_rows_have_no_error(n):
    figures = by_name(columns(n))
    assert (figures["Mean KLD"].half_width == 0) == (n <= 10)
    assert math.isfinite(figures["Mean PPL(Q)-PPL(base)"].half_width)


def test_no_rows_are_refused():
    with pytest.raises(InvalidInput):
        summary_statistics(columns(0))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['quant']}-{row['imatrix']}")
def test_published_error_of_mean_dp_follows_from_mean_and_rms(row):
    mean, error = row["mean_dp_percent"]
    rms = row["rms_dp_percent"][0]
    ours = half_width_of_mean(mean, rms * rms, NUM_ROWS["L3"])
    assert (f"{ours:.3f}" == f"{error:.3f}") == ((row["quant"], row["imatrix"]) not in INCONSISTENT)


@pytest.mark.parametrize("column", PAIRS["Same top p"])
def test_published_error_of_same_top_follows(column):
    share, error = PAIRS["Same top p"][column]
    assert half_width_of_share(share / 100, NUM_ROWS[column[:2]]) * 100 == pytest.approx(error, abs=6e-4)
    mean, error = PAIRS["Mean Δp"][column]
    rms = PAIRS["RMS Δp"][column][0]
    assert half_width_of_mean(mean, rms * rms, NUM_ROWS[column[:2]]) == pytest.approx(error, abs=6e-4)


# Left out: `L2 7b q2_K`, whose published PPL is the base's own (5.794552 = 5.798542 - 0.003990).
@pytest.mark.parametrize("column", [column for column in PAIRS["Mean PPL"] if column != "L2 7b q2_K"])
def test_published_error_of_the_difference_follows_from_those_of_ppl_and_ratio(column):
    """cov from the ratio's ±, then the difference's ± from cov; the base's own ± is published for LLaMA 2 only."""
    ppl, ppl_error = PAIRS["Mean PPL"][column]
    ratio, ratio_error = PAIRS["Mean PPL ratio"][column]
    difference, difference_error = PAIRS["Mean ΔPPL"][column]
    base = ppl - difference
    # LLaMA 3: the F16 row's ±, whose PPL lies 0.02 % from the base's.
    base_error = PAIRS["Mean PPL"]["L2 7b q2_K"][1] if column.startswith("L2") else ROWS[0]["ppl"][1]
    assert ppl / base == pytest.approx(ratio, abs=1e-6)
    q, b = ppl_error / ppl, base_error / base
    covariance = (q * q + b * b - (ratio_error / ratio) ** 2) / 2
    ours = half_width_of_difference(ppl_error, base_error, ppl * base * covariance)
    assert ours == pytest.approx(difference_error, rel=0.006)
