import dataclasses
import json

import pytest

from suite.agent.chunks import (
    JOURNAL_NAME,
    ChunkFile,
    Journal,
    chunk_name,
    file_sha256,
    read_journal,
    record_chunk,
    start_journal,
)
from suite.agent.events import AgentFailure

JOURNAL = Journal(job="a" * 64, codec="hidden", replay=None)


def record(folder, number, data, **changes) -> ChunkFile:
    """Note a chunk in the journal, without making it."""
    chunk = ChunkFile(
        file=chunk_name(number),
        sha256=sha(folder, data),
        size_bytes=len(data),
        num_rows=2,
        first_position=2 * number,
        last_position=2 * number + 1,
        non_finite_rows=0,
    )
    chunk = dataclasses.replace(chunk, **changes)
    record_chunk(folder, chunk)
    return chunk


def sha(folder, data):
    path = folder / "scratch"
    path.write_bytes(data)
    return file_sha256(path)


def write(folder, number, data, **changes) -> ChunkFile:
    chunk = record(folder, number, data, **changes)
    (folder / chunk.file).write_bytes(data)
    return chunk


def test_whole_chunks_come_back_with_all_that_was_noted(tmp_path):
    start_journal(tmp_path, JOURNAL)
    written = [write(tmp_path, n, bytes([n])) for n in range(3)]
    written.append(write(tmp_path, 3, b"x", non_finite_rows=2))
    assert read_journal(tmp_path) == (JOURNAL, written)
    assert "non_finite_rows" not in written[3].to_index()


def test_without_a_journal_there_is_nothing_to_go_on_from(tmp_path):
    (tmp_path / chunk_name(0)).write_bytes(b"x")
    assert read_journal(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}\n", "[]\n", "not json\n", '{"job": "a", "codec": "hidden", "replay": null'])
def test_a_journal_that_says_nothing_is_none(tmp_path, text):
    (tmp_path / JOURNAL_NAME).write_text(text)
    assert read_journal(tmp_path) is None


def test_a_kill_between_the_note_and_the_name(tmp_path):
    start_journal(tmp_path, JOURNAL)
    first = write(tmp_path, 0, b"x")
    record(tmp_path, 1, b"y")
    (tmp_path / ".chunk-00001.safetensors.tmp").write_bytes(b"y")
    assert read_journal(tmp_path) == (JOURNAL, [first])
    assert not list(tmp_path.glob(".chunk-*"))


def test_a_kill_while_facts_are_added_leaves_either_form(tmp_path):
    start_journal(tmp_path, JOURNAL)
    plain = write(tmp_path, 0, b"rows")
    facts = record(tmp_path, 0, b"rows and facts")
    assert read_journal(tmp_path) == (JOURNAL, [plain])
    (tmp_path / plain.file).write_bytes(b"rows and facts")
    assert read_journal(tmp_path) == (JOURNAL, [facts])


def test_a_chunk_that_was_never_noted_or_is_another_is_refused(tmp_path):
    start_journal(tmp_path, JOURNAL)
    chunk = write(tmp_path, 0, b"rows")
    (tmp_path / chunk.file).write_bytes(b"Rows")
    with pytest.raises(AgentFailure, match=r"chunk-00000.safetensors is not what") as caught:
        read_journal(tmp_path)
    assert caught.value.kind == "altered"


def test_a_gap_ends_what_is_whole(tmp_path):
    start_journal(tmp_path, JOURNAL)
    first = write(tmp_path, 0, b"0")
    write(tmp_path, 1, b"1")
    write(tmp_path, 2, b"2")
    (tmp_path / chunk_name(1)).unlink()
    assert read_journal(tmp_path) == (JOURNAL, [first])


def test_a_torn_line_is_cut_off_so_that_the_next_is_whole(tmp_path):
    start_journal(tmp_path, JOURNAL)
    first = write(tmp_path, 0, b"0")
    with (tmp_path / JOURNAL_NAME).open("ab") as stream:
        stream.write(json.dumps(dataclasses.asdict(first)).encode()[:-7])
    assert read_journal(tmp_path) == (JOURNAL, [first])
    second = write(tmp_path, 1, b"1")
    assert read_journal(tmp_path) == (JOURNAL, [first, second])


def test_a_new_start_takes_everything_of_the_old_one_away(tmp_path):
    start_journal(tmp_path, JOURNAL)
    write(tmp_path, 0, b"0")
    (tmp_path / ".chunk-00001.safetensors.tmp").touch()
    after = Journal(job="b" * 64, codec="logits", replay={"rows": 64, "equal": 3, "accepted": False})
    start_journal(tmp_path, after)
    assert read_journal(tmp_path) == (after, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [JOURNAL_NAME, "scratch"]
