"""Outputs from public reports in which a stack misled its user, and others of their kinds."""

from __future__ import annotations

import json

import pytest

from suite.grade.literals import listed
from suite.grade.server import differences, server_calls
from suite.grade.tools import ToolSet
from suite.grade.verdict import Ending, Verdict, grade

TOOLS = ToolSet(
    {
        "run": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        "get": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "query": {"type": "object"}},
            "required": ["path"],
            "additionalProperties": False,
        },
        "set": {
            "type": "object",
            "properties": {
                "version": {"type": "string"},
                "ratio": {"type": "number"},
                "ids": {"type": "array", "items": {"type": "integer"}},
                "note": {"type": ["string", "null"]},
            },
        },
    }
)


def one(text, format, **options):
    graded = grade(text, format=format, **options)
    assert len(graded.calls) == 1
    return graded.calls[0]


def qwen(command):
    return f"<tool_call>\n<function=run>\n<parameter=command>\n{command}\n</parameter>\n</function>\n</tool_call>"


class TestCloseTagInsideAValue:
    """vllm#45167: a close tag inside a value is not a close tag."""

    def test_hermes(self):
        text = '<tool_call>{"name":"write","arguments":{"text":"a </tool_call> b"}}</tool_call>'
        call = one(text, "hermes")
        assert (call.closed, call.parsed, call.arguments) == (True, True, {"text": "a </tool_call> b"})

    @pytest.mark.parametrize("inner", ["a </parameter> b", "</function> x", "see </tool_call>.", "<tool_call> and <b>"])
    def test_qwen(self, inner):
        call = one(qwen(f"echo '{inner}'"), "qwen_xml", tools=TOOLS)
        assert (call.verdict, call.arguments) == (Verdict.OK, {"command": f"echo '{inner}'"})

    @pytest.mark.parametrize("inner", ["a </arg_value> b", "</tool_call>", "<arg_key> x"])
    def test_glm(self, inner):
        text = f"<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>echo '{inner}'</arg_value>\n</tool_call>"
        assert one(text, "glm").arguments == {"command": f"echo '{inner}'"}

    @pytest.mark.parametrize("mark", ["<|tool_call_end|>", "<|tool_calls_section_end|>"])
    def test_kimi(self, mark):
        text = (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>"
            f'{{"command":"echo {mark}"}}<|tool_call_end|><|tool_calls_section_end|>'
        )
        assert one(text, "kimi_k2").arguments == {"command": f"echo {mark}"}

    def test_dsml(self):
        value = "a </｜DSML｜parameter> b </｜DSML｜invoke>"
        text = (
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="run">\n<｜DSML｜parameter name="command" string="true">'
            f"{value}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
        )
        assert one(text, "deepseek_v32").arguments == {"command": value}


def test_a_v3_name_is_right_and_the_server_reads_it_with_another_parser():
    """Rapid-MLX#795."""
    text = (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city":"Tokyo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    )
    graded = grade(text, format="deepseek_v3")
    assert graded.calls[0].name == "get_weather"
    remark = differences(graded, server_calls([{"name": "function"}]), text=text)
    assert remark == "unknown name; the server reads V3 text with a V3.1 parser"
    assert one(text, "deepseek_v31").verdict is Verdict.NOT_PARSED


def test_a_v31_text_read_by_a_v3_parser():
    text = (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{"command":\n"ls"}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>"
    )
    graded = grade(text, format="deepseek_v31", tools=TOOLS)
    assert graded.verdict is Verdict.OK
    remark = differences(graded, server_calls([{"name": '{"command":', "arguments": "x"}]), text=text, tools=TOOLS)
    assert remark == "unknown name; the server reads V3.1 text with a V3 parser"
    assert one(text, "deepseek_v3").first_fault.position == text.index("run<")


def test_a_port_that_became_letters_in_a_call_that_never_closes():
    """The study, position 42,950."""
    text = "<tool_call>\n<function=run>\n<parameter=command>\npsql -h db1 -p 543ql"
    call = one(text, "qwen_xml", context=listed(["5432"]))
    assert not call.closed
    assert call.literals.mutated == (("5432", "543ql"),)
    assert call.literals.missing == ()
    assert call.verdict == "not closed"
    assert call.first_fault.position == len(text)


