"""One recorded exchange in the words of chat completions, whichever endpoint it came through."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from suite.record.answers import Answer, answer_of
from suite.record.journal import RawExchange
from suite.untyped import Json
from suite.workload.importing.messages import SAMPLING_KEYS, history_of_items


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """A request's history and settings, and the answer to it."""

    number: int
    """From 1, in the order of the recording, over all journals."""
    label: str
    """Journal and number there."""
    started: str
    endpoint: str
    """Last part of the path: `chat/completions`, `completions`, `responses`."""
    history: tuple[Json, ...]
    """For `completions`: one message without a role, whose content is the prompt text."""
    answer: Answer
    tools: tuple[Json, ...] = ()
    sampling: Json | None = None
    """As the request had it; keys it did not have are absent."""
    template_kwargs: Json | None = None
    chat_template: str | None = None
    model: str | None = None
    previous_response_id: str | None = None
    status: int | None = None
    how: str | None = None
    first_byte_ms: float | None = None
    last_byte_ms: float | None = None
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """The server answered, and the answer came through whole."""
        return self.how == "complete" and self.status == 200 and self.answer.done


def read_exchange(raw: RawExchange, number: int) -> Exchange | None:
    """Read one; None if its request is no JSON object, so that nothing can be made of it."""
    try:
        request = json.loads(raw.request_body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    if raw.held_answer is not None:
        answer = Answer.from_json(raw.held_answer)
    else:
        headers = raw.response_headers
        answer = answer_of(
            raw.path,
            raw.response_body,
            headers.get("content-type", ""),
            headers.get("content-encoding", ""),
        )
    endpoint = _endpoint(raw.path)
    how = raw.how
    if how == "client_closed" and answer.done and not answer.problems:
        how = "complete"  # clients leave at the stream's own end mark, which may come before the connection's end
    problems = [*raw.problems, *answer.problems]
    if how is None:
        problems.append("the proxy ended before this exchange did")
    elif how != "complete":
        problems.append(f"{how.replace('_', ' ')}" + (f": {raw.error}" if raw.error else ""))
    sampling = {key: request[key] for key in SAMPLING_KEYS if request.get(key) is not None}
    if request.get("max_completion_tokens") is not None:
        sampling.setdefault("max_tokens", request["max_completion_tokens"])
    if request.get("max_output_tokens") is not None:
        sampling.setdefault("max_tokens", request["max_output_tokens"])
    kwargs = dict(request["chat_template_kwargs"]) if isinstance(request.get("chat_template_kwargs"), dict) else {}
    return Exchange(
        number=number,
        label=f"{raw.journal} exchange {raw.number}",
        started=raw.started,
        endpoint=endpoint,
        history=tuple(_history(request, endpoint)),
        answer=answer,
        tools=tuple(_tools(request, endpoint)),
        sampling=sampling,
        template_kwargs=kwargs,
        chat_template=request["chat_template"] if isinstance(request.get("chat_template"), str) else None,
        model=request.get("model") if isinstance(request.get("model"), str) else answer.model,
        previous_response_id=(
            request["previous_response_id"] if isinstance(request.get("previous_response_id"), str) else None
        ),
        status=raw.status,
        how=how,
        first_byte_ms=raw.first_byte_ms,
        last_byte_ms=raw.last_byte_ms,
        problems=tuple(problems),
    )


def _endpoint(path: str) -> str:
    path = path.rstrip("/")
    if path.endswith("/chat/completions"):
        return "chat/completions"
    return path.rsplit("/", 1)[-1]


def _history(request: Json, endpoint: str) -> Iterable[Json]:
    if endpoint == "chat/completions":
        messages = request.get("messages")
        return [dict(m) for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    if endpoint == "completions":
        prompt = request.get("prompt")
        return [{"role": "", "content": prompt}] if isinstance(prompt, str) else []
    return _response_input(request)


def _response_input(request: Json) -> list[Json]:
    messages: list[Json] = []
    if isinstance(request.get("instructions"), str):
        messages.append({"role": "system", "content": request["instructions"]})
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given if isinstance(given, list) else []
    return [*messages, *history_of_items(items)]


def _tools(request: Json, endpoint: str) -> Iterable[Json]:
    tools = request.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        if not isinstance(tool, dict):
            continue
        if endpoint == "responses" and tool.get("type") == "function":
            function = {k: v for k, v in tool.items() if k != "type"}
            yield {"type": "function", "function": function}
        else:
            yield tool
