import json

import numpy as np
import pytest
from pydantic import ValidationError

from suite.capture.store import open_capture
from suite.errors import InvalidInput
from suite.score.floor import Repeats, floor_of, repeat_floor
from tests.capture.synthetic import bf16, write_capture
from tests.score.session import TOKENS, logits


def start(folder, values, number, **options):
    return open_capture(write_capture(folder / str(number), bf16(values), TOKENS, start=number, **options))


@pytest.mark.parametrize("fingerprint", [False, True])
def test_identical_starts_make_a_floor_of_nothing(tmp_path, fingerprint):
    starts = [start(tmp_path, logits(), k, chunk_rows=3 + k, fingerprint=fingerprint) for k in range(3)]
    floor = floor_of(repeat_floor(starts))
    assert [(s.start, s.flips, s.identical_rows, s.n) for s in floor.starts] == [(k, 0, 11, 11) for k in range(3)]
    assert floor.text() == "0, 0 flips, all rows identical (of 3 starts, n = 11)"


@pytest.mark.parametrize("fingerprint", [False, True])
def test_flips_are_counted_per_start_with_their_class(tmp_path, fingerprint):
    other, tie = logits(), logits()
    other[2, 5] = 20
    tie[5] = [2, 2, 0, 0, 0, 0]
    first = logits()
    first[5] = [1, 2, 0, 0, 0, 0]
    other[5] = first[5]
    other[7] += 0.5  # a changed row without a flip
    starts = [start(tmp_path, v, k, fingerprint=fingerprint) for k, v in enumerate([first, other, tie])]
    repeats = repeat_floor(starts)
    assert [(s.flips, s.identical_rows) for s in floor_of(repeats).starts] == [(0, 11), (1, 9), (1, 10)]
    found = [(f.position, f.first_top1, f.top1, f.flip_class) for s in repeats.starts for f in s.flips]
    assert found == [(2, 3, 5, "confident"), (5, 1, 0, "tied")]
    assert floor_of(repeats).text() == "1, 1 flips, 0 of 2 repeats bit-identical (of 3 starts, n = 11)"


def test_fewer_starts_are_said(tmp_path):
    two = [start(tmp_path, logits(), k) for k in range(2)]
    assert (
        floor_of(repeat_floor(two)).text()
        == "0 flips, all rows identical (of 2 starts, n = 11; fewer than three starts)"
    )
    assert floor_of(repeat_floor(two[:1])).text() == "not measured (of 1 start, n = 11)"


def test_another_lock_or_other_positions_are_no_repeat(tmp_path):
    first = start(tmp_path, logits(), 0)
    with pytest.raises(InvalidInput, match="another lock"):
        repeat_floor([first, start(tmp_path, logits(), 1, capture_digest="8" * 64)])
    inside = [start(tmp_path / str(at), logits()[:3], 0, positions=[0, at, 9]) for at in (3, 4)]
    with pytest.raises(InvalidInput, match="differ in positions"):
        repeat_floor(inside)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v["starts"][1].update(identical_rows=10), "contradicts rows_sha256"),
        (lambda v: v["starts"][1].update(rows_sha256="0" * 64), "contradicts rows_sha256"),
        (lambda v: v["starts"][1].update(n=12), "contradict each other"),
        (lambda v: v["starts"][1].update(start=0), "stands twice"),
        (lambda v: v["starts"][0].update(identical_rows=3, rows_sha256="0" * 64), "contradicts|differs from itself"),
        (lambda v: v.update(starts=[]), "at least 1"),
    ],
)
def test_repeats_that_contradict_themselves_are_refused(tmp_path, change, told):
    starts = [start(tmp_path, logits(), k) for k in range(2)]
    value = json.loads(repeat_floor(starts).model_dump_json())
    assert Repeats.model_validate_json(json.dumps(value)) == repeat_floor(starts)
    change(value)
    with pytest.raises(ValidationError, match=told):
        Repeats.model_validate_json(json.dumps(value))


def test_rows_are_only_read_where_hashes_differ(tmp_path, monkeypatch):
    from suite.capture.tensors import TensorFile

    read = []
    original = TensorFile.read

    def watch(self, name, start=0, stop=None):
        read.append((name, start))
        return original(self, name, start, stop)

    monkeypatch.setattr(TensorFile, "read", watch)
    other = logits()
    other[4] = np.roll(other[4], 1)
    repeat_floor([start(tmp_path, v, k, chunk_rows=11) for k, v in enumerate([logits(), other])])
    assert [at for name, at in read if name == "rows"] == [4, 4]
