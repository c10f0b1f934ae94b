"""Speeds of stacks at one exact context, from `site/speeds/*.json`: what stands beside flips where a person picks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.bundle.schema import Name
from suite.files import pretty_json
from suite.records import parse_strictly

SCHEMA_VERSION = 1
MOST_STACKS = 200

Text = Annotated[str, Field(min_length=1, max_length=300)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Tokens = Annotated[int, Field(ge=1, le=1 << 40)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Round(_Strict):
    """One timed request, by the engine's own clock."""

    prefill_seconds: Seconds
    """From the first step to the first token."""
    decode_seconds: Seconds
    """From the first token to the last."""


class StackSpeed(_Strict):
    """One stack; either its rounds, or why there are none."""

    stack: Name
    """Name of its manifest, which is that of its bundles."""
    backend: Annotated[str, Field(max_length=100)]
    kv_cache_dtype: Text
    weights: Text
    is_reference: bool
    rounds: Annotated[tuple[Round, ...], Field(max_length=1000)] = ()
    kv_tokens: Tokens | None = None
    """Tokens that the KV cache holds."""
    error: Annotated[str, Field(max_length=300)] = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.rounds) == bool(self.error):
            raise ValueError(f"{self.stack}: either rounds, or an error")
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Tokens a second over the rounds of one stack."""

    lowest: float
    median: float
    highest: float


def rate_of(rates: Iterable[float]) -> Rate | None:
    """The spread of some rounds; None where there are none."""
    found = sorted(rates)
    return Rate(lowest=found[0], median=median(found), highest=found[-1]) if found else None


class Speeds(_Strict):
    """One table: stacks of one GPU and model, one request at a time, the same prompt."""

    schema_version: Literal[1]
    gpu: Text
    """As manifests name it."""
    model: Text
    created: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    engine: Text
    """For instance `vLLM 0.25.0`."""
    eager: bool
    """Without graphs."""
    prompt_tokens: Tokens
    decoded_tokens: Annotated[int, Field(ge=2, le=1 << 30)]
    stacks: Annotated[tuple[StackSpeed, ...], Field(min_length=1, max_length=MOST_STACKS)]

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = [stack.stack for stack in self.stacks]
        if len(set(names)) != len(names):
            raise ValueError("a stack stands twice")
        return self

    @property
    def context_tokens(self) -> int:
        """Prompt and decoded tokens together."""
        return self.prompt_tokens + self.decoded_tokens

    @property
    def num_rounds(self) -> int:
        """The fewest that any stack has."""
        return min((len(stack.rounds) for stack in self.stacks if stack.rounds), default=0)

    def prefill(self, stack: StackSpeed) -> Rate | None:
        """Prompt tokens a second; None where it did not run."""
        return rate_of(self.prompt_tokens / one.prefill_seconds for one in stack.rounds)

    def decode(self, stack: StackSpeed) -> Rate | None:
        """Tokens a second after the first; None where it did not run."""
        return rate_of((self.decoded_tokens - 1) / one.decode_seconds for one in stack.rounds)

    def to_bytes(self) -> bytes:
        """The content of its file."""
        return pretty_json(self.model_dump(mode="json"))


def parse_speeds(data: bytes, *, where: str) -> Speeds:
    """Read one table.

    Raises:
        InvalidInput: not strict JSON, a newer schema, or no such table.
    """
    return parse_strictly(Speeds, data, where=where, newest=SCHEMA_VERSION, what="not a table of speeds: ")


def load_speeds(folder: Path) -> tuple[Speeds, ...]:
    """All tables of a folder, in order of their files' names; none where it is absent.

    Raises:
        InvalidInput: as `parse_speeds`.
    """
    return tuple(parse_speeds(path.read_bytes(), where=path.name) for path in sorted(folder.glob("*.json")))
