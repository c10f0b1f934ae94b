import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from suite.agent.positions import PROBE_GROUPS, PROBE_ROWS, probe_sample, wanted_positions
from suite.manifest.positions import probe_positions

TOKENS = st.integers(1, 60)


@st.composite
def policies(draw):
    num_tokens = draw(TOKENS)
    # Ranges as a lock may hold them, also some that reach beyond the end, touch or overlap.
    starts = draw(st.lists(st.tuples(st.integers(0, 70), st.integers(1, 30)), max_size=4))
    return {
        "path": draw(st.sampled_from(["prefill", "decode"])),
        "ranges": tuple((a, a + length) for a, length in sorted(starts)),
        "num_tokens": num_tokens,
    }


@given(policy=policies(), stride=st.none() | st.integers(1, 80))
def test_the_agent_keeps_what_the_host_plans(policy, stride):
    stride = stride if policy["path"] == "prefill" else None
    wanted = wanted_positions(stride=stride, **policy)
    assert wanted.shape == (policy["num_tokens"],)
    assert np.flatnonzero(wanted).tolist() == probe_positions(stride=stride, **policy)


@given(policy=policies(), trusted=st.integers(0, 70))
def test_what_an_interrupted_start_has_written_is_not_kept_again(policy, trusted):
    every = np.flatnonzero(wanted_positions(stride=None, **policy))
    rest = np.flatnonzero(wanted_positions(stride=None, trusted_until=trusted, **policy))
    assert rest.tolist() == [p for p in every if p >= trusted]


def test_by_example():
    common = {"num_tokens": 12, "path": "prefill"}
    assert np.flatnonzero(wanted_positions(stride=4, ranges=[], **common)).tolist() == [3, 7]  # 11 has no target
    assert np.flatnonzero(wanted_positions(stride=None, ranges=[(5, 8)], **common)).tolist() == [4, 5, 6]
    decode = {"num_tokens": 12, "path": "decode", "stride": None}
    # Token 5 is chosen by the kernels that read the prompt.
    assert np.flatnonzero(wanted_positions(ranges=[(5, 8)], **decode)).tolist() == [5, 6]
    assert not wanted_positions(ranges=[(5, 6)], **decode).any()


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=400, unique=True).map(sorted))
def test_the_replay_is_probed_at_both_ends_and_between(positions):
    chosen = probe_sample(np.array(positions))
    assert chosen <= set(positions)
    assert {positions[0], positions[-1]} <= chosen
    if len(positions) <= PROBE_ROWS:
        assert chosen == set(positions)
    else:
        assert PROBE_ROWS // PROBE_GROUPS < len(chosen) <= PROBE_ROWS
