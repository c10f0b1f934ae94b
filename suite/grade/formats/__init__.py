"""One grammar per tool-call format, by the names of `suite grade --format`."""

from __future__ import annotations

from suite.errors import InvalidInput
from suite.grade.formats.deepseek_v3 import DeepSeekV3
from suite.grade.formats.deepseek_v31 import DeepSeekV31
from suite.grade.formats.deepseek_v32 import DeepSeekV32
from suite.grade.formats.glm import Glm
from suite.grade.formats.harmony import Harmony
from suite.grade.formats.hermes import Hermes
from suite.grade.formats.kimi_k2 import KimiK2
from suite.grade.formats.llama3_json import Llama3Json
from suite.grade.formats.mistral import Mistral
from suite.grade.formats.openai_json import OpenAIJson
from suite.grade.formats.qwen_xml import QwenXml
from suite.grade.machine import Machine

GRAMMARS: dict[str, type[Machine]] = {
    grammar.name: grammar
    for grammar in (
        OpenAIJson,
        QwenXml,
        Hermes,
        Mistral,
        Llama3Json,
        Glm,
        DeepSeekV3,
        DeepSeekV31,
        DeepSeekV32,
        KimiK2,
        Harmony,
    )
}


def make_grammar(name: str, *, reasoning_open: bool = False) -> Machine:
    """A fresh grammar of that format.

    Raises:
        InvalidInput: no such format.
    """
    if name not in GRAMMARS:
        raise InvalidInput(f"no tool-call format is named {name!r}", hint=f"formats: {', '.join(GRAMMARS)}")
    return GRAMMARS[name](reasoning_open=reasoning_open)
