"""From loose chat messages to a session that keeps the schema's rules; whatever had to be changed for it is listed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.untyped import Json
from suite.workload.checks import RESERVED_TEMPLATE_KWARGS
from suite.workload.session import Sampling, Session, Tool, parse_session

_ROLES = {"developer": "system", "function": "tool", "model": "assistant", "human": "user", "gpt": "assistant"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """What was found, not yet checked."""

    messages: Sequence[Json]
    """Chat messages, roughly as the OpenAI API has them."""
    generator: str
    """Program that wrote it."""
    tools: Sequence[Json] | None = None
    """None: the source does not say which tools the model saw."""
    sampling: Json | None = None
    """None: the source does not say."""
    template_kwargs: Json = field(default_factory=dict)
    note: str = ""
    name: str | None = None
    """A name that the source gives it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A session made from a draft."""

    session: Session
    changes: tuple[str, ...]
    """What differs from the source, and where."""
    missing: tuple[str, ...]
    """What measuring needs and the source does not say."""
    places: tuple[int | None, ...]
    """For every message of the draft, its index in the session; None if it was left out."""


def build(draft: Draft, *, name: str, where: str) -> Built:
    """Make a session.

    Args:
        draft: What a source holds.
        name: The session's name.
        where: File and place, for errors.

    Raises:
        InvalidInput: the draft holds no user message, or something other than text.
    """
    builder = _Builder(draft, where)
    builder.run()
    value: Json = {
        "schema_version": 1,
        "name": name,
        "licence": "private",
        "provenance": {"kind": "recorded", "generator": draft.generator, "note": draft.note},
        "messages": builder.messages,
        "tools": builder.tools(),
        "sampling": builder.sampling(),
        "chat_template_kwargs": builder.kwargs(),
    }
    text = _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, allow_nan=False))
    if "\ufffd" in text and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        builder.changes.append("half characters (lone surrogates) were replaced by U+FFFD")
    session = parse_session(text.encode(), where=where)
    return Built(
        session=session, changes=tuple(builder.changes), missing=tuple(builder.missing()), places=tuple(builder.places)
    )


class _Builder:
    def __init__(self, draft: Draft, where: str) -> None:
        self._draft = draft
        self._where = where
        self.messages: list[Json] = []
        self.changes: list[str] = []
        self.places: list[int | None] = []
        self._open: dict[str, str] = {}
        """Calls without an answer: the source's id and the session's."""
        self._used: set[str] = set()
        self._call_message = 0

    def run(self) -> None:
        """Take the messages over, one by one, until one that the schema cannot hold."""
        for index, raw in enumerate(self._draft.messages):
            role = _ROLES.get(str(raw.get("role")), raw.get("role"))
            self.places.append(None)
            if role != "tool" and self._open:
                self._cut(f"a call of message {self._call_message} has no answer before message {index}")
                return
            if role == "system":
                self._system(index, raw)
            elif role == "user":
                self._add(index, {"role": "user", "content": self._content(index, raw)})
            elif role == "assistant":
                if not self._assistant(index, raw):
                    return
            elif role == "tool":
                self._tool(index, raw)
            else:
                self.changes.append(f"message {index} has the role {raw.get('role')!r} and was left out")
        if self._open:
            self._cut("its last call has no answer")

    def _cut(self, why: str) -> None:
        """End before the message whose calls stay open: an answer that nobody gave is not made up."""
        place = next(i for i, m in enumerate(self.messages) if m.get("tool_calls") and self._is_open(m))
        self.messages = self.messages[:place]
        self.places = [p if p is not None and p < place else None for p in self.places]
        rest = len(self._draft.messages) - sum(p is not None for p in self.places)
        self.changes.append(f"the session ends before message {self._call_message}, {rest} are left out: {why}")
        self._open = {}

    def _is_open(self, message: Json) -> bool:
        return any(call["id"] in self._open.values() for call in message["tool_calls"])

    def _add(self, index: int, message: Json) -> None:
        self.places[index] = len(self.messages)
        self.messages.append(message)

    def _content(self, index: int, raw: Json) -> str:
        content = raw.get("content")
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        texts: list[str] = []
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning", "redacted_thinking"):
                continue
            else:
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                raise InvalidInput(
                    f"a part of kind {kind!r}; sessions hold text only",
                    where=f"{self._where}: messages.{index}",
                    hint="leave out the conversation with the picture or file, or describe it in text",
                )
        return "\n".join(texts)

    def _system(self, index: int, raw: Json) -> None:
        text = self._content(index, raw)
        if not self.messages:
            self._add(index, {"role": "system", "content": text})
        elif all(m["role"] == "system" for m in self.messages):
            self.messages[0]["content"] += "\n\n" + text
            self.places[index] = 0
            self.changes.append(f"message {index}, one more system message at the start, was joined to the first")
        else:
            self._add(index, {"role": "user", "content": text})
            self.changes.append(
                f"message {index}, a later system message, is kept as the user's, which templates write otherwise"
            )

    def _assistant(self, index: int, raw: Json) -> bool:
        message: Json = {"role": "assistant"}
        content = self._content(index, raw)
        reasoning = raw.get("reasoning_content") or raw.get("reasoning")
        calls = [call for call in raw.get("tool_calls") or [] if isinstance(call, dict)]
        if isinstance(raw.get("function_call"), dict) and not calls:
            calls = [{"id": None, "function": raw["function_call"]}]
        if not any(m["role"] == "user" for m in self.messages):
            self.changes.append(f"message {index}, an answer before any question, was left out")
            return True
        if not content.strip() and not calls:
            self.changes.append(f"message {index}, an empty answer, was left out")
            return True
        if content or not calls:
            message["content"] = content
        if isinstance(reasoning, str) and reasoning:
            message["reasoning_content"] = reasoning
        made = []
        for call in calls:
            one = self._call(index, call)
            if one is None:
                self._open = {}
                rest = len(self._draft.messages) - index
                self.changes.append(f"the session ends before message {index}, {rest} are left out: {self._why}")
                return False
            made.append(one)
        if made:
            message["tool_calls"] = made
            self._call_message = index
        self._add(index, message)
        return True

    _why = ""

    def _call(self, index: int, raw: Json) -> Json | None:
        function = raw.get("function") if isinstance(raw.get("function"), dict) else raw
        assert isinstance(function, dict)
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not name:
            self._why = "its call names no function"
            return None
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
            self.changes.append(f"message {index}: arguments that were an object are kept as JSON text")
        elif arguments in (None, ""):
            arguments = "{}"
        if not isinstance(arguments, str):
            self._why = "the arguments of its call are no text"
            return None
        try:
            parsed = strict_json(arguments.encode(errors="replace"), where="arguments")
        except InvalidInput as error:
            self._why = f"the arguments of its call are broken ({error.message}), which a session cannot hold"
            return None
        if not isinstance(parsed, dict):
            self._why = "the arguments of its call are no JSON object"
            return None
        given = raw.get("id")
        if isinstance(given, str) and given and given not in self._used:
            own = given
        else:
            number = len(self._used)
            while (own := f"call_{number:05}") in self._used:
                number += 1
            if given is not None:
                self.changes.append(f"message {index}: the call id {given!r} was used before; it is {own} now")
        self._used.add(own)
        self._open[given if isinstance(given, str) and given not in self._open else own] = own
        return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _tool(self, index: int, raw: Json) -> None:
        given = raw.get("tool_call_id")
        key: str | None
        if isinstance(given, str) and given in self._open:
            key = given
        elif given is None and self._open:
            key = next(iter(self._open))  # sources without ids keep calls and answers in order
        else:
            self.changes.append(f"message {index}, an answer to no open call, was left out")
            return
        self._add(index, {"role": "tool", "tool_call_id": self._open.pop(key), "content": self._content(index, raw)})

    def tools(self) -> list[Json]:
        """Those that fit the schema."""
        kept: list[Json] = []
        names: set[str] = set()
        for index, raw in enumerate(self._draft.tools or []):
            function = raw.get("function") if isinstance(raw.get("function"), dict) else None
            if raw.get("type", "function") != "function" or function is None:
                self.changes.append(f"tool {index} is of the kind {raw.get('type')!r} and was left out")
                continue
            allowed = {
                k: v
                for k, v in function.items()
                if k in ("name", "description", "parameters", "strict") and v is not None
            }
            if extra := sorted(set(function) - {"name", "description", "parameters", "strict"}):
                self.changes.append(f"tool {index}: {', '.join(extra)} left out")
            tool = {"type": "function", "function": allowed}
            try:
                Tool.model_validate(tool)
            except ValidationError as error:
                self.changes.append(f"tool {index} is malformed and was left out ({error.errors()[0]['msg']})")
                continue
            if allowed["name"] in names:
                self.changes.append(f"the tool {allowed['name']!r} is defined twice; the first is kept")
                continue
            names.add(allowed["name"])
            kept.append(tool)
        return kept

    def sampling(self) -> Json:
        """Those settings that fit the schema."""
        kept: Json = {}
        for key, value in (self._draft.sampling or {}).items():
            if key == "stop" and isinstance(value, str):
                value = [value]
            if key in ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"):
                value = float(value) if type(value) is int else value
            try:
                Sampling.model_validate({key: value})
            except ValidationError:
                self.changes.append(f"the sampler setting {key}={value!r} was left out")
                continue
            kept[key] = value
        return kept

    def kwargs(self) -> Json:
        """Those that a template may get."""
        taken = RESERVED_TEMPLATE_KWARGS & set(self._draft.template_kwargs)
        if taken:
            self.changes.append(f"chat_template_kwargs {', '.join(sorted(taken))} left out: the renderer sets them")
        return {k: v for k, v in self._draft.template_kwargs.items() if k not in taken}

    def missing(self) -> list[str]:
        """What a person must add or settle before measuring."""
        result = []
        called = {call["function"]["name"] for m in self.messages for call in m.get("tool_calls", [])}
        if self._draft.tools is None:
            names = f" (called: {', '.join(sorted(called))})" if called else ""
            result.append(f"tools: the source does not say which tools the model saw{names}; add them under `tools`")
        if not self._draft.sampling or "temperature" not in self._draft.sampling:
            result.append("sampling: no temperature; a server then uses the model's generation_config.json")
        return result
