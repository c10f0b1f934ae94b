"""The OpenAI protocol as far as replay speaks it: requests built, answers read. Pure; nothing is sent here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.grade.detect import detect_format
from suite.grade.verdict import shown_text
from suite.replay.schema import EndingName
from suite.sse import events
from suite.workload.session import Session

DONE = "[DONE]"
MAX_CALLS = 1024
MAX_CHARACTERS = 500_000
"""Of one answer; a longer one is no turn of an agent."""
_NAME_CHARACTERS = 300
_TRUNCATED = ("length", "max_tokens", "model_length")
_FAILED = ("error", "abort", "content_filter", "insufficient_system_resource")


class Malformed(Exception):
    """What the server sent is no answer of this protocol, or ends too early; the text says how."""


class Refused(Exception):
    """The server answered with an error of its own; the text is what it said."""


@dataclass(kw_only=True, slots=True)
class Call:
    """One structured call, as it grows in a stream."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(kw_only=True, slots=True)
class Reply:
    """One answer, whole or growing."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, Call] = field(default_factory=dict)
    finish: str | None = None
    token_ids: list[int] | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    fingerprint: str | None = None
    characters: int = 0
    """Taken in so far."""

    @property
    def ending(self) -> EndingName:
        """Why it ended."""
        if self.finish in _TRUNCATED:
            return "truncated"
        return "engine error" if self.finish in _FAILED else "stop"

    def graded_text(self) -> tuple[str, str]:
        """The text to grade and the format to read it by.

        Structured calls are graded as the server gave them, arguments as the model wrote them. Where there is none and
        the content holds the marks of a format, the server's parser has not taken the call: the content is graded.
        """
        if not self.calls and self.content:
            try:
                found = detect_format(self.content)
            except InvalidInput:  # marks that several formats share, and no call that one of them could read
                found = "qwen_xml" if "<tool_call>" in self.content else "deepseek_v31"
            if found not in (None, "openai_json"):
                return self.content, str(found)
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {
                    **({"id": call.id} if call.id else {}),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for _, call in sorted(self.calls.items())
            ]
        return json.dumps(message, ensure_ascii=False), "openai_json"


def chat_request(
    session: Session, message: int, *, model: str, max_tokens: int, sampling: Mapping[str, Any], stream: bool
) -> dict[str, Any]:
    """The body of `POST /chat/completions` with the history before `message`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [item.model_dump(mode="json", exclude_none=True) for item in session.messages[:message]],
        "tools": [tool.model_dump(mode="json", exclude_none=True) for tool in session.tools],
        "tool_choice": "auto",
        "max_tokens": max_tokens,
        "stream": stream,
        **sampling,
    }
    if session.chat_template_kwargs:
        body["chat_template_kwargs"] = session.chat_template_kwargs
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body


def completions_request(
    prompt: str | Sequence[int], *, model: str, max_tokens: int, sampling: Mapping[str, Any], stream: bool
) -> dict[str, Any]:
    """The body of `POST /completions`; special tokens are asked to stay in the text, and ids to come back."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": max_tokens,
        "stream": stream,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "return_token_ids": True,
        **sampling,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body


def read_whole(data: bytes) -> Reply:
    """Read an answer that is not streamed.

    Raises:
        Malformed: no answer of this protocol.
        Refused: an error of the server.
    """
    reply = Reply()
    _take(reply, _object(data), whole=True)
    if reply.finish is None:
        raise Malformed("the answer does not say why it ended (finish_reason)")
    return reply


def read_stream(pieces: Iterable[bytes]) -> Reply:
    """Read an answer from the pieces of a stream of server-sent events.

    Raises:
        Malformed: an event is no JSON of this protocol, or the stream ends before its last event.
        Refused: an error of the server.
    """
    reply = Reply()
    for event in events(pieces):
        if event.data == DONE:
            break
        _take(reply, _object(event.data.encode()), whole=False)
    if reply.finish is None:
        raise Malformed("the stream was cut before the answer's end")
    return reply


def model_names(data: bytes) -> tuple[list[str], str | None]:
    """Ids of `GET /models`, and who owns the first one.

    Raises:
        Malformed: no list of models.
    """
    value = _object(data)
    items = value.get("data")
    if not isinstance(items, list):
        raise Malformed("no list of models")
    found = [item for item in items if isinstance(item, dict) and _is_name(item.get("id"))]
    owner = found[0].get("owned_by") if found else None
    return [item["id"] for item in found], owner if _is_name(owner) else None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _NAME_CHARACTERS and shown_text(value) == value


def error_text(data: bytes) -> str:
    """What an error's body says, shortened to one line."""
    try:
        value = strict_json(data, where="error")
    except InvalidInput:
        text = data.decode("utf-8", errors="replace")
    else:
        text = _error_of(value) or json.dumps(value)
    return " ".join(text.split())[:400]


