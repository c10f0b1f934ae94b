import json
from pathlib import Path

import pytest

from suite.errors import InvalidInput
from suite.replay.counts import headlines
from suite.replay.schema import parse_replays
from tests.replay.sample import record

FIXTURE = Path(__file__).parent.parent / "fixtures" / "replays.json"


def test_the_fixture_is_what_the_judge_makes_today() -> None:
    made = record()
    assert FIXTURE.read_bytes() == made.to_bytes()
    assert parse_replays(FIXTURE.read_bytes()) == made


def test_headlines_follow_from_the_answers() -> None:
    found = parse_replays(FIXTURE.read_bytes())
    assert found.headlines == headlines(found.runs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "newer"),
        ({"note": ""}, "note"),
        ({"samples": 2}, "one for each turn and sample"),
        ({"sampler": None}, "a sampler belongs to sampled answers"),
    ],
)
def test_a_record_that_is_none_is_refused(change: dict[str, object], message: str) -> None:
    value = json.loads(FIXTURE.read_bytes()) | change
    with pytest.raises(InvalidInput, match=message):
        parse_replays(json.dumps(value).encode())


def test_two_runs_of_one_side_are_refused() -> None:
    value = json.loads(FIXTURE.read_bytes())
    value["runs"].append(value["runs"][0])
    with pytest.raises(InvalidInput, match="two runs of the reference"):
        parse_replays(json.dumps(value).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"a": 1, "a": 2}', b"\xff"])
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_replays(data)
