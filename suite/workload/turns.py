"""The file beside a recorded session: what the server did at each of the assistant's turns, with its own token ids.

It holds the session's text in the form of token ids, so that it is as private as the session; scrubbing does not carry
it over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from suite.files import canonical_json, read_json
from suite.records import refuse_newer, validated

SCHEMA_VERSION = 1
SUFFIX = ".turns.json"

TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RecordedTurn(_Model):
    """One answer of the server."""

    message: int = Field(ge=0)
    """Index of the assistant message in the session."""
    exchange: str
    """Journal and number there."""
    finish_reason: str | None = None
    changed: bool = False
    """The client sent another text back than the server had answered."""
    attempts: int = Field(ge=1)
    """How often this turn was asked for."""
    prompt_token_ids: list[TokenId] | None = None
    """What the server read; None where it did not say."""
    output_token_ids: list[TokenId] | None = None
    """What it wrote, the end-of-turn token included."""
    usage: dict[str, Any] | None = None
    first_byte_ms: float | None = None
    last_byte_ms: float | None = None
    sampling: dict[str, Any] = Field(default_factory=dict)
    """Sampler settings of this request."""


class RecordedTurns(_Model):
    """All turns of one session, schema version 1."""

    schema_version: Literal[1] = 1
    session: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Digest of the session that they belong to."""
    model: str | None = None
    """As the requests named it."""
    endpoint: str
    turns: list[RecordedTurn]

    def to_json(self) -> bytes:
        """The file's bytes."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))


def turns_file(session: Path) -> Path:
    """Where the turns of a session file lie."""
    return session.with_name(session.name.removesuffix(".json") + SUFFIX)


def load_turns(path: Path) -> RecordedTurns:
    """Read such a file.

    Raises:
        InvalidInput: unreadable, not strict JSON, of a newer version, or not such a file.
    """
    value = read_json(path)
    refuse_newer(value, newest=SCHEMA_VERSION, where=str(path))
    return validated(RecordedTurns, canonical_json(value), where=str(path), hint="record the session again")
