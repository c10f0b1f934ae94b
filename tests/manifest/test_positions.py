from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.manifest.positions import probe_positions, resolve_ranges
from suite.manifest.schema import Capture
from tests.manifest.samples import rendered

# Three times system 10, user 10, assistant 20: outputs at [23, 40), [63, 80), [103, 120); calls at [31, 39) and so on.
WORKLOAD = rendered()


def capture(**values: Any) -> Capture:
    return Capture.model_validate({"path": "prefill", **values})


def test_stride_probes_predict_the_next_token() -> None:
    assert probe_positions(path="prefill", stride=4, ranges=(), num_tokens=13) == [3, 7, 11]
    # The last token has no target.
    assert probe_positions(path="prefill", stride=4, ranges=(), num_tokens=12) == [3, 7]
    assert probe_positions(path="prefill", stride=1, ranges=(), num_tokens=3) == [0, 1]


def test_range_probes_on_both_paths() -> None:
    assert probe_positions(path="prefill", stride=None, ranges=((5, 8),), num_tokens=20) == [4, 5, 6]
    assert probe_positions(path="decode", stride=None, ranges=((5, 8),), num_tokens=20) == [5, 6]


def test_stride_and_ranges_overlap_without_doubling() -> None:
    assert probe_positions(path="prefill", stride=4, ranges=((7, 10),), num_tokens=14) == [3, 6, 7, 8, 11]


@given(
    st.sampled_from(["prefill", "decode"]),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20)), max_size=5),
    st.integers(2, 80),
)
def test_positions_are_ascending_and_have_targets(
    path: str, stride: int, starts: list[tuple[int, int]], num_tokens: int
) -> None:
    ranges = tuple((a, a + length) for a, length in starts)
    positions = probe_positions(path=path, stride=stride, ranges=ranges, num_tokens=num_tokens)
    assert positions == sorted(set(positions))
    assert all(0 <= p < num_tokens - 1 for p in positions)
    for p in positions:
        inside = any(a <= p + (path == "prefill") < b for a, b in ranges)
        assert p % stride == stride - 1 or inside


def test_none_and_assistant_output() -> None:
    assert resolve_ranges(capture(stride=4), WORKLOAD) == ()
    outputs = ((23, 40), (63, 80), (103, 120))
    assert resolve_ranges(capture(ranges="assistant_output"), WORKLOAD) == outputs
    assert resolve_ranges(capture(path="decode", ranges="assistant_output"), WORKLOAD) == outputs


def test_kinds_on_the_prefill_path_are_the_spans_themselves() -> None:
    policy = capture(ranges={"kinds": ("tool_call",)})
    assert resolve_ranges(policy, WORKLOAD) == ((31, 39), (71, 79), (111, 119))


def test_decode_ranges_are_extended_back_to_the_turns_own_start() -> None:
    policy = capture(path="decode", ranges={"kinds": ("tool_call",)})
    assert resolve_ranges(policy, WORKLOAD) == ((23, 39), (63, 79), (103, 119))


def test_max_positions_takes_whole_ranges_from_the_deepest() -> None:
    def chosen(max_positions: int) -> tuple[tuple[int, int], ...]:
        return resolve_ranges(
            capture(path="decode", ranges={"kinds": ("tool_call",), "max_positions": max_positions}), WORKLOAD
        )

    assert chosen(32) == ((63, 79), (103, 119))
    assert chosen(31) == ((103, 119),)
    assert chosen(1) == ((103, 119),)
    assert len(chosen(1000)) == 3


def test_explicit_ranges() -> None:
    assert resolve_ranges(capture(ranges=((5, 8),)), WORKLOAD) == ((5, 8),)
    assert resolve_ranges(capture(path="decode", ranges=((63, 70),)), WORKLOAD) == ((63, 70),)
    with pytest.raises(InvalidInput, match="ends beyond the workload's 120 tokens"):
        resolve_ranges(capture(ranges=((5, 121),)), WORKLOAD)
    with pytest.raises(InvalidInput, match=r"(?s)does not start where.*nearest such token is 63"):
        resolve_ranges(capture(path="decode", ranges=((64, 70),)), WORKLOAD)


def test_policy_that_selects_nothing() -> None:
    with pytest.raises(InvalidInput, match="selects no position"):
        resolve_ranges(capture(ranges={"kinds": ("literal",)}), WORKLOAD)
    with pytest.raises(InvalidInput, match="selects no position"):
        resolve_ranges(capture(stride=500), WORKLOAD)
    with pytest.raises(InvalidInput, match="selects no position"):
        resolve_ranges(capture(path="decode", ranges={"kinds": ("user",)}), WORKLOAD)


def test_first_token_is_predicted_by_nothing(tmp_path: Path) -> None:
    [(start, _), *_] = resolve_ranges(capture(ranges={"kinds": ("system",)}), WORKLOAD)
    assert start == 1
