from __future__ import annotations

import json

import pytest

from suite.grade.server import VLLM_PARSERS, ask_vllm, differences, server_calls
from suite.grade.verdict import grade
from tests.grade.writers import WRITERS

pytestmark = pytest.mark.vllm

NOT_CLOSED = "<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n"
WELL_BEHAVED = {name: WRITERS[name]([("run", {"command": "ls"})]) for name in ("qwen_xml", "kimi_k2")}

# What a process answers, several times in one: most of a process is the import of vLLM.
_ASK = """
import io, json, sys
from contextlib import redirect_stdout
from suite.agent import lenient
answers = []
for request in json.loads(sys.argv[1]):
    sys.stdin, printed = io.StringIO(json.dumps(request)), io.StringIO()
    with redirect_stdout(printed):
        lenient.main()
    answers.append(json.loads(printed.getvalue().splitlines()[-1]))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(in_stack):
    asked = {
        "kimi_k2": (VLLM_PARSERS["kimi_k2"], WELL_BEHAVED["kimi_k2"]),
        "not closed": ("qwen3_coder", NOT_CLOSED),
        "no such": ("no_such_parser", "x"),
    }
    requests = [{"parser": parser, "text": text} for parser, text in asked.values()]
    return dict(zip(asked, in_stack(_ASK, json.dumps(requests)), strict=True))


def test_a_process_says_how_vllm_reads_what_a_well_behaved_model_writes(vllm_python):
    text = WELL_BEHAVED["qwen_xml"]
    opinion = ask_vllm(vllm_python, VLLM_PARSERS["qwen_xml"], text)
    assert opinion.error is None
    assert opinion.vllm
    assert differences(grade(text, format="qwen_xml"), opinion.calls, text=text) == "agrees"


def test_vllm_reads_another_format_of_a_well_behaved_model(answers):
    answer = answers["kimi_k2"]
    assert "error" not in answer
    assert answer["vllm"]
    text = WELL_BEHAVED["kimi_k2"]
    assert differences(grade(text, format="kimi_k2"), server_calls(answer["calls"]), text=text) == "agrees"


def test_vllm_is_lenient_where_we_are_not(answers):
    calls = server_calls(answers["not closed"]["calls"])
    assert [call.name for call in calls] == ["run"]
    graded = grade(NOT_CLOSED, format="qwen_xml")
    assert graded.verdict == "not closed"
    assert "took it all the same" in differences(graded, calls, text=NOT_CLOSED)


def test_a_parser_that_vllm_does_not_have_is_an_error_of_its_own(answers):
    assert answers["no such"].keys() == {"error"}
    assert "no_such_parser" in answers["no such"]["error"]
