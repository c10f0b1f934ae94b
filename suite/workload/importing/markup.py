"""Prompts that were rendered already: taken apart again by the marks of ChatML, Llama 3 and Gemma."""

from __future__ import annotations

import re

from suite.untyped import Json

_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n?|\Z)", re.DOTALL)
_LLAMA3 = re.compile(
    r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n\n(.*?)(?:<\|eot_id\|>|<\|eom_id\|>|\Z)", re.DOTALL
)
_GEMMA = re.compile(r"<start_of_turn>(\w+)\n(.*?)(?:<end_of_turn>\n?|\Z)", re.DOTALL)
_BEGINNINGS = re.compile(r"^(?:<\|begin_of_text\|>|<bos>|<s>)*")
_ROLES = {"model": "assistant", "ipython": "tool"}


def messages_of_prompt(prompt: str) -> list[Json]:
    """The messages of a rendered prompt, the open turn at its end left out; empty if the marks are of no known kind.

    Tool definitions and calls stay in the text as the template wrote them: what they were before cannot be known.
    """
    text = _BEGINNINGS.sub("", prompt)
    for pattern in (_CHATML, _LLAMA3, _GEMMA):
        position = 0
        messages: list[Json] = []
        for match in pattern.finditer(text):
            if text[position : match.start()].strip():
                break
            messages.append({"role": _ROLES.get(match[1], match[1]), "content": match[2]})
            position = match.end()
        if messages and position == len(text):
            open_turn = messages[-1]["role"] == "assistant" and not re.search(
                r"(<\|im_end\|>|<\|eo[tm]_id\|>|<end_of_turn>)\s*\Z", text
            )
            # Without structure an answer of a tool belongs to no call; it is what the model read next.
            messages = [{**m, "role": "user"} if m["role"] == "tool" else m for m in messages]
            return messages[:-1] if open_turn else messages
    return []