def test_a_prefix_of_an_interface_is_another_interface():
    """The study, part 2."""
    text = qwen("show run interface GigabitEthernet0/0/1")
    call = one(text, "qwen_xml", context=listed(["GigabitEthernet0/0/1.201"]))
    assert (call.closed, call.parsed, call.literals.intact) == (True, True, ())
    assert call.literals.mutated == (("GigabitEthernet0/0/1.201", "GigabitEthernet0/0/1"),)
    assert call.verdict == "literals changed"
    assert text[call.first_fault.position :].startswith("GigabitEthernet0/0/1")


def test_an_api_argument_that_lost_half_its_name():
    """The study: `page_size` became `size`."""
    text = '<tool_call>{"name":"get","arguments":{"path":"/api/v1/interfaces","query":{"size":8}}}</tool_call>'
    call = one(text, "hermes", tools=TOOLS, context=listed(["page_size", "/api/v1/interfaces"]))
    assert (call.known_name, call.schema_valid) == (True, True)
    assert call.literals.mutated == (("page_size", "size"),)
    assert call.literals.intact == ("/api/v1/interfaces",)
    assert call.verdict == "literals changed"


# What breaks in each format, from the table of formats met in real sessions: text, closed, verdict, name, and where.
BROKEN = {
    # OpenAI JSON
    "arguments as an object": (
        "openai_json",
        '{"tool_calls":[{"id":"a","type":"function","function":{"name":"run","arguments":{"command":"ls"}}}]}',
        (True, "not parsed", "run", '{"command"'),
    ),
    "arguments that are no JSON": (
        "openai_json",
        '[{"id":"a","type":"function","function":{"name":"run","arguments":"{\\"command\\": ls}"}}]',
        (True, "not parsed", "run", "ls}"),
    ),
    # Qwen XML
    "qwen without a wrapper": (
        "qwen_xml",
        "<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        (True, "not parsed", "run", "<function="),
    ),
    "qwen without a close": (
        "qwen_xml",
        "<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</function>",
        (False, "not closed", "run", ""),
    ),
    "qwen with an unclosed parameter": (
        "qwen_xml",
        "<tool_call>\n<function=run>\n<parameter=command>\nls\n</function>\n</tool_call>",
        (True, "not parsed", "run", "</tool_call>"),
    ),
    "qwen with two parameters in one": (
        "qwen_xml",
        "<tool_call>\n<function=run>\n<parameter=command>\nls\n<parameter=b>\n1\n</parameter>\n</function>\n</tool_call>",
        (True, "not parsed", "run", "\n<parameter=b"),
    ),
    "qwen with prose between": (
        "qwen_xml",
        "<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\nthen\n</function>\n</tool_call>",
        (True, "not parsed", "run", "then"),
    ),
    "qwen with a name that never ends": (
        "qwen_xml",
        "<tool_call>\n<function=run_c\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        (True, "not parsed", None, "\n<parameter"),
    ),
    "qwen with a parameter twice": (
        "qwen_xml",
        "<tool_call>\n<function=run>\n<parameter=command>\na\n</parameter>\n<parameter=command>\nb\n</parameter>\n"
        "</function>\n</tool_call>",
        (True, "not parsed", "run", "<parameter=command>\nb"),
    ),
    "qwen inside its reasoning": (
        "qwen_xml",
        f"<think>\nI will call\n{qwen('ls')}\n</think>\nDone.",
        (True, "call in reasoning", "run", "<tool_call>"),
    ),
    "qwen inside reasoning that the prompt opened": (
        "qwen_xml",
        f"so\n{qwen('ls')}\n</think>\nDone.",
        (True, "call in reasoning", "run", "<tool_call>"),
    ),
    # Hermes
    "hermes with extra data": (
        "hermes",
        '<tool_call>{"name":"run","arguments":{"command":"ls"}} extra</tool_call>',
        (True, "not parsed", "run", "extra"),
    ),
    "hermes with a lost brace": (
        "hermes",
        '<tool_call>\n{"name":"run","arguments":{"command":"ls"}\n</tool_call>',
        (True, "not parsed", "run", "</tool_call>"),
    ),
    "hermes with a brace too many": (
        "hermes",
        '<tool_call>\n{"name":"run","arguments":{"command":"ls"}}}\n</tool_call>',
        (True, "not parsed", "run", "}\n</tool_call>"),
    ),
    "hermes with a key twice": (
        "hermes",
        '<tool_call>{"name":"run","arguments":{"command":"ls","command":"rm"}}</tool_call>',
        (True, "not parsed", "run", '"command":"rm"'),
    ),
    "hermes with NaN": (
        "hermes",
        '<tool_call>{"name":"run","arguments":{"command":NaN}}</tool_call>',
        (True, "not parsed", "run", "NaN"),
    ),
    "hermes with half a surrogate pair": (
        "hermes",
        '<tool_call>{"name":"run","arguments":{"command":"\\ud83d"}}</tool_call>',
        (True, "not parsed", "run", "\\ud83d"),
    ),
    "hermes with arguments as text": (
        "hermes",
        '<tool_call>{"name":"run","arguments":"{}"}</tool_call>',
        (True, "not parsed", "run", '"{}"'),
    ),
    # Mistral
    "mistral without [ARGS]": (
        "mistral",
        '[TOOL_CALLS]run{"command":"ls"}',
        (True, "not parsed", "run", "{"),
    ),
    "mistral with prose after it": (
        "mistral",
        '[TOOL_CALLS]run[ARGS]{"command":"ls"} I have listed them.',
        (True, "not parsed", "run", "I have"),
    ),
    "old mistral with prose after it": (
        "mistral",
        '[TOOL_CALLS] [{"name":"run","arguments":{"command":"ls"}}] I have listed them.',
        (True, "not parsed", "run", "I have"),
    ),
    "old mistral with an open list": (
        "mistral",
        '[TOOL_CALLS] [{"name":"run","arguments":{"command":"ls"}}',
        (False, "not closed", "run", ""),
    ),
    # Llama 3
    "llama with an array as a string": (
        "llama3_json",
        '{"name":"set","parameters":{"ids":"[1, 2]"}}<|eot_id|>',
        (True, "schema invalid", "set", '"[1, 2]"'),
    ),
    "llama with prose before it": (
        "llama3_json",
        'Sure: {"name":"run","parameters":{"command":"ls"}}',
        (True, "not parsed", "run", '{"name"'),
    ),
    "llama with the wrong key": (
        "llama3_json",
        '{"name":"run","arguments":{"command":"ls"}}',
        (True, "not parsed", "run", '{"command"'),
    ),
    # GLM
    "glm with an unclosed value": (
        "glm",
        "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>ls\n</tool_call>",
        (True, "not parsed", "run", "</tool_call>"),
    ),
    "glm with a key without a value": (
        "glm",
        "<tool_call>run\n<arg_key>command</arg_key>\n</tool_call>",
        (True, "not parsed", "run", "</tool_call>"),
    ),
    # DeepSeek
    "v3 without its fence": (
        "deepseek_v3",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>run\n{"command":"ls"}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        (True, "not parsed", "run", '\n{"command"'),
    ),
    "v3.1 without the section's end": (
        "deepseek_v31",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{"command":"ls"}<｜tool▁call▁end｜>',
        (False, "not closed", "run", ""),
    ),
    "v3.2 with a number for a string": (
        "deepseek_v32",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="set">\n<｜DSML｜parameter name="version" string="false">1.10'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        (True, "schema invalid", "set", "1.10"),
    ),
    "v3.2 with text for JSON": (
        "deepseek_v32",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="set">\n<｜DSML｜parameter name="ids" string="false">[1,'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        (True, "not parsed", "set", "</｜DSML｜parameter>"),
    ),
    # Kimi K2
    "kimi with an id without functions.": (
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>run:0<|tool_call_argument_begin|>"
        '{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|>',
        (True, "not parsed", "run", "run:0"),
    ),
    "kimi without a section": (
        "kimi_k2",
        '<|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|>',
        (True, "not parsed", "run", "<|tool_call_begin|>"),
    ),
    # Harmony
    "harmony with a stray header token": (
        "harmony",
        "<|start|>assistant<|channel|>commentary to=functions.run <|channel|>commentary <|constrain|>json<|message|>"
        '{"command":"ls"}<|call|>',
        (True, "not parsed", "run", "<|channel|>commentary <|constrain|>"),
    ),
    "harmony that ends another way": (
        "harmony",
        '<|start|>assistant<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command":"ls"}<|end|>',
        (False, "not closed", "run", "<|end|>"),
    ),
    "harmony in the analysis channel": (
        "harmony",
        '<|channel|>analysis to=functions.run <|constrain|>json<|message|>{"command":"ls"}<|call|>',
        (True, "call in reasoning", "run", "<|channel|>"),
    ),
    # Any format
    "an unknown name": (
        "hermes",
        '<tool_call>{"name":"runn","arguments":{"command":"ls"}}</tool_call>',
        (True, "unknown name", "runn", '"runn"'),
    ),
    "a required argument that is not there": (
        "qwen_xml",
        "<tool_call>\n<function=run>\n</function>\n</tool_call>",
        (True, "schema invalid", "run", "<tool_call>"),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_in_each_format(case):
    format, text, (closed, verdict, name, place) = BROKEN[case]
    call = one(text, format, tools=TOOLS)
    assert (call.closed, call.verdict, call.name) == (closed, verdict, name)
    position = len(text) if place == "" else text.index(place)
    if case == "llama with the wrong key" or case == "harmony with a stray header token":
        position = text.rindex(place) if case.startswith("harmony") else text.index(place)
    assert call.first_fault.position == position
    assert call.parsed is (verdict not in ("not closed", "not parsed"))


def test_a_reused_id_is_a_fault_of_the_second_call():
    item = '{"id":"a","type":"function","function":{"name":"run","arguments":"{\\"command\\":\\"ls\\"}"}}'
    graded = grade(f'{{"tool_calls":[{item},{item}]}}', format="openai_json", tools=TOOLS)
    assert [call.verdict for call in graded.calls] == ["ok", "not parsed"]
    assert graded.verdict == "not parsed"
    assert "used before" in graded.calls[1].first_fault.message


@pytest.mark.parametrize("name", ["run", 'r\u00e9\\n\\"x', "\\ud83d\\ude00"])
def test_a_fault_inside_the_arguments_has_its_place_in_the_output(name):
    """Arguments are JSON inside a JSON string: every escape moves what stands behind it."""
    inner = json.dumps({"a": '\n\t"é😀', "path": name})
    text = json.dumps(
        [{"id": "a", "type": "function", "function": {"name": "get", "arguments": inner[:-1] + ", oops}"}}]
    )
    assert one(text, "openai_json").first_fault.position == text.index("oops")
    bad = json.dumps([{"id": "a", "type": "function", "function": {"name": "get", "arguments": inner}}])
    call = one(bad, "openai_json", tools=TOOLS)
    assert (call.verdict, call.first_fault.message[:4]) == ("schema invalid", "argu")


def test_an_empty_name_is_no_name():
    for format, text in (
        ("llama3_json", '{"name":"","parameters":{}}'),
        ("hermes", '<tool_call>{"name":"","arguments":{}}</tool_call>'),
        ("mistral", '[TOOL_CALLS] [{"name":"","arguments":{}}]'),
        ("qwen_xml", "<tool_call><function=></function></tool_call>"),
        ("openai_json", '[{"id":"a","type":"function","function":{"name":"","arguments":"{}"}}]'),
    ):
        assert (one(text, format).verdict, one(text, format).name) == ("not parsed", None)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("glm", "<tool_call>set<arg_key>version</arg_key><arg_value>1.10</arg_value></tool_call>"),
        ("qwen_xml", "<tool_call><function=set><parameter=version>1.10</parameter></function></tool_call>"),
    ],
)
def test_a_string_that_looks_like_a_number_stays_one(format, text):
    call = one(text, format, tools=TOOLS)
    assert (call.arguments, call.verdict) == ({"version": "1.10"}, "ok")
    number = one(text.replace("version", "ratio"), format, tools=TOOLS)
    assert number.arguments == {"ratio": 1.1}
    assert one(text, format).arguments == {"version": "1.10"}


def test_a_json_number_for_a_string_is_invalid():
    call = one('<tool_call>{"name":"set","arguments":{"version":1.10}}</tool_call>', "hermes", tools=TOOLS)
    assert call.verdict == "schema invalid"


def test_harmony_whose_stop_token_the_server_took_away():
    text = (
        "<|channel|>analysis<|message|>The user wants a list.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.run <|constrain|>json<|message|>{"command":"ls"}'
    )
    assert one(text, "harmony", tools=TOOLS).verdict == "ok"
    assert one(text, "harmony", tools=TOOLS, ending=Ending.TRUNCATED).verdict == "truncated"
    role_first = text.replace(
        "assistant<|channel|>commentary to=functions.run", "assistant to=functions.run<|channel|>commentary"
    )
    assert one(role_first, "harmony", tools=TOOLS).arguments == {"command": "ls"}


def test_two_calls_of_which_the_first_lost_its_close():
    broken = qwen("ls").removesuffix("\n</tool_call>")
    graded = grade(f"{broken}\n{qwen('pwd')}", format="qwen_xml", tools=TOOLS)
    assert [(call.closed, call.verdict) for call in graded.calls] == [(False, "not closed"), (True, "ok")]
    assert graded.verdict == "not closed"
