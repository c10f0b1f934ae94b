"""Sampler settings: what a request leaves open, the server fills in from the checkpoint's generation_config.json."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from suite.workload.check.interface import Finding, Subject
from suite.workload.session import SAMPLER_KEYS

_LINE = re.compile(r"Using default (?:chat |completion )?sampling params from (?:model|\S+): (\{.{0,2000}?\})\s*$")
_OVERRIDDEN = re.compile(r"default sampling parameters have been overridden by .{0,200}?: [`'\"]?(\{.{0,2000}?\})")
_NEUTRAL = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_VLLM_TEMPERATURE = 1.0
"""What vLLM uses where neither the request nor the checkpoint names one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effective:
    """The settings that a server uses."""

    settings: Mapping[str, Any]
    from_defaults: tuple[str, ...]
    """Those that the request did not name."""

    @property
    def greedy(self) -> bool:
        """Every step takes the most likely token of the model's own distribution."""
        return self.settings["temperature"] == 0 and not self.penalties

    @property
    def penalties(self) -> tuple[str, ...]:
        """Settings that change the distribution even at temperature 0."""
        return tuple(
            key for key, neutral in _NEUTRAL.items() if not math.isclose(self.settings.get(key, neutral), neutral)
        )

    @property
    def deterministic_run(self) -> str:
        """`allowed` or `refused`."""
        return "allowed" if self.greedy else "refused"


def defaults_in_log(lines: Iterable[str]) -> dict[str, Any]:
    """The defaults that vLLM says it took from a checkpoint; empty where no line says so."""
    found: dict[str, Any] = {}
    for line in lines:
        match = _LINE.search(line) or _OVERRIDDEN.search(line)
        if match is None:
            continue
        try:
            value = ast.literal_eval(match[1])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict):
            found = {str(key): item for key, item in value.items()}
    return found


def effective(request: Mapping[str, Any], defaults: Mapping[str, Any]) -> Effective:
    """What a server does with a request under these defaults."""
    settings: dict[str, Any] = {}
    filled: list[str] = []
    for key in SAMPLER_KEYS:
        if _is_number(request.get(key)):
            settings[key] = request[key]
        elif _is_number(defaults.get(key)):
            settings[key] = defaults[key]
            filled.append(key)
    if "temperature" not in settings:
        settings["temperature"] = _VLLM_TEMPERATURE
        filled.append("temperature")
    return Effective(settings=settings, from_defaults=tuple(filled))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_sampler(subject: Subject) -> Iterator[Finding]:
    """Whether the session's settings, as a server completes them, are greedy."""
    request = subject.session.sampling.model_dump(exclude_none=True)
    logged = defaults_in_log(subject.log)
    source = "the server's log" if logged else "generation_config.json"
    result = effective(request, logged or subject.generation_config)
    if result.greedy:
        return
    shown = ", ".join(f"{key} {result.settings[key]}" for key in SAMPLER_KEYS if key in result.settings)
    silent = [key for key in result.from_defaults if key == "temperature" or key in result.penalties]
    if silent and (logged or subject.generation_config or "temperature" not in request):
        given = (
            source
            if any(key in (logged or subject.generation_config) for key in silent)
            else "the server's own default"
        )
        yield Finding(
            code="sampler-defaults",
            severity="warning",
            where="sampling",
            message=f"the request leaves {', '.join(silent)} open, and {given} makes the run {shown}",
            effect="answers are drawn at random: repeats differ, and a survived or lost tool call says nothing. "
            "Captures with forced history are not affected.",
            hint="set `temperature: 0` and neutral penalties in the session's sampling, or serve with "
            "--generation-config vllm",
        )
    else:
        yield Finding(
            code="not-greedy",
            severity="warning",
            where="sampling",
            message=f"the session's own settings are not greedy: {shown}",
            effect="the recorded answers are one draw of many: the reference's best token differs from the "
            "recorded one "
            "at more positions, and a free replay is not repeatable.",
            hint="record again with temperature 0 if a replay is to be compared",
        )
