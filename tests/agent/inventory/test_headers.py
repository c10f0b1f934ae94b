from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from suite.agent.inventory.headers import blocks, first

names = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,12}", fullmatch=True)
lines = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=30).filter(
    lambda text: text.strip(" \t") == text
)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(names.map(str.lower), st.lists(lines, min_size=1, max_size=3), min_size=1, max_size=5)))
def test_what_is_written_is_read_back(written):
    text = "\n".join(
        "".join(
            f"{name}: {first_line}\n" + "".join(f" {line}\n" for line in more)
            for name, (first_line, *more) in block.items()
        )
        for block in written
    )
    expected = [{name: ["\n".join(values)] for name, values in block.items()} for block in written]
    assert list(blocks(text)) == expected


@given(st.text(), st.text())
def test_any_text_is_read_and_never_spills_into_the_next_block(damage, more):
    before = "Package: a\nVersion: 1\n\n"
    after = "\n\nPackage: z\nVersion: 26\n"
    parsed = list(blocks(before + damage + "\n" + more + after))
    assert parsed[0] == {"package": ["a"], "version": ["1"]}
    assert parsed[-1] == {"package": ["z"], "version": ["26"]}


def test_a_damaged_line_costs_only_itself():
    (fields,) = blocks("Package: a\nno colon here\n continuation of nothing\nVersion: 2\n")
    assert fields == {"package": ["a"], "version": ["2"]}


def test_repeated_fields_are_all_kept():
    (fields,) = blocks("Classifier: one\nclassifier: two\r\nName:\n")
    assert fields == {"classifier": ["one", "two"], "name": [""]}
    assert first(fields, "classifier") == "one"
    assert first(fields, "name") is None
    assert first(fields, "absent") is None
