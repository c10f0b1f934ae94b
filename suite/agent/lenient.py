"""What vLLM's own tool parser makes of a text, asked inside the stack. It is lenient: recorded, never graded by.

`python -m suite.agent.lenient` reads `{parser, text, tools, tokenizer}` as JSON from standard input. The last line of
its output is JSON: `{calls: [{name, arguments}], content, vllm}`, or `{error}`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from suite.agent.lifetime import leave, uncollected


class _AnyVocabulary(dict[str, int]):
    """Knows every token: parsers look up their special tokens, and work on text afterwards."""

    def __missing__(self, token: str) -> int:
        self[token] = len(self) + 10
        return self[token]

    def get(self, token: str, default: Any = None) -> Any:
        """An id for any token."""
        return self[token]

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str)


class StandInTokenizer:
    """As much of a tokenizer as a parser needs to read a finished text; used where no tokenizer folder is named."""

    all_special_tokens: tuple[str, ...] = ()
    all_special_ids: tuple[int, ...] = ()
    is_fast = True

    def __init__(self) -> None:
        self._vocabulary = _AnyVocabulary()

    def get_vocab(self) -> dict[str, int]:
        """Every token has an id."""
        return self._vocabulary

    def encode(self, text: str, **_: Any) -> list[int]:
        """One id per character."""
        return [self._vocabulary[character] for character in text]

    def decode(self, ids: list[int], **_: Any) -> str:
        """The text of ids."""
        names = {number: token for token, number in self._vocabulary.items()}
        return "".join(names.get(number, "") for number in ids)

    def convert_tokens_to_ids(self, token: str | list[str]) -> Any:
        """Ids of tokens."""
        return self._vocabulary[token] if isinstance(token, str) else [self._vocabulary[item] for item in token]

    def tokenize(self, text: str) -> list[str]:
        """Characters."""
        return list(text)


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """The parser's calls; raises what vLLM raises."""
    with uncollected():
        import vllm
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.tool_parsers import ToolParserManager

    if request.get("tokenizer"):
        from transformers import AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(request["tokenizer"])
    else:
        tokenizer = StandInTokenizer()
    tools = request.get("tools") or []
    chat = ChatCompletionRequest(
        model="m",
        messages=[{"role": "user", "content": "-"}],
        tools=tools or None,
        tool_choice="auto" if tools else None,
    )
    parser = ToolParserManager.get_tool_parser(request["parser"])(tokenizer, chat.tools)
    found = parser.extract_tool_calls(request["text"], chat)
    calls = [{"name": call.function.name, "arguments": call.function.arguments} for call in found.tool_calls or []]
    return {"calls": calls, "content": found.content, "vllm": vllm.__version__}


def main() -> int:
    """Answer one request."""
    request = json.load(sys.stdin)
    try:
        answer = ask(request)
    except Exception as error:  # noqa: BLE001 - a parser that dies on a text is an answer too
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    leave(main())
