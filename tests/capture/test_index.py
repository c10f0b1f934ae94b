import json

import numpy as np
import pytest

from suite.capture.index import parse_index, read_index
from suite.errors import InvalidInput, MissingPrerequisite
from tests.capture.synthetic import bf16, write_capture


@pytest.fixture
def index(tmp_path):
    rows = bf16(np.arange(20).reshape(5, 4))
    return json.loads((write_capture(tmp_path, rows, [0, 1, 2, 3, 0, 1]) / "index.json").read_text())


def encoded(index):
    return json.dumps(index).encode()


def test_a_good_index_is_read(index):
    parsed = parse_index(encoded(index), where="index.json")
    assert (parsed.num_rows, len(parsed.chunks), parsed.dtype) == (5, 2, "bfloat16")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_rows": 6}, "chunks hold 5"),
        ({"row_width": 3}, "row_width differs"),
        ({"num_tokens": 5}, "no target token"),
        ({"non_finite_rows": 9}, "more non-finite rows"),
        ({"codec": "hidden", "row_width": 2}, "names no head"),
        ({"path": "both"}, "path"),
        ({"surplus": 1}, "surplus"),
        ({"start": "0"}, "start"),
        ({"tokens_sha256": "F" * 64}, "tokens_sha256"),
        ({"chunks": []}, "chunks"),
    ],
)
def test_an_index_that_contradicts_itself_is_refused_by_name(index, change, told):
    with pytest.raises(InvalidInput, match=told):
        parse_index(encoded(index | change), where="index.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"file": "../chunk-00000.safetensors"}, "chunks.1.file"),
        ({"file": "chunk-00000.safetensors"}, "listed twice"),
        ({"first_position": 2}, "does not start after"),
        ({"first_position": 4}, "more rows than positions"),
    ],
)
def test_a_bad_chunk_entry_is_refused(index, change, told):
    index["chunks"][1] |= change
    with pytest.raises(InvalidInput, match=told):
        parse_index(encoded(index), where="index.json")


def test_a_newer_schema_is_refused_politely(index):
    with pytest.raises(InvalidInput, match="newer than this program reads"):
        parse_index(encoded(index | {"schema_version": 2, "news": []}), where="index.json")


def test_duplicate_keys_are_refused(index):
    with pytest.raises(InvalidInput, match="stands twice"):
        parse_index(encoded(index).replace(b"{", b'{"start": 1, ', 1), where="index.json")


def test_a_folder_without_an_index_is_no_capture(tmp_path):
    with pytest.raises(MissingPrerequisite, match="no complete capture"):
        read_index(tmp_path)