def _error_of(value: Any) -> str | None:
    error = value.get("error") if isinstance(value, dict) else None
    for item in (error.get("message") if isinstance(error, dict) else error, *_plain(value)):
        if isinstance(item, str) and item:
            return item
    return None


def _plain(value: Any) -> tuple[Any, ...]:
    return (value.get("message"), value.get("detail")) if isinstance(value, dict) else ()


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = strict_json(data, where="answer")
    except InvalidInput as error:
        raise Malformed(error.message) from error
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    if value.get("error"):
        raise Refused(" ".join((_error_of(value) or json.dumps(value["error"])).split())[:400])
    return value


def _take(reply: Reply, value: dict[str, Any], *, whole: bool) -> None:
    if isinstance(fingerprint := value.get("system_fingerprint"), str):
        reply.fingerprint = shown_text(fingerprint)[:_NAME_CHARACTERS]
    _usage(reply, value.get("usage"))
    choices = value.get("choices")
    if not isinstance(choices, list) or (whole and not choices):
        raise Malformed("an answer without choices")
    for choice in choices[:1]:
        if not isinstance(choice, dict):
            raise Malformed("a choice is no object")
        message = choice.get("message" if whole else "delta")
        if "text" in choice:
            message = {"content": choice["text"]}
        if message is not None:
            _message(reply, message)
        ids = choice.get("token_ids")
        if isinstance(ids, list) and all(type(i) is int and i >= 0 for i in ids):
            reply.token_ids = [*(reply.token_ids or []), *ids]
        finish = choice.get("finish_reason")
        if finish is not None:
            if not isinstance(finish, str):
                raise Malformed("finish_reason is no text")
            reply.finish = finish


def _message(reply: Reply, message: Any) -> None:
    if not isinstance(message, dict):
        raise Malformed("a message is no object")
    content = _text(message, "content")
    reasoning = _text(message, "reasoning_content") or _text(message, "reasoning")
    reply.content += content
    reply.reasoning += reasoning
    _grow(reply, len(content) + len(reasoning))
    calls = message.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list):
        raise Malformed("tool_calls is no list")
    for number, item in enumerate(calls):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(function, dict | None):
            raise Malformed("a tool call is no object")
        index = item.get("index", number)
        if type(index) is not int or not 0 <= index < MAX_CALLS:
            raise Malformed(f"a tool call has the index {index!r}")
        call = reply.calls.setdefault(index, Call())
        call.id = call.id or _text(item, "id")
        name, arguments = _text(function or {}, "name"), (function or {}).get("arguments")
        if isinstance(arguments, dict):  # some servers hand over the object
            arguments = json.dumps(arguments, ensure_ascii=False)
        else:
            arguments = _text(function or {}, "arguments")
        call.name += name
        call.arguments += arguments
        _grow(reply, len(name) + len(arguments))


def _grow(reply: Reply, characters: int) -> None:
    reply.characters += characters
    if reply.characters > MAX_CHARACTERS:
        raise Refused(f"an answer of more than {MAX_CHARACTERS:,} characters")


def _usage(reply: Reply, usage: Any) -> None:
    if not isinstance(usage, dict):
        return
    if type(count := usage.get("completion_tokens")) is int and count >= 0:
        reply.completion_tokens = count
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and type(cached := details.get("cached_tokens")) is int and cached >= 0:
        reply.cached_tokens = cached


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Malformed(f"{key} is no text")
    return found
