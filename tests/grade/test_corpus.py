"""Every input that the fuzzer kept goes through the grammars again; see `fuzz/grade.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.grade.formats import GRAMMARS, make_grammar
from suite.grade.verdict import grade, text_from

CORPUS = sorted((Path(__file__).parent.parent.parent / "fuzz" / "corpus").iterdir())


def test_the_corpus_reaches_every_format():
    assert {path.read_bytes()[0] % len(GRAMMARS) for path in CORPUS} == set(range(len(GRAMMARS)))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_input(path):
    data = path.read_bytes()
    name, text = tuple(GRAMMARS)[data[0] % len(GRAMMARS)], text_from(data[2:])
    whole, pieces = make_grammar(name), make_grammar(name)
    whole.feed(text)
    for character in text:
        pieces.feed(character)
    assert pieces.state is whole.state
    parsed = whole.finish()
    assert pieces.finish() == parsed
    assert all(call.name and call.arguments is not None for call in parsed.calls if call.parsed)
    assert grade(data[2:], format=name).calls or not parsed.calls
