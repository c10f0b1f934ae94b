from __future__ import annotations

from pathlib import Path

import pytest

from suite.untyped import as_dict, as_list, as_text, json_object, json_or_none


@pytest.mark.parametrize("value", [None, 3, "text", [1], {"a": 1}])
def test_what_is_of_another_kind_becomes_an_empty_value(value: object) -> None:
    assert as_dict(value) == (value if isinstance(value, dict) else {})
    assert as_list(value) == (value if isinstance(value, list) else [])
    assert as_text(value) == (value if isinstance(value, str) else "")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff"])
def test_what_is_no_json_is_none(text: str | bytes) -> None:
    assert json_or_none(text) is None


def test_a_file_without_an_object_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert json_object(path) == {}
    path.write_text("[1]")
    assert json_object(path) == {}
    path.write_text('{"eos_token_id": 2}')
    assert json_object(path) == {"eos_token_id": 2}
