from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.errors import InvalidInput
from suite.workload.scrub.private_map import Entry, PrivateMap, load_map


def test_a_map_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = PrivateMap(entries=[Entry(kind="host name", value="db1.corp", pseudonym="xq4.lorp", count=3)])
    path = tmp_path / "map.json"
    path.write_bytes(made.to_json())
    assert load_map(path) == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2, "more": []}, "schema version 2 is newer"),
        ({"more": []}, "not a private map"),
        ({"key": "00"}, "not a private map"),
    ],
)
def test_another_file_or_a_newer_one_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps(json.loads(PrivateMap().to_json()) | change))
    with pytest.raises(InvalidInput, match=message):
        load_map(path)
