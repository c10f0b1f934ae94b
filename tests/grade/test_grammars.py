"""Properties that hold for every grammar: round trips, cutting, totality, linear time."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.grade.formats import GRAMMARS, make_grammar
from suite.grade.interface import State
from suite.grade.literals import listed
from suite.grade.tools import ToolSet
from suite.grade.verdict import Ending, Verdict, grade
from tests.examples import examples
from tests.grade.writers import WRITERS, mistral_old
from tests.growth import assert_linear, seconds

NAMES = tuple(GRAMMARS)
PROPERTIES = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "ratio": {"type": "number"},
    "flag": {"type": "boolean"},
    "items": {"type": "array"},
    "body": {"type": "object"},
}
TOOLS = ToolSet({name: {"type": "object", "properties": PROPERTIES} for name in ("run", "get-it", "a.b_c")})
MARKS = [
    "<tool_call>", "</tool_call>", "<function=run>", "</function>", "<parameter=text>", "</parameter>", "\n",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "[TOOL_CALLS]", "[ARGS]", "[", "]", "{", "}", '"', ",",
    ":", '"name"', '"arguments"', '"parameters"', "run", "\\", "\\u00e9", "\\ud83d", "1.10", "<|python_tag|>", "; ",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
    "function<｜tool▁sep｜>",
    "```json\n", "```", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", '<｜DSML｜invoke name="', '">',
    "</｜DSML｜invoke>", '<｜DSML｜parameter name="', '" string="false">', "</｜DSML｜parameter>",
    "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "functions.run:0",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|start|>assistant", "<|channel|>", "commentary",
    " to=functions.run", " <|constrain|>json", "<|message|>", "<|call|>", "<think>", "</think>", "<|im_end|>", " ", "x",
    "\udcff",
]  # fmt: skip
messy = st.lists(st.sampled_from(MARKS), max_size=40).map("".join)

words = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="<>\x00"), max_size=30)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
calls = st.lists(
    st.tuples(
        st.sampled_from(["run", "get-it", "a.b_c"]),
        st.fixed_dictionaries(
            {},
            optional={
                "text": words.filter(lambda text: "\r" not in text),
                "count": st.integers(),
                "ratio": st.floats(allow_nan=False, allow_infinity=False),
                "flag": st.booleans(),
                "items": st.lists(plain_json, max_size=3),
                "body": st.dictionaries(words, plain_json, max_size=3),
            },
        ),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", [*NAMES, "mistral_old"])
@given(written=calls)
@settings(max_examples=examples(15))
def test_calls_come_back_as_they_were_written(name, written):
    text = mistral_old(written) if name == "mistral_old" else WRITERS[name](written)
    graded = grade(text, format=name.removesuffix("_old"), tools=TOOLS)
    assert [(call.name, call.arguments) for call in graded.calls] == written
    assert graded.verdict is Verdict.OK


@pytest.mark.parametrize("name", NAMES)
@given(written=calls, data=st.data())
@settings(max_examples=examples(10))
def test_cutting_a_text_changes_nothing(name, written, data):
    check_every_split(name, WRITERS[name](written), data)


@pytest.mark.parametrize("name", NAMES)
@given(text=messy, data=st.data())
def test_cutting_a_broken_text_changes_nothing(name, text, data):
    check_every_split(name, text, data)


def check_every_split(name, text, data):
    """Character by character, and at one drawn place: the same states and the same outcome as in one piece."""
    whole = make_grammar(name)
    last = whole.feed(text)
    outcome = whole.finish()
    single = make_grammar(name)
    states = [single.feed(character) for character in text]
    assert single.finish() == outcome
    assert not text or states[-1] is last
    cut = data.draw(st.integers(0, len(text)))
    two = make_grammar(name)
    assert two.feed(text[:cut]) is (states[cut - 1] if cut else State.OUTSIDE)
    assert two.feed(text[cut:]) is last
    assert two.finish() == outcome


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=300) | messy.map(lambda text: text.encode(errors="surrogateescape")))
def test_any_bytes_give_a_verdict(name, data):
    for ending in Ending:
        graded = grade(data, format=name, tools=TOOLS, context=listed(["5432"]), ending=ending)
        assert graded.verdict in Verdict
        for call in graded.calls:
            assert call.closed or call.first_fault
            assert call.closed or not call.parsed
            assert call.parsed or (call.arguments is None and not call.schema_valid and not call.literals_intact)
            assert call.verdict is Verdict.OK or call.first_fault is not None
        json.dumps(graded.to_json(), ensure_ascii=False).encode()  # no lone surrogate is left


@pytest.mark.parametrize("name", NAMES)
def test_states_of_a_whole_call(name):
    text = WRITERS[name]([("run", {"text": "ls"}), ("run", {"text": "pwd"})])
    grammar = make_grammar(name)
    states = {}
    for character in text:
        states.setdefault(grammar.feed(character), []).append(character)
    assert grammar.state is State.OUTSIDE
    assert set(states) == set(State)
    assert "".join(states[State.ARGUMENT_NAME]).count("text") == 2
    # A name is known to be over only when what ends it is read.
    assert "run" in "".join(states[State.NAME]) + "run" * (name == "openai_json")
    assert "ls" in "".join(states[State.VALUE])


@pytest.mark.parametrize("name", NAMES)
def test_prose_is_no_call(name):
    graded = grade("Done, the port is up.<|im_end|>" if name != "openai_json" else "", format=name)
    assert (graded.calls, graded.verdict, graded.stray) == ((), Verdict.NO_CALL, None)


KINDS = ("one value", "opening marks", "numbers", "brackets", "escapes", "white space")


def long_text(name, kind, size):
    whole = WRITERS[name]([("run", {"text": "@@"})])
    opening = whole[: whole.index("@@")]
    return {
        "one value": whole.replace("@@", "show interface Gi0/0/1 " * (size // 23)),
        "opening marks": opening * (size // len(opening)),
        "numbers": opening.removesuffix('\\"').removesuffix('"') + "[" + "1," * (size // 2),
        "brackets": opening.removesuffix('\\"').removesuffix('"') + "[" * size,
        "escapes": opening + "\\u00e9" * (size // 6),
        "white space": opening + " " * size,
    }[kind]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_no_faster_than_the_text(name, kind):
    texts = {size: long_text(name, kind, size) for size in (12_500, 50_000)}

    def work(size):
        grade(texts[size], format=name, tools=TOOLS, context=listed(["5432"]))

    assert assert_linear(work, 12_500) < 1


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_megabyte_takes_under_a_second(name, kind):
    text = long_text(name, kind, 1_000_000)
    # The best of three, for the first run's imports.
    assert any(
        seconds(lambda _: grade(text, format=name, tools=TOOLS, context=listed(["5432"])), len(text)) < 1
        for _ in range(3)
    )


def test_time_grows_with_the_text_when_it_comes_token_by_token():
    def work(count):
        grammar = make_grammar("qwen_xml")
        grammar.feed("<tool_call>\n<function=run>\n<parameter=text>\n")
        for _ in range(count):
            grammar.feed("word <")

    assert_linear(work, 2_000)


def test_an_unknown_format_is_refused():
    with pytest.raises(InvalidInput, match="no tool-call format is named 'xml'"):
        make_grammar("xml")
