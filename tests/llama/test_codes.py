import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from suite.llama.codes import encode_rows
from suite.llama.file import open_kld
from tests.capture.synthetic import bf16
from tests.llama.files import scalar_row

LOGITS = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=9),
    elements=st.floats(-60, 60, width=32),
)


@given(LOGITS, st.sampled_from([16, 24]))
def test_codes_are_those_of_the_scalar_program(logits, clip):
    encoded = encode_rows(logits, clip_nats=clip)
    for row, values in enumerate(logits):
        scale, floor, codes = scalar_row(values, clip)
        assert encoded.scales[row] == scale
        assert encoded.floors[row] == pytest.approx(floor, abs=4e-6)
        assert encoded.codes[row].tolist() == codes


@given(LOGITS, st.sampled_from([16, 24]))
def test_codes_survive_being_decoded_and_encoded_again(logits, clip):
    first = encode_rows(logits, clip_nats=clip)
    again = encode_rows(first.logits(), clip_nats=clip)
    assert np.array_equal(again.codes, first.codes)
    np.testing.assert_allclose(again.scales, first.scales, rtol=2e-7)


@given(LOGITS)
def test_a_decoded_row_lies_within_half_a_step_of_the_clipped_logits(logits):
    encoded = encode_rows(logits, clip_nats=16)
    exact = logits.astype(np.float64)
    kept = np.maximum(exact, exact.max(axis=1, keepdims=True) - 16)
    error = np.abs((encoded.logits() - encoded.logits().max(axis=1)[:, None]) - (kept - kept.max(axis=1)[:, None]))
    assert (error <= 0.5 * encoded.scales[:, None] + 1.5e-5).all()


@given(LOGITS)
def test_raw_rows_sum_to_one_and_what_clipping_adds(logits):
    encoded = encode_rows(logits, clip_nats=16)
    mass = encoded.mass()
    assert (mass >= 1 - 2e-4).all()
    assert (mass <= 1 + logits.shape[1] * np.exp(-16) + 2e-4).all()
    np.testing.assert_allclose(np.exp(encoded.normalised_log_p()).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(encoded.log_p().astype(np.float64)).sum(axis=1), mass, rtol=1e-5)


@given(LOGITS)
def test_equal_numbers_are_equal_codes(logits):
    encoded = encode_rows(logits, clip_nats=16)
    for codes, values in zip(encoded.codes, encoded.logits(), strict=True):
        flat = codes if encoded.scales.any() else np.zeros_like(codes)
        assert len(set(values.tolist())) == len(set(flat.tolist()))


def test_a_flat_row_has_scale_zero_and_is_uniform():
    encoded = encode_rows(np.full((1, 5), 3.25, np.float32), clip_nats=16)
    assert encoded.scales[0] == 0
    assert encoded.codes.tolist() == [[0] * 5]
    np.testing.assert_allclose(encoded.normalised_log_p(), np.log(0.2))
    np.testing.assert_allclose(encoded.log_p(), np.log(0.2), rtol=1e-6)


def test_bfloat16_rows_are_encoded_as_the_same_numbers_in_float32():
    values = np.array([[1.5, -3.0, 0.25, -40.0]], np.float32)
    assert np.array_equal(encode_rows(bf16(values), clip_nats=16).codes, encode_rows(values, clip_nats=16).codes)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_marked_and_its_neighbours_are_not(bad):
    logits = np.array([[0, 1, 2], [0, bad, 2], [5, 1, 2]], np.float32)
    encoded = encode_rows(logits, clip_nats=16)
    assert encoded.finite.tolist() == [True, False, True]
    assert np.isnan(encoded.log_p()[1]).all()
    assert np.isnan(encoded.logits()[1]).all()
    assert np.isfinite(encoded.log_p()[[0, 2]]).all()


def test_real_rows_come_back_code_by_code(base_kld):
    for block in open_kld(base_kld).blocks():
        again = encode_rows(block.encoded.logits(), clip_nats=16)
        assert np.array_equal(again.codes, block.encoded.codes)
        assert np.array_equal(again.scales, block.encoded.scales)


def test_a_logit_halfway_between_two_codes_goes_to_the_even_one():
    step = 2.0**-13  # 65535 of them span less than the clip, so the scale is exactly this
    logits = np.array([[0, 65535 * step, 2.5 * step, 3.5 * step, 1.25 * step]], np.float32)
    encoded = encode_rows(logits, clip_nats=16)
    assert encoded.scales[0] == step
    assert encoded.codes.tolist() == [[0, 65535, 2, 4, 1]]
