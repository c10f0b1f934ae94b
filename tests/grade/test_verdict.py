from __future__ import annotations

import pytest

from suite.errors import InvalidInput
from suite.grade.context import expected_of
from suite.grade.detect import detect_format
from suite.grade.formats import make_grammar
from suite.grade.interface import State
from suite.grade.literals import Context, listed
from suite.grade.server import differences, server_calls
from suite.grade.tokens import TokenFeed
from suite.grade.tools import ToolSet, tools_of, typed
from suite.grade.verdict import Ending, Verdict, grade, grade_parsed
from suite.workload.session import Session
from tests.grade.writers import WRITERS

RUN = ToolSet({"run": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}})


def hermes(command, name="run"):
    return WRITERS["hermes"]([(name, {"command": command})])


class TestEndings:
    def test_the_cap_cut_a_call(self):
        text = hermes("ls -l /etc")[:-20]
        assert grade(text, format="hermes", tools=RUN).verdict == "not closed"
        cut = grade(text, format="hermes", tools=RUN, ending=Ending.TRUNCATED)
        assert (cut.verdict, cut.calls[0].verdict) == ("truncated", "truncated")

    def test_the_cap_is_no_excuse_for_a_fault_before_it(self):
        text = '<tool_call>{"name":"run","arguments":{command'
        cut = grade(text, format="hermes", ending=Ending.TRUNCATED)
        assert cut.verdict == "not closed"
        two = grade(hermes("ls", name="walk") + hermes("pwd")[:30], format="hermes", tools=RUN, ending=Ending.TRUNCATED)
        assert [call.verdict for call in two.calls] == ["unknown name", "truncated"]
        assert two.verdict == "unknown name"

    def test_the_word_that_the_cap_cut_is_not_judged(self):
        text = "<tool_call>\n<function=run>\n<parameter=command>\nping 10.0.0.5 from 10.0.0"
        context = Context()
        context.add_text("10.0.0.5 10.0.0.6")
        assert grade(text, format="qwen_xml", context=context).calls[0].literals.mutated
        cut = grade(text, format="qwen_xml", context=context, ending=Ending.TRUNCATED).calls[0]
        assert (cut.literals.intact, cut.literals.mutated) == (("10.0.0.5",), ())

    def test_nothing_before_the_cap_or_the_crash(self):
        assert grade("I will", format="hermes", ending=Ending.TRUNCATED).verdict == "truncated"
        assert grade("I will", format="hermes", ending=Ending.ENGINE_ERROR).verdict == "engine error"
        assert grade(hermes("ls"), format="hermes", ending=Ending.ENGINE_ERROR).verdict == "engine error"


class TestCommands:
    right = (("run", {"command": "ls"}), ("run", {"command": "dir"}))

    def test_another_call_than_those_marked_right(self):
        graded = grade(hermes("pwd"), format="hermes", tools=RUN, right_commands=self.right)
        assert (graded.verdict, graded.calls[0].right_command) == ("wrong command", False)
        assert grade(hermes("dir"), format="hermes", tools=RUN, right_commands=self.right).verdict == "ok"

    def test_a_broken_call_is_not_called_wrong(self):
        graded = grade(hermes("pwd")[:-3], format="hermes", tools=RUN, right_commands=self.right)
        assert graded.verdict == "not closed"

    def test_true_is_not_one(self):
        right = (("run", {"command": "x", "n": 1}),)
        text = '<tool_call>{"name":"run","arguments":{"n":true,"command":"x"}}</tool_call>'
        assert grade(text, format="hermes", right_commands=right).verdict == "wrong command"
        assert grade(text.replace("true", "1"), format="hermes", right_commands=right).verdict == "ok"


def test_a_literal_that_must_survive_may_stand_in_any_call_of_several():
    context = listed(["10.0.0.5", "eth0"])
    text = hermes("ping 10.0.0.5") + hermes("ip link show eth0")
    graded = grade(text, format="hermes", context=context)
    assert [call.verdict for call in graded.calls] == ["ok", "ok"]
    lost = grade(text.replace("eth0", "lo0"), format="hermes", context=context)
    assert lost.verdict == "literals changed"


def test_bytes_that_are_not_utf8_are_a_fault_only_inside_a_call():
    assert grade(b"\xff" + hermes("ls").encode(), format="hermes").verdict == "ok"
    broken = grade(hermes("l~s").encode().replace(b"~", b"\xff"), format="hermes")
    assert broken.calls[0].first_fault.message == "a byte that is not UTF-8"


