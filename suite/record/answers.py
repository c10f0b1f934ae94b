"""What a server answered, put together from its bytes: chat completions, completions and responses, streamed or not."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from suite.sse import events
from suite.untyped import Json, as_dict, as_list
from suite.workload.importing.messages import assistant_message, message_of_items


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One answer; a request with `n` gets several."""

    message: Json
    """An assistant message as chat completions have it; for completions only `content`."""
    finish_reason: str | None
    token_ids: tuple[int, ...] | None
    """What the server generated, the end-of-turn token included; None where it did not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Everything of one response that a session needs."""

    choices: tuple[Choice, ...] = ()
    prompt_token_ids: tuple[int, ...] | None = None
    usage: Json | None = None
    model: str | None = None
    response_id: str | None = None
    done: bool = False
    """The server said that the answer is whole."""
    problems: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """JSON values, from which `from_json` makes the same again."""
        value: Json = json.loads(json.dumps(asdict(self)))
        return value

    @classmethod
    def from_json(cls, value: Json) -> Answer:
        """See `to_json`."""
        choices = tuple(Choice(**{**choice, "token_ids": _ids(choice["token_ids"])}) for choice in value["choices"])
        return cls(
            **{
                **value,
                "choices": choices,
                "prompt_token_ids": _ids(value["prompt_token_ids"]),
                "problems": tuple(value["problems"]),
            }
        )


def answer_of(path: str, body: bytes, content_type: str, content_encoding: str = "") -> Answer:
    """Put the answer together. Never raises: what cannot be read is named in `problems`."""
    if content_encoding and content_encoding.lower() != "identity":
        try:
            body = _decompress(body, content_encoding.lower())
        except (ValueError, zlib.error) as error:
            return Answer(problems=(f"the answer's encoding cannot be read: {error}",))
    endpoint = path.rstrip("/")
    streamed = "event-stream" in content_type or (not content_type and body.startswith((b"data:", b"event:")))
    problems: list[str] = []
    if not streamed:
        value = _parse(body.decode(errors="replace"), "the answer", problems)
        if value is None:
            return Answer(problems=tuple(problems))
        if "error" in value and "choices" not in value and "output" not in value:
            return Answer(problems=(f"the server answered with an error: {_short(value['error'])}",))
        return _response(value, problems) if endpoint.endswith("/responses") else _whole(value, endpoint, problems)
    values: list[Json] = []
    done = False
    for event in events([body]):
        if event.data == "[DONE]":
            done = True
            continue
        if not event.whole:
            problems.append("the stream ends in the middle of an event")
        value = _parse(event.data, "an event", problems)
        if value is not None:
            values.append(value)
    if endpoint.endswith("/responses"):
        return _response_stream(values, problems)
    return _stream(values, endpoint, problems, done=done)


def _parse(text: str, what: str, problems: list[str]) -> Json | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        problems.append(f"{what} is no JSON: {_short(text)}")
        return None
    if not isinstance(value, dict):
        problems.append(f"{what} is no JSON object: {_short(text)}")
        return None
    return value


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:120] + "…"


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding in ("gzip", "x-gzip", "deflate"):
        worker = zlib.decompressobj(wbits=47)  # gzip or zlib, by its header
        return worker.decompress(body)
    raise ValueError(encoding)


def _ids(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list | tuple) and all(type(item) is int for item in value):
        return tuple(value)
    return None


def _whole(value: Json, endpoint: str, problems: list[str]) -> Answer:
    choices = []
    prompt_ids = _ids(value.get("prompt_token_ids"))
    for item in map(as_dict, as_list(value.get("choices"))):
        message = (
            assistant_message(as_dict(item.get("message")))
            if endpoint.endswith("/chat/completions")
            else {"role": "assistant", "content": item.get("text") or ""}
        )
        prompt_ids = prompt_ids or _ids(item.get("prompt_token_ids"))
        choices.append(
            Choice(message=message, finish_reason=item.get("finish_reason"), token_ids=_ids(item.get("token_ids")))
        )
    if not choices:
        problems.append("the answer holds no choice")
    return Answer(
        choices=tuple(choices),
        prompt_token_ids=prompt_ids,
        usage=value.get("usage") if isinstance(value.get("usage"), dict) else None,
        model=_text(value.get("model")),
        response_id=_text(value.get("id")),
        done=bool(choices),
        problems=tuple(problems),
    )


@dataclass(kw_only=True, slots=True)
class _Growing:
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, Json] = field(default_factory=dict)
    token_ids: list[int] | None = None
    finish_reason: str | None = None


