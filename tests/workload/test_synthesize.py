from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.workload.checks import check_session
from suite.workload.lab.scenarios import ALL, SCENARIOS
from suite.workload.session import AssistantMessage, Session, ToolMessage, load_session, parse_session
from suite.workload.synthesize import (
    GENERATOR,
    MAX_TOKENS,
    MIN_TOKENS,
    TOLERANCE_TOKENS,
    build_session,
    estimate_tokens,
    lab_at,
    synthesize,
)
from tests.examples import examples
from tests.workload.conftest import LAB

# A change of the laboratory or of a scenario changes these on purpose, together with GENERATOR and the files.
SHIPPED = {
    "session-2k.json": "9cddc39944fdfe7e07e154b333dfad662ab6d4f75eefa41faccb8a5ee2a01bdd",
    "session-7k.json": "e53847251f1e52736be7e664f9588ee81f5d292b849f7d47229986bf84499e8a",
    "session-32k.json": "1f324202d5f923723482c7bfc2e70c98ce5a9fe0d960e3d7bbefc1585a369f08",
    "session-100k.json": "fee4d9ce9731cdc982acf092c2c9fb5760a30344222f6a2581d47f266a5025d7",
}


@pytest.mark.parametrize("file", SHIPPED)
def test_shipped_sessions_are_written_again_byte_for_byte(file: str) -> None:
    data = (LAB / file).read_bytes()
    shipped = parse_session(data)
    source = shipped.provenance
    assert source.generator == GENERATOR
    assert source.seed is not None
    assert source.episodes
    again = build_session(shipped.name, source.seed, source.episodes)
    assert hashlib.sha256(again.to_json()).hexdigest() == SHIPPED[file]
    assert again.to_json() == data


def test_shipped_sessions_say_what_they_are() -> None:
    for file in SHIPPED:
        shipped = load_session(LAB / file)
        assert shipped.licence == "Apache-2.0"
        assert shipped.provenance.kind == "synthetic"
        assert "off-policy" in shipped.provenance.note


def test_the_demo_session_has_what_it_should_show() -> None:
    shipped = load_session(LAB / "session-7k.json")
    text = shipped.to_json().decode()
    calls = [m.tool_calls for m in shipped.messages if isinstance(m, AssistantMessage) and m.tool_calls]
    assert any(len(group) > 1 for group in calls)
    assert "HTTP 400" in text
    for literal in ("page_size", "5432", "GigabitEthernet0/0/1.", "VLAN", "db-2"):
        assert literal in text


@settings(max_examples=examples(2))
@given(seed=st.integers(0, 10**6), num_tokens=st.integers(MIN_TOKENS, 4_000))
def test_any_length_is_reached_and_never_exceeded(seed: int, num_tokens: int) -> None:
    made = synthesize(num_tokens, seed)
    assert num_tokens - TOLERANCE_TOKENS <= estimate_tokens(made) <= num_tokens
    last = made.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert not last.tool_calls
    check_session(made, where="made")
    assert synthesize(num_tokens, seed).to_json() == made.to_json()


def test_another_measure_decides_the_length() -> None:
    def words(session: Session) -> int:
        return len(session.to_json().split())

    made = synthesize(3_000, 1, measure=words)
    assert 3_000 - TOLERANCE_TOKENS <= words(made) <= 3_000
    assert made.name == "netops-lab-3k"


@pytest.mark.parametrize("num_tokens", [-1, 0, MIN_TOKENS - 1, MAX_TOKENS + 1])
def test_lengths_out_of_reach_are_refused(num_tokens: int) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        synthesize(num_tokens, 1)


def test_a_measure_that_no_scenario_fits_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no scenario fits"):
        synthesize(MIN_TOKENS, 1, measure=lambda session: 1_000 * len(session.messages))


def test_seeds_give_different_sessions() -> None:
    assert len({synthesize(2_500, seed).digest() for seed in range(3)}) == 3


def test_long_sessions_use_every_scenario_before_repeating_one() -> None:
    episodes = [name for name in load_session(LAB / "session-100k.json").provenance.episodes or [] if name in SCENARIOS]
    assert sorted(episodes[: len(SCENARIOS)]) == sorted(SCENARIOS)
    assert all(first != second for first, second in zip(episodes, episodes[1:], strict=False))  # noqa: RUF007


@pytest.mark.parametrize("episode", sorted(ALL))
def test_every_scenario_gives_valid_sessions(episode: str) -> None:
    for seed in range(12):
        made = build_session("one", seed, [episode])
        check_session(made, where=f"{episode} {seed}")
        assert made.messages[-1].role == "assistant"


def test_an_unknown_episode_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no scenario named 'dance'"):
        build_session("x", 1, ["dance"])


def test_the_laboratory_continued_from_any_turn_gives_the_recorded_answers() -> None:
    shipped = load_session(LAB / "session-7k.json")
    answers = {m.tool_call_id: m.content for m in shipped.messages if isinstance(m, ToolMessage)}
    given_again = {}
    for index, message in enumerate(shipped.messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            lab = lab_at(shipped, index)
            for item in message.tool_calls:
                given_again[item.id] = lab.call(item.function.name, item.function.arguments).content
    assert given_again == answers


def test_only_the_assistants_messages_of_lab_sessions_can_be_continued() -> None:
    shipped = load_session(LAB / "session-7k.json")
    for index in (0, 1, 10**6):
        with pytest.raises(InvalidInput, match="not an assistant message"):
            lab_at(shipped, index)
    value = json.loads(shipped.to_json())
    value["provenance"]["generator"] = "somebody else"
    with pytest.raises(InvalidInput, match="not written by"):
        lab_at(parse_session(json.dumps(value).encode()), 2)
