"""The viewer's data files: what they hold is the ledger's and the forks', and text in them is visible text."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.score.classes import FLIP_CLASSES
from suite.site import futures_data as data
from suite.site.token_texts import TokenTexts, find_texts, parse_texts, texts_of, texts_path, tokens_hash
from tests.branch.sample import forks
from tests.site.branched import HOSTILE, branched_bundle

RESULTS = Path(__file__).parents[2] / "results"


def called(script: bytes):
    function, argument = re.fullmatch(rb"([\w.]+)\((.*)\);\n", script, re.DOTALL).groups()
    assert function == b"futures.take"
    return json.loads(argument)


def published(name="h200-smollm2-kv-int4"):
    folder = next((RESULTS / name).iterdir())
    return stack_at(folder)


def stack_at(folder):
    files = json.loads((folder / "bundle.json").read_bytes())["files"]
    return data.StackRef(folder=str(folder), file_hashes=tuple(files.items()))


def test_ranges_cover_the_session_once_and_hold_every_flip():
    stack = published()
    columns = data.ledger_of(stack).columns
    num_tokens = data.ledger_of(stack).facts.num_tokens
    ranges = range(data.num_ranges(num_tokens))
    tokens = [called(data.tokens_file(stack, number)) for number in ranges]
    assert [t["start"] for t in tokens] + [num_tokens] == [0] + [t["end"] for t in tokens]
    flips = [flip for number in ranges for flip in called(data.flips_file(stack, "x", number))["flips"]]
    rows = np.flatnonzero(columns["flip"])
    assert [flip[0] for flip in flips] == (columns["position"][rows] + 1).tolist()
    assert [FLIP_CLASSES[flip[1]] for flip in flips] == columns["flip_class"][rows].tolist()
    assert [flip[3][0] for flip in flips] == columns["ref_top1"][rows].tolist()
    np.testing.assert_allclose([flip[5][0] for flip in flips], columns["ref_p_ref_top1"][rows], atol=1e-6)
    listed = called(data.stack_file(stack, "x"))
    assert [at for at, _ in listed["flips"]] == [flip[0] for flip in flips]
    assert np.sum(listed["overview"]) == len(rows)


def test_texts_of_the_published_session_are_those_of_its_ids():
    stack = published()
    facts = data.ledger_of(stack).facts
    texts = find_texts(facts.tokens_sha256)
    assert texts is not None
    assert texts.licence != "private"
    columns = data.ledger_of(stack).columns
    assert [texts.token_ids[at] for at in columns["position"]] == columns["token_id"].tolist()
    best = set(columns["ref_top1"][columns["flip"]].tolist()) | set(columns["cand_top1"][columns["flip"]].tolist())
    assert best <= texts.vocabulary().keys()
    tokens = called(data.tokens_file(stack, 0))["texts"]
    assert "".join(tokens).startswith("<|im_start|>system")


def test_forks_come_in_the_segments_that_the_stack_names(tmp_path):
    folder = branched_bundle(tmp_path, num_probes=400, num_flips=100, texts=HOSTILE + "\u202e" + "y" * 9000)
    stack = stack_at(folder)
    listed = called(data.stack_file(stack, "x"))
    assert len(listed["forks"]) == 100
    found = [called(data.forks_file(stack, "x", place))["forks"] for place in range(len(listed["segments"]))]
    assert [fork["at"] for forks in found for fork in forks] == listed["forks"]
    for (first, last), group in zip(listed["segments"], found, strict=True):
        assert (group[0]["at"], group[-1]["at"]) == (first, last)
    text = "".join(found[0][0]["futures"][2]["tokens"])
    assert "[U+202E]" in text or "\u202e" not in text
    assert max(map(len, found[0][0]["futures"][2]["tokens"])) < 200
    assert b"<script" in data.forks_file(stack, "x", 0)  # as JSON text in a script file, never in a page


def test_a_fork_is_shown_with_its_literals():
    shown = data.fork_value(forks()[0])
    roles = {future["role"]: future for future in shown["futures"]}
    assert ["GigabitEthernet0/0/1.201", "mutated"] in [list(item) for item in roles["candidate"]["literals"]]
    assert roles["candidate"]["mutated"] == [["GigabitEthernet0/0/1", "GigabitEthernet0/0/1.201"]]
    assert shown["consequence"]["name"] == "wrong literal"
    assert shown["at"] == forks()[0].position + 1


def a_file(**changes):
    ids = (1, 2, 3)
    value = {
        "schema_version": 1, "tokens_sha256": tokens_hash(ids), "tokenizer_sha256": "0" * 64, "licence": "Apache-2.0",
        "token_ids": list(ids), "token_texts": ["a", "b", "c"], "others": {"7": "x"},
    }  # fmt: skip
    return json.dumps(value | changes).encode()


def test_a_file_of_texts_round_trips():
    texts = parse_texts(a_file(), where="x")
    assert parse_texts(texts.to_bytes(), where="x") == texts
    assert texts.vocabulary() == {1: "a", 2: "b", 3: "c", 7: "x"}


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [1, 2, 4]},
        {"token_texts": ["a", "b"]},
        {"tokens_sha256": "0" * 64},
        {"others": {"-1": "x"}},
        {"schema_version": 2},
        {"more": 1},
    ],
)
def test_texts_that_are_not_the_sessions_are_refused(changes):
    with pytest.raises(InvalidInput):
        parse_texts(a_file(**changes), where="x")


def test_a_session_without_texts_is_shown_by_its_ids():
    assert find_texts("f" * 64) is None
    assert not texts_path("f" * 64).exists()


@given(st.text(max_size=60), st.lists(st.integers(0, 240), max_size=8))
def test_pieces_spell_the_text_however_they_are_cut(text, cuts):
    whole = text.encode()
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    assert "".join(texts_of(pieces)) == text


def test_the_kind_of_file_is_stated():
    assert set(TokenTexts.model_fields) == set(json.loads(a_file()))