def _stream(values: Iterable[Json], endpoint: str, problems: list[str], *, done: bool) -> Answer:
    growing: dict[int, _Growing] = {}
    found: Json = {}
    for value in values:
        if "error" in value:
            problems.append(f"the server broke off with an error: {_short(value['error'])}")
        for key in ("id", "model", "usage", "prompt_token_ids"):
            if value.get(key):
                found[key] = value[key]
        for item in map(as_dict, as_list(value.get("choices"))):
            index = item.get("index") if type(item.get("index")) is int else 0
            choice = growing.setdefault(index or 0, _Growing())
            if item.get("prompt_token_ids"):
                found.setdefault("prompt_token_ids", item["prompt_token_ids"])
            if endpoint.endswith("/chat/completions"):
                _grow(choice, as_dict(item.get("delta")))
            elif isinstance(item.get("text"), str):
                choice.content.append(item["text"])
            ids = _ids(item.get("token_ids"))
            if ids is not None:
                choice.token_ids = [*(choice.token_ids or []), *ids]
            choice.finish_reason = item.get("finish_reason") or choice.finish_reason
    if not done:
        problems.append("the stream ends before its [DONE]")
    choices = tuple(_grown(choice, endpoint) for _, choice in sorted(growing.items()))
    return Answer(
        choices=choices,
        prompt_token_ids=_ids(found.get("prompt_token_ids")),
        usage=found.get("usage") if isinstance(found.get("usage"), dict) else None,
        model=_text(found.get("model")),
        response_id=_text(found.get("id")),
        done=bool(choices) and all(choice.finish_reason for choice in choices),
        problems=tuple(problems),
    )


def _grow(choice: _Growing, delta: Json) -> None:
    if isinstance(delta.get("content"), str):
        choice.content.append(delta["content"])
    # A server in transition between the two names sends both with the same text.
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(reasoning, str):
        choice.reasoning.append(reasoning)
    for part in map(as_dict, as_list(delta.get("tool_calls"))):
        number = part.get("index") if type(part.get("index")) is int else len(choice.calls)
        call = choice.calls.setdefault(number or 0, {"id": None, "name": "", "arguments": ""})
        call["id"] = part.get("id") or call["id"]
        function = as_dict(part.get("function"))
        call["name"] = call["name"] or function.get("name") or ""
        if isinstance(function.get("arguments"), str):
            call["arguments"] += function["arguments"]


def _grown(choice: _Growing, endpoint: str) -> Choice:
    content = "".join(choice.content)
    message: Json = {"role": "assistant", "content": content or (None if choice.calls else "")}
    if not endpoint.endswith("/chat/completions"):
        message["content"] = content
    if choice.reasoning:
        message["reasoning_content"] = "".join(choice.reasoning)
    if choice.calls:
        message["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for _, c in sorted(choice.calls.items())
        ]
    ids = None if choice.token_ids is None else tuple(choice.token_ids)
    return Choice(message=message, finish_reason=choice.finish_reason, token_ids=ids)


def _response_stream(values: list[Json], problems: list[str]) -> Answer:
    last = next(
        (v for v in reversed(values) if str(v.get("type", "")).startswith("response.") and "response" in v), None
    )
    ended = last is not None and last["type"] in ("response.completed", "response.incomplete")
    items = [as_dict(v.get("item")) for v in values if v.get("type") == "response.output_item.done"]
    response = dict(as_dict(last.get("response"))) if last else {}
    if not ended:
        problems.append("the stream ends before the response is complete")
    if not as_list(response.get("output")):
        response["output"] = items
    answer = _response(response, problems)
    return answer if ended else Answer(**{**_fields(answer), "done": False})


def _fields(answer: Answer) -> Json:
    return {name: getattr(answer, name) for name in Answer.__slots__}


def _response(value: Json, problems: list[str]) -> Answer:
    message = message_of_items(map(as_dict, as_list(value.get("output"))))
    status = _text(value.get("status"))
    empty = not (message["content"] or message.get("tool_calls") or message.get("reasoning_content"))
    if empty:
        problems.append("the response holds no output")
    choices = () if empty else (Choice(message=message, finish_reason=status, token_ids=None),)
    return Answer(
        choices=choices,
        usage=value.get("usage") if isinstance(value.get("usage"), dict) else None,
        model=_text(value.get("model")),
        response_id=_text(value.get("id")),
        done=not empty,
        problems=tuple(problems),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
