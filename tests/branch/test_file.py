"""The forks' file: the same forks give the same bytes, a range of positions is read alone, and damage is found."""

from __future__ import annotations

import gzip
import json

import pytest

from suite.branch import file as fork_file
from suite.branch.file import pack_forks, read_forks
from suite.branch.schema import BRANCHES_NAME, FORKS_NAME, STATE_LETTERS, parse_branches, parse_fork
from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.grade.interface import State
from tests.branch import sample


def test_the_sample_files_hold_the_sample_forks() -> None:
    data = (sample.FOLDER / FORKS_NAME).read_bytes()
    record = parse_branches((sample.FOLDER / BRANCHES_NAME).read_bytes())
    assert list(read_forks(data, record)) == sample.forks()
    assert record == sample.record(record.segments)


def test_the_same_forks_give_the_same_bytes_and_plain_lines() -> None:
    first, segments = pack_forks(sample.forks())
    assert pack_forks(sample.forks()) == (first, segments)
    lines = gzip.decompress(first).splitlines()
    assert [json.loads(line)["position"] for line in lines] == [1200, 2404, 3000]


def test_a_range_of_positions_expands_its_segments_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_file, "FORKS_PER_SEGMENT", 1)
    data, segments = pack_forks(sample.forks())
    record = sample.record(segments)
    damaged = b"\0" * segments[0].size_bytes + data[segments[0].size_bytes :]
    assert [fork.position for fork in read_forks(damaged, record, first=2000)] == [2404, 3000]
    assert [fork.position for fork in read_forks(data, record, first=1201, last=2404)] == [2404]
    with pytest.raises(VerificationFailed, match="cannot be expanded"):
        list(read_forks(damaged, record))


@pytest.mark.parametrize("change", ["shorter", "longer", "other order", "fewer lines", "bomb"])
def test_a_damaged_file_is_refused(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, segments = pack_forks(sample.forks())
    record = sample.record(segments)
    lines = gzip.decompress(data).splitlines(keepends=True)
    if change == "shorter":
        data = data[:-1]
    elif change == "longer":
        data += b"\0"
    elif change == "bomb":
        monkeypatch.setattr(fork_file, "SEGMENT_LIMIT_BYTES", 100)
    else:
        lines = [lines[1], lines[0], lines[2]] if change == "other order" else lines[:2]
        data = gzip.compress(b"".join(lines), mtime=0)
        whole = segments[0].model_copy(update={"size_bytes": len(data)})
        record = record.model_copy(update={"segments": (whole,)})
    with pytest.raises(SuiteError):
        list(read_forks(data, record))


def test_a_fork_with_an_unknown_key_or_a_contradiction_is_refused() -> None:
    value = json.loads(sample.forks()[0].to_line())
    with pytest.raises(InvalidInput, match="Extra inputs"):
        parse_fork(json.dumps(value | {"extra": 1}).encode(), where="line")
    value["futures"][0]["engine_token_id"] = 7
    with pytest.raises(InvalidInput, match="captured winner"):
        parse_fork(json.dumps(value).encode(), where="line")


def test_every_state_of_a_grammar_has_its_letter() -> None:
    assert list(STATE_LETTERS.values()) == [str(state) for state in State]