@pytest.mark.parametrize("name", list(WRITERS))
def test_the_format_is_found(name):
    assert detect_format(WRITERS[name]([("run", {"command": "ls"})])) == name
    assert grade(WRITERS[name]([("run", {"command": "ls"})])).format == name


def test_marks_inside_a_call_say_nothing():
    inner = WRITERS["mistral"]([("a", {})]) + WRITERS["glm"]([("b", {"c": "d"})])
    assert detect_format(hermes(inner)) == "hermes"
    assert detect_format(WRITERS["openai_json"]([("run", {"command": hermes("ls")})])) == "openai_json"


def test_two_formats_side_by_side_are_refused():
    with pytest.raises(InvalidInput, match="fits several formats: hermes, mistral") as caught:
        detect_format(hermes("ls") + "\n" + WRITERS["mistral"]([("run", {"command": "ls"})]))
    assert "--format" in str(caught.value)
    with pytest.raises(InvalidInput, match="fits several formats"):
        detect_format("<tool_call>")


def test_prose_has_no_format():
    graded = grade("All ports are up.")
    assert (graded.format, graded.verdict, graded.to_json()) == (
        None,
        Verdict.NO_CALL,
        {"calls": [], "verdict": "no call"},
    )


def test_stray_marks_are_no_call_but_no_prose_either():
    graded = grade("</tool_call>", format="hermes")
    assert (graded.verdict, graded.stray.position) == ("not parsed", 0)


def test_the_json_has_exactly_these_keys():
    made = grade(hermes("ls"), format="hermes", tools=RUN, context=listed(["ls"])).to_json()
    assert set(made) == {"calls", "verdict"}
    assert set(made["calls"][0]) == {
        "closed", "parsed", "name", "known_name", "schema_valid", "arguments", "literals", "verdict", "first_fault",
    }  # fmt: skip
    assert set(made["calls"][0]["literals"]) == {"intact", "missing", "mutated", "invented"}


class TestTools:
    def test_types_by_schema(self):
        tools = ToolSet(
            {
                "f": {
                    "type": "object",
                    "properties": {
                        "a": {"$ref": "#/$defs/name"},
                        "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        "c": {"enum": [1, 2]},
                        "d": {},
                    },
                    "$defs": {"name": {"type": "string"}},
                }
            }
        )
        assert tools.types("f", "a") == {"string"}
        assert tools.types("f", "b") == {"integer", "null"}
        assert tools.types("f", "c") == {"integer"}
        assert tools.types("f", "d") is None
        assert tools.types("g", "a") is None

    @pytest.mark.parametrize(
        ("text", "types", "value"),
        [
            ("1.10", {"string"}, "1.10"),
            ("1.10", {"string", "number"}, "1.10"),
            ("1.10", {"number"}, 1.1),
            ("null", {"string", "null"}, None),
            ("null", {"string"}, "null"),
            ("True", {"boolean"}, "True"),
            ("true", {"boolean"}, True),
            ("[1,", {"array"}, "[1,"),
            (' {"a": 1} ', {"object"}, {"a": 1}),
            ("7", None, "7"),
        ],
    )
    def test_typed(self, text, types, value):
        made = typed(text, None if types is None else frozenset(types))
        assert made == value
        assert type(made) is type(value) or isinstance(value, float)

    def test_a_schema_that_is_none_is_refused(self):
        with pytest.raises(InvalidInput, match="are no JSON Schema"):
            ToolSet({"f": {"type": "strange"}})
        with pytest.raises(InvalidInput, match="defined twice"):
            tools_of([{"name": "f"}, {"name": "f"}])
        with pytest.raises(InvalidInput, match="not a tool definition"):
            tools_of([3])

    @pytest.mark.parametrize("reference", ["https://example.invalid/schema.json", "#/nowhere", "#"])
    def test_references_are_never_fetched_and_circles_end(self, reference):
        tools = ToolSet({"run": {"$ref": reference}})
        with pytest.raises(InvalidInput, match="cannot be applied"):
            grade(hermes("ls"), format="hermes", tools=tools)


