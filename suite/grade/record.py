"""Graded calls as files keep them: what `suite grade --json` prints, read back strictly."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from suite.files import canonical_json
from suite.grade.verdict import GradedCall

VerdictName = Literal[
    "engine error",
    "truncated",
    "not closed",
    "not parsed",
    "call in reasoning",
    "unknown name",
    "schema invalid",
    "literals changed",
    "wrong command",
    "ok",
    "no call",
]
"""The values of `suite.grade.verdict.Verdict`."""

Text = Annotated[str, Field(max_length=4_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class LiteralsRecord(_Strict):
    """Literals of a call; see `suite.grade.literals`."""

    intact: tuple[Text, ...]
    missing: tuple[Text, ...]
    mutated: tuple[tuple[Text, Text], ...]
    """From the likeliest source to what stands there."""
    invented: tuple[Text, ...]


class FaultRecord(_Strict):
    """Where a call first goes wrong."""

    position: Annotated[int, Field(ge=0)]
    """In characters from the start of the graded text."""
    message: Text


class CallRecord(_Strict):
    """One graded call."""

    closed: bool
    parsed: bool
    name: Text | None
    known_name: bool | None
    schema_valid: bool | None
    arguments: dict[str, JsonValue] | None
    literals: LiteralsRecord
    verdict: VerdictName
    first_fault: FaultRecord | None


def call_record(call: GradedCall) -> CallRecord:
    """The record of a graded call."""
    return CallRecord.model_validate_json(canonical_json(call.to_json()))
