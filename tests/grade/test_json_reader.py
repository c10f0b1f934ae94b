from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.grade.json_reader import MAX_DEPTH, MAX_NUMBER_LENGTH, JsonNumber, JsonReader, Plain, parse_json, written
from suite.grade.source import Broken, Source
from tests.examples import examples

texts = st.text(st.characters(blacklist_categories=("Cs",)))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


def read_in_pieces(pieces):
    """Outcome of a text in pieces: its value, or its first fault."""
    source = Source()
    reader = JsonReader(source, Plain())
    reading = reader.read()
    try:
        for piece in pieces:
            source.push(piece)
            next(reading)
        source.ended = True
        next(reading)
    except StopIteration:
        return reader.root
    except Broken as broken:
        return broken.fault
    raise AssertionError("a source at its end asked for more")


@given(value=values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_reads_what_the_standard_library_writes(value, indent, ascii_only):
    assert parse_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only)) == value


PIECES = [*'{}[]:,"\\ntu0a1-.eE \n', "1,", '"a":', "\\u00e9", "\\ud83d\\ude00", "true", "[1,2,"]


@given(text=st.lists(st.sampled_from(PIECES)).map("".join))
@settings(max_examples=examples(100))
def test_cutting_changes_nothing_and_the_standard_library_takes_all_that_passes(text):
    whole = read_in_pieces([text])
    assert read_in_pieces(text) == whole
    try:
        value = parse_json(text)
    except Broken:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ('{"a":1,"a":2}', 7, "stands twice"),
        ("[NaN]", 1, "expected a JSON value"),
        ("[Infinity]", 1, "expected a JSON value"),
        ("[-Infinity]", 1, "no number"),
        ("[1e999]", 1, "out of range"),
        ("[01]", 1, "no number"),
        ("[1.]", 1, "no number"),
        ("[+1]", 1, "expected a JSON value"),
        ("[1,]", 3, "comma before"),
        ("[1,2,]", 5, "comma before"),
        ('{"a":1,}', 7, "expected a key"),
        ("{'a':1}", 1, "expected a key"),
        ('{"a" 1}', 5, "expected ':'"),
        ('["a\nb"]', 3, "control character"),
        ('["\\x41"]', 2, "no escape"),
        ('["\\u12g4"]', 2, "no escape"),
        ('["\\ud83d"]', 2, "half a surrogate"),
        ('["\\ude00\\ud83d"]', 2, "half a surrogate"),
        ('["a\udcffb"]', 3, "not UTF-8"),
        ("1 2", 2, "text after"),
        ("[1 2]", 3, "expected ','"),
        ("", 0, "ends too early"),
        ('["abc', 5, "never ends"),
        ('["abc\\', 6, "never ends"),
        ("[" * (MAX_DEPTH + 1), MAX_DEPTH, "nested deeper"),
        ("[" + "9" * (MAX_NUMBER_LENGTH + 1) + "]", 1, "more than"),
    ],
)  # fmt: skip
def test_the_first_fault_and_its_place(text, position, message):
    with pytest.raises(Broken) as caught:
        parse_json(text)
    assert caught.value.fault.position == position
    assert message in caught.value.fault.message


def test_what_nests_as_deep_as_allowed_is_read():
    assert json.dumps(parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)).count("[") == MAX_DEPTH


def test_a_number_remembers_how_it_was_written():
    value = parse_json("[1.10, 2, 1E2]")
    assert value == [1.1, 2, 100.0]
    assert [written(item) for item in value] == ["1.10", "2", "1E2"]
    assert isinstance(value[0], JsonNumber)


def test_a_fault_leaves_what_was_read():
    source = Source()
    source.push('{"a": {"b": "543q')
    source.ended = True
    reader = JsonReader(source, Plain())
    with pytest.raises(Broken):
        list(reader.read())
    assert reader.root == {"a": {"b": "543q"}}
