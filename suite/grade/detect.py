"""Which format an output is written in, by the marks that only one format has."""

from __future__ import annotations

import re

from suite.errors import InvalidInput
from suite.grade.formats import make_grammar

# Format -> what shows it. Where formats share a mark, what follows it decides.
_SIGNS: dict[str, re.Pattern[str]] = {
    "qwen_xml": re.compile(r"(?:<tool_call>\s{0,16})?<function=[^\s<>]"),
    "hermes": re.compile(r"<tool_call>\s{0,16}\{"),
    "glm": re.compile(r"<tool_call>\s{0,16}[^\s<>{}\"]{1,256}\s{0,16}(?:<arg_key>|</tool_call>)|<arg_key>"),
    "mistral": re.compile(r"\[TOOL_CALLS\]|\[ARGS\]\s{0,4}\{"),
    "llama3_json": re.compile(r"<\|python_tag\|>|\A\s{0,64}\{\s{0,16}\"(?:name|parameters)\"\s{0,4}:"),
    "deepseek_v3": re.compile(r"<｜tool▁call▁begin｜>\s{0,4}function<｜tool▁sep｜>[^\s{]"),
    "deepseek_v31": re.compile(r"<｜tool▁call▁begin｜>(?!function<｜tool▁sep｜>[^\s{])[^\s<｜]{1,256}<｜tool▁sep｜>"),
    "deepseek_v32": re.compile(r"</?｜DSML｜"),
    "kimi_k2": re.compile(r"<\|tool_calls_section_(?:begin|end)\|>|<\|tool_call_(?:begin|argument_begin)\|>"),
    "harmony": re.compile(r"<\|channel\|>|<\|start\|>assistant|\A to=functions\."),
    "openai_json": re.compile(r"\A\s{0,64}[\[{](?=[\s\S]{0,4000}\"(?:tool_calls|function)\"\s{0,4}:)"),
}
_SHARED = {
    "<tool_call>": ("qwen_xml", "hermes", "glm"),
    "</tool_call>": ("qwen_xml", "hermes", "glm"),
    "<｜tool▁calls▁begin｜>": ("deepseek_v3", "deepseek_v31"),
    "<｜tool▁call▁begin｜>": ("deepseek_v3", "deepseek_v31"),
}


def detect_format(text: str) -> str | None:
    """The format of an output's calls; None if it holds no mark of any.

    Where marks of several formats stand in the text, those inside the calls of the first one are values.

    Raises:
        InvalidInput: the text fits several formats equally well; names them.
    """
    signs = sorted((match.start(), name) for name, sign in _SIGNS.items() if (match := sign.search(text)))
    if not signs:
        shared = [names for mark, names in _SHARED.items() if mark in text]
        if shared:
            raise _ambiguous(shared[0])
        return None
    first, chosen = signs[0]
    others = [name for _, name in signs[1:]]
    rivals = [name for position, name in signs[1:] if position == first]
    if rivals:
        whole = [name for name in (chosen, *rivals) if _reads_whole(name, text)]
        if len(whole) != 1:
            raise _ambiguous((chosen, *rivals))
        return whole[0]
    if others:
        spans = _spans(chosen, text)
        outside = [name for name in others if not _covered(_SIGNS[name], text, spans)]
        whole = [name for name in outside if _reads_whole(name, text)]
        if whole:
            raise _ambiguous((chosen, *whole))
    return chosen


def _ambiguous(names: tuple[str, ...]) -> InvalidInput:
    return InvalidInput(
        f"the text fits several formats: {', '.join(names)}", hint=f"say which with --format, for instance {names[0]}"
    )


def _spans(name: str, text: str) -> list[tuple[int, int]]:
    grammar = make_grammar(name)
    grammar.feed(text)
    return [(call.start, len(text) if call.end is None else call.end) for call in grammar.finish().calls]


def _reads_whole(name: str, text: str) -> bool:
    grammar = make_grammar(name)
    grammar.feed(text)
    parsed = grammar.finish()
    return bool(parsed.calls) and all(call.parsed for call in parsed.calls)


def _covered(sign: re.Pattern[str], text: str, spans: list[tuple[int, int]]) -> bool:
    index = 0
    for match in sign.finditer(text):
        while index < len(spans) and spans[index][1] <= match.start():
            index += 1
        if index == len(spans) or match.start() < spans[index][0]:
            return False
    return True