class TestTokens:
    def test_a_state_after_every_token(self):
        pieces = ["<tool_call>", "\n", '{"', "name", '":"', "run", '","', "arguments", '":{"', "command", '":"', "l"]
        pieces += ["s", '"}}', "\n", "</tool_call>"]
        grammar = make_grammar("hermes")
        feed = TokenFeed(grammar, lambda ids: "".join(pieces[i] for i in ids))
        states = feed.feed(range(len(pieces)))
        text = feed.finish()
        assert text == "".join(pieces)
        assert states[5] is State.NAME
        assert states[9] is State.ARGUMENT_NAME
        assert states[10:13] == [State.VALUE] * 3
        assert states[-1] is State.OUTSIDE
        assert grade_parsed(grammar.finish(), text=text).verdict == "ok"

    def test_characters_that_span_tokens(self):
        data = hermes("é→😀 ls").encode().decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16")
        raw = data.encode()
        grammar = make_grammar("hermes")
        feed = TokenFeed(grammar, lambda ids: bytes(ids).decode(errors="replace"))
        states = feed.feed(raw)
        assert len(states) == len(raw)
        assert feed.finish() == data
        assert grammar.finish().calls[0].arguments == {"command": "é→😀 ls"}


class TestServer:
    def test_a_reading_that_agrees(self):
        text = hermes("ls")
        graded = grade(text, format="hermes", tools=RUN)
        assert (
            differences(graded, server_calls([{"name": "run", "arguments": '{"command": "ls"}'}]), text=text)
            == "agrees"
        )

    def test_a_lenient_one(self):
        text = hermes("ls").removesuffix("</tool_call>")
        graded = grade(text, format="hermes", tools=RUN)
        calls = server_calls([{"function": {"name": "run", "arguments": '{"command": "ls"}'}}])
        assert differences(graded, calls, text=text) == "the call is not closed and the server took it all the same"

    def test_other_arguments_and_other_counts(self):
        text = hermes("ls")
        graded = grade(text, format="hermes", tools=RUN)
        remark = differences(graded, server_calls([{"name": "run", "arguments": {"command": "rm"}}]), text=text)
        assert remark == "arguments differ: command: 'rm' by the server, 'ls' in the text"
        assert differences(graded, (), text=text) == "calls found: 0 by the server, 1 in the text"


SESSION = {
    "schema_version": 1,
    "name": "small",
    "licence": "CC0-1.0",
    "provenance": {"kind": "synthetic", "generator": "test"},
    "tools": [{"type": "function", "function": {"name": "run", "parameters": RUN.schemas["run"]}}],
    "messages": [
        {"role": "user", "content": "Ping 10.0.0.5 from eth0, port 5432."},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "run", "arguments": '{"command": "ping 10.0.0.5"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "reply from 10.0.0.5; gateway is 10.0.0.254"},
        {"role": "assistant", "content": "It answers."},
    ],
    "marks": [
        {
            "message": 1,
            "must_survive": ["10.0.0.5"],
            "right_commands": [{"name": "run", "arguments": {"command": "ping 10.0.0.5"}}],
        }
    ],
}


class TestSession:
    def test_marks_of_a_step(self):
        expected = expected_of(Session.model_validate(SESSION), message=1)
        assert expected.context.required == ("10.0.0.5",)
        assert expected.right_commands == (("run", {"command": "ping 10.0.0.5"}),)
        assert "10.0.0.254" not in expected.context.known

        def verdict(command):
            return grade(
                hermes(command),
                tools=expected.tools,
                context=expected.context,
                right_commands=expected.right_commands,
            ).verdict

        assert verdict("ping 10.0.0.5") == "ok"
        assert verdict("ping 10.0.0.5 -c 1") == "wrong command"
        assert verdict("ping 10.0.0.6") == "literals changed"
        assert verdict("uptime") == "literals changed"

    def test_what_the_authors_own_call_brings_along_is_known(self):
        changed = SESSION | {
            "marks": [
                {"message": 1, "right_commands": [{"name": "run", "arguments": {"command": "ping 10.0.0.9"}}]},
            ]
        }
        marked = expected_of(Session.model_validate(changed), message=1)
        options = {"tools": marked.tools, "context": marked.context, "right_commands": marked.right_commands}
        assert grade(hermes("ping 10.0.0.9"), **options).verdict == "ok"
        near = grade(hermes("ping 10.0.0.8"), **options)
        assert near.calls[0].literals.mutated == (("10.0.0.9", "10.0.0.8"),)

    def test_a_whole_session_is_known_and_nothing_must_survive(self):
        expected = expected_of(Session.model_validate(SESSION))
        assert expected.context.required == ()
        assert {"10.0.0.254", "ping", "command"} <= expected.context.known
        assert grade(hermes("ping 10.0.0.254"), context=expected.context).verdict == "ok"

    def test_a_message_that_is_not_the_assistants(self):
        with pytest.raises(InvalidInput, match="no message of the assistant"):
            expected_of(Session.model_validate(SESSION), message=0)
