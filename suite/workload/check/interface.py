"""One thing that a check found, and what it looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from suite.workload.rendered import Rendered
from suite.workload.session import Session
from suite.workload.template import Template
from suite.workload.tokenizer import Tokenizer
from suite.workload.turns import RecordedTurns

Severity = Literal["error", "warning", "note"]
"""`error`: a measurement of this would not be what it says. `warning`: it may not be. `note`: good to know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What is wrong, where, and what it does to a measurement."""

    code: str
    """Short and stable: `doubled-bos`."""
    severity: Severity
    where: str
    message: str
    effect: str
    """What it does to a measurement."""
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Everything that checks look at."""

    session: Session
    tokenizer: Tokenizer
    template: Template
    """The template in use, applied to the session."""
    own_template: str | None
    """The checkpoint's own template; None where it has none."""
    rendered: Rendered | None
    """None where the session cannot be rendered with exact spans."""
    turns: RecordedTurns | None = None
    generation_config: dict[str, Any] = field(default_factory=dict)
    """The checkpoint's `generation_config.json`."""
    config: dict[str, Any] = field(default_factory=dict)
    """The checkpoint's `config.json`."""
    log: tuple[str, ...] = ()
    """Lines of the server's log."""
    context_tokens: int | None = None
    """The server's context length, where it is known."""


class Check(Protocol):
    """One question about a session."""

    def __call__(self, subject: Subject) -> Iterator[Finding]:
        """Everything found; nothing where all is well or the question does not arise."""
