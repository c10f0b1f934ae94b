"""The session file: one agent run as OpenAI messages, with what is needed to measure with it and to publish it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.errors import InvalidInput
from suite.files import canonical_json, read_json, sha256_bytes, strict_json
from suite.records import refuse_newer

SCHEMA_VERSION = 1
MAX_SESSION_BYTES = 64 * 1024 * 1024


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FunctionCall(_Model):
    """Name and arguments of one call; the arguments are JSON text of an object, as the OpenAI API has them."""

    name: str = Field(min_length=1)
    arguments: str


class ToolCall(_Model):
    """One call that the assistant makes."""

    id: str = Field(min_length=1)
    type: Literal["function"] = "function"
    function: FunctionCall


class SystemMessage(_Model):
    """Instructions; only as first message."""

    role: Literal["system"]
    content: str


class UserMessage(_Model):
    """What the person says."""

    role: Literal["user"]
    content: str


class AssistantMessage(_Model):
    """What the model wrote: text, reasoning, calls; at least one of them."""

    role: Literal["assistant"]
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(_Model):
    """The answer to one call."""

    role: Literal["tool"]
    tool_call_id: str
    content: str


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class FunctionSchema(_Model):
    """A tool's name, description and JSON Schema of its arguments."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    strict: bool | None = None


class Tool(_Model):
    """One tool definition."""

    type: Literal["function"] = "function"
    function: FunctionSchema


SAMPLER_KEYS = (
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
)  # fmt: skip
"""Settings of `Sampling` that decide which token is drawn."""


class Sampling(_Model):
    """The sampler settings that the session was or should be run with; absent means not known."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = None
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    seed: int | None = None
    stop: list[str] | None = None
    tool_choice: str | dict[str, Any] | None = None


class Scrubbed(_Model):
    """That private values were replaced, and by what: scrubbing again leaves these alone."""

    generator: str = Field(min_length=1)
    pseudonyms: list[str]
    """Words of the text that stand for others; of a long one its beginning and length."""


class Provenance(_Model):
    """Where the text comes from."""

    kind: Literal["synthetic", "recorded"]
    generator: str = Field(min_length=1)
    """Program and version that wrote or recorded it."""
    seed: int | None = None
    episodes: list[str] | None = None
    """For the lab: the scenarios in order, which with the seed are enough to write the session again."""
    note: str = ""
    scrubbed: Scrubbed | None = None


class RecordedTokens(_Model):
    """The token ids that a server really used for the whole session."""

    token_ids: list[Annotated[int, Field(ge=0, le=2**31 - 1)]] = Field(min_length=1)
    tokenizer_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    chat_template_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class RightCommand(_Model):
    """The call that is right at a step; other right answers may exist."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any]


class Mark(_Model):
    """What an author knows about one message."""

    message: int = Field(ge=0)
    """Index into `messages`."""
    must_survive: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Literals of that message that a good stack reproduces byte for byte."""
    right_commands: list[RightCommand] = Field(default_factory=list)


class Session(_Model):
    """A whole session, schema version 1."""

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")
    licence: str = Field(min_length=1)
    """SPDX expression, or `private`."""
    provenance: Provenance
    messages: list[Message] = Field(min_length=1)
    tools: list[Tool] = Field(default_factory=list)
    sampling: Sampling = Field(default_factory=Sampling)
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    recorded: RecordedTokens | None = None
    marks: list[Mark] = Field(default_factory=list)

    def to_json(self) -> bytes:
        """The file's bytes, absent values left out. Keys keep their order, which templates write into the text."""
        value = self.model_dump(mode="json", exclude_none=True)
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"

    def digest(self) -> str:
        """SHA-256 of the session's canonical JSON.

        Tools and template arguments enter it as JSON text in their own order, since that order reaches the model;
        numbers with a fraction enter it as decimal text.
        """
        value = self.model_dump(mode="json", exclude_none=True)
        for key in ("tools", "chat_template_kwargs"):
            value[key] = json.dumps(value[key], ensure_ascii=False)
        return sha256_bytes(canonical_json(_without_floats(value)))


def load_session(path: Path) -> Session:
    """Read a session file, or `session.json` of a folder.

    Raises:
        InvalidInput: unreadable, too large, not strict JSON, or not a session; says which key or message.
    """
    if path.is_dir():
        if not (path / "session.json").is_file():
            names = sorted(item.name for item in path.glob("session*.json"))
            hint = f"name one of: {', '.join(names)}" if names else "give the path of a session file"
            raise InvalidInput("the folder holds no session.json", where=str(path), hint=hint)
        path = path / "session.json"
    if path.is_file() and path.stat().st_size > MAX_SESSION_BYTES:
        raise InvalidInput(
            f"larger than {MAX_SESSION_BYTES >> 20} MiB", where=str(path), hint="split it into several sessions"
        )
    return _session(read_json(path), where=str(path))


def parse_session(data: bytes, *, where: str = "session") -> Session:
    """The same from bytes."""
    return _session(strict_json(data, where=where), where=where)


def _session(value: Any, *, where: str) -> Session:
    if not isinstance(value, dict):
        raise InvalidInput("a session is a JSON object", where=where)
    refuse_newer(value, newest=SCHEMA_VERSION, where=where)
    try:
        session = Session.model_validate(value)
    except ValidationError as error:
        raise _explain(error, where) from error
    from suite.workload.checks import check_session

    check_session(session, where=where)
    return session


def _explain(error: ValidationError, where: str) -> InvalidInput:
    first = error.errors(include_url=False)[0]
    # The discriminator's tag stands in the location of nested errors; it is no key of the file.
    keys = [part for part in first["loc"] if part not in ("system", "user", "assistant", "tool")]
    place = ".".join(str(part) for part in keys) or "session"
    hint = None
    if first["type"] == "union_tag_invalid":
        hint = "roles are system, user, assistant and tool"
    elif first["type"] == "extra_forbidden":
        hint = "remove the key, or correct its spelling"
    elif place.endswith("arguments") and first["type"] == "string_type":
        hint = 'arguments are JSON text, for instance "{\\"device\\": \\"r1\\"}", not an object'
    more = error.error_count() - 1
    message = first["msg"] + (f" (and {more} more)" if more else "")
    return InvalidInput(message, where=f"{where}: {place}", hint=hint)


def _without_floats(value: Any) -> Any:
    if isinstance(value, float):
        return re.sub(r"\.0$", "", repr(value))
    if isinstance(value, dict):
        return {key: _without_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_floats(item) for item in value]
    return value
