import math
import struct

import numpy as np
import pytest

from suite.errors import InvalidInput, RunFailed
from suite.llama.file import open_kld
from suite.llama.pair import compare_files
from suite.llama.printed import parse_printed
from suite.llama.statistics import summary_statistics
from tests.llama.files import write_kld


@pytest.fixture(scope="module")
def real_pair(base_kld, q4_0_kld):
    return compare_files(base_kld, q4_0_kld)


def test_every_printed_figure_is_reproduced(real_pair, printed_text):
    """The tool had Q's live logits; here Q comes from a file. Mean KLD is held to 2e-4 relative, same-top exactly."""
    ours = {figure.name: figure for figure in summary_statistics(real_pair.own)}
    printed = parse_printed(printed_text)
    assert [figure.name for figure in printed] == list(ours)
    for figure in printed:
        mine = ours[figure.name]
        if "KLD" in figure.name:
            assert mine.value == pytest.approx(figure.value, rel=2e-4, abs=2e-5), figure.name
        elif figure.unit:
            assert mine.value == pytest.approx(figure.value, abs=5e-3), figure.name
        else:
            assert mine.value == pytest.approx(figure.value, rel=2e-5), figure.name
        assert (mine.half_width is None) == (figure.half_width is None), figure.name
        if figure.half_width is not None:
            assert mine.half_width == pytest.approx(figure.half_width, rel=5e-4), figure.name
    assert ours["Mean KLD"].value == pytest.approx(0.263073, rel=2e-4)
    assert f"{ours['Same top p'].value:.3f} ± {ours['Same top p'].half_width:.3f}" == "64.567 ± 4.261"
    assert int(real_pair.own.same_top.sum()) == 82


def test_the_base_alone_is_reproduced_to_the_last_digit(real_pair):
    base = summary_statistics(real_pair.own)[1]
    assert f"{base.value:.6f} ± {base.half_width:.6f}" == "16.442123 ± 4.634868"


def test_the_normalised_value_lies_lower_by_what_clipping_adds(real_pair):
    ratio = real_pair.renormalised.kld.mean() / real_pair.own.kld.mean()
    assert 0.9965 < ratio < 0.9975
    assert 1.005 < real_pair.largest_mass < 1.006
    assert (real_pair.renormalised.kld >= 0).all()
    assert np.array_equal(real_pair.renormalised.same_top, real_pair.own.same_top)


def test_a_file_against_itself_differs_in_nothing(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    pair = compare_files(path, path)
    for columns in (pair.own, pair.renormalised):
        assert not columns.kld.any()
        assert not columns.delta_p.any()
        assert columns.same_top.all()


@pytest.mark.parametrize("clip", [16, 24])
def test_both_sides_against_an_independent_sum(tmp_path, clip):
    paths = [write_kld(tmp_path / f"{seed}.kld", seed=seed, vocab=13, clip=clip) for seed in (0, 1)]
    pair = compare_files(*paths)
    left, right = ([row for b in open_kld(p).blocks() for row in b.encoded.log_p().tolist()] for p in paths)
    targets = [int(t) for b in open_kld(paths[0]).blocks() for t in b.target_ids]
    for row, (ps, qs, target) in enumerate(zip(left, right, targets, strict=True)):
        own = math.fsum(math.exp(p) * (p - q) for p, q in zip(ps, qs, strict=True) if p > -16)
        assert pair.own.kld[row] == pytest.approx(own, rel=1e-5, abs=1e-6)
        assert pair.own.nll_base[row] == pytest.approx(-ps[target], rel=1e-6)
        assert pair.own.delta_p[row] == pytest.approx(math.exp(qs[target]) - math.exp(ps[target]), abs=1e-6)
        total_p, total_q = (math.log(math.fsum(map(math.exp, side))) for side in (ps, qs))
        exact = math.fsum(math.exp(p - total_p) * (p - total_p - q + total_q) for p, q in zip(ps, qs, strict=True))
        assert pair.renormalised.kld[row] == pytest.approx(exact, rel=1e-4, abs=1e-6)
        assert pair.renormalised.nll_q[row] == pytest.approx(total_q - qs[target], rel=1e-4, abs=1e-5)


def test_rows_that_are_not_finite_fail_the_comparison(tmp_path):
    base, bad = write_kld(tmp_path / "a.kld"), write_kld(tmp_path / "b.kld")
    header = open_kld(bad).header
    data = bytearray(bad.read_bytes())
    at = header.rows_offset_bytes + 4 * header.row_bytes
    data[at : at + 4] = struct.pack("<f", math.nan)
    bad.write_bytes(data)
    with pytest.raises(RunFailed, match="1 of 9 rows are not finite, the first at position 13"):
        compare_files(base, bad)


def test_files_of_other_texts_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="tokens"):
        compare_files(write_kld(tmp_path / "a.kld"), write_kld(tmp_path / "b.kld", tokens_seed=5))
