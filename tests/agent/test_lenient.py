from __future__ import annotations

import pytest

from suite.grade.server import VLLM_PARSERS, ask_vllm, differences
from suite.grade.verdict import grade
from tests.grade.writers import WRITERS

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("name", ["qwen_xml", "kimi_k2"])
def test_vllm_reads_what_a_well_behaved_model_writes(vllm_python, name):
    text = WRITERS[name]([("run", {"command": "ls"})])
    opinion = ask_vllm(vllm_python, VLLM_PARSERS[name], text)
    assert opinion.error is None
    assert opinion.vllm
    assert differences(grade(text, format=name), opinion.calls, text=text) == "agrees"


def test_vllm_is_lenient_where_we_are_not(vllm_python):
    text = "<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n"
    opinion = ask_vllm(vllm_python, "qwen3_coder", text)
    assert [call.name for call in opinion.calls] == ["run"]
    graded = grade(text, format="qwen_xml")
    assert graded.verdict == "not closed"
    assert "took it all the same" in differences(graded, opinion.calls, text=text)


def test_a_parser_that_vllm_does_not_have_is_an_error_of_its_own(vllm_python):
    opinion = ask_vllm(vllm_python, "no_such_parser", "x")
    assert opinion.error
    assert opinion.calls == ()
