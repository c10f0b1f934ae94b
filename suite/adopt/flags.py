"""The arguments of `vllm serve` as names and values, under the spellings that its parser accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.errors import InvalidInput

_SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-q": "quantization",
    "-cc": "compilation_config",
    "-ac": "attention_config",
    "-sc": "speculative_config",
    "-O": "optimization_level",
    "-n": "nnodes",
    "-r": "node_rank",
}
_JSON = frozenset(
    {"compilation_config", "attention_config", "speculative_config", "kernel_config", "hf_overrides", "mamba_config"}
)
# Switches met in real commands: a word behind one of them is the model, not its value.
_SWITCHES = frozenset(
    {
        "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "enable_auto_tool_choice",
        "trust_remote_code", "language_model_only", "disable_custom_all_reduce", "enable_expert_parallel",
        "disable_log_stats", "disable_log_requests", "enable_log_requests", "async_scheduling", "enable_sleep_mode",
        "skip_mm_profiling", "enable_flashinfer_autotune", "kv_sharing_fast_prefill", "calculate_kv_scales",
        "enable_lora", "disable_hybrid_kv_cache_manager", "disable_frontend_multiprocessing", "enable_log_outputs",
    }
)  # fmt: skip
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """What `vllm serve` was told."""

    model: str | None
    values: dict[str, Any] = field(default_factory=dict)
    """Name with underscores -> True or False for a switch, a mapping for JSON, a tuple for several, else text."""


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Read the arguments. Which flags exist is not judged here.

    Raises:
        InvalidInput: a flag that takes JSON has none.
    """
    model: str | None = None
    values: dict[str, Any] = {}
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if not _is_flag(word):
            model = word if model is None else model
            continue
        name, equals, value = word.partition("=")
        following = []
        if not equals:
            while index < len(arguments) and not _is_flag(arguments[index]):
                following.append(arguments[index])
                index += 1
        given = [value] if equals else following
        key, _, inner = _key(name).partition(".")
        if key == "model" and given:
            model = given[0]
        elif inner:
            nested = values.setdefault(key, {})
            if isinstance(nested, dict):
                _nest(nested, inner.split("."), _scalar(given[0]) if given else True)
        else:
            if key.removeprefix("no_") in _SWITCHES and not equals and given:
                model, given = model or given[0], []
            values[key] = _value(key, given)
    for key in [key for key in values if key.startswith("no_") and values[key] is True]:
        del values[key]
        values[key.removeprefix("no_")] = False
    return Flags(model=model, values=values)


def whole_number(value: Any) -> int | None:
    """A count as vLLM reads it, also `32k` (thousands) and `32K` (1,024s); None if it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG])?", value.replace("_", ""))
    if match is None:
        return None
    number = float(match[1]) * _UNITS.get(match[2] or "", 1)
    return int(number) if number == int(number) else None


def _is_flag(word: str) -> bool:
    return re.match(r"--?[A-Za-z]", word) is not None


def _key(name: str) -> str:
    head, dot, tail = name.partition(".")
    if head.startswith("--"):
        return head[2:].replace("-", "_") + dot + tail
    for short, long in _SHORT.items():
        if head == short:
            return long + dot + tail
    return head.lstrip("-") + dot + tail


def _value(key: str, given: list[str]) -> Any:
    if not given:
        return True
    if len(given) > 1:
        return tuple(given)
    if key in _JSON:
        try:
            found = json.loads(given[0])
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"--{key.replace('_', '-')} is not JSON: {error}", where="command", hint="put the JSON in single quotes"
            ) from error
        if not isinstance(found, dict):
            raise InvalidInput(f"--{key.replace('_', '-')} is not a JSON object", where="command")
        return found
    return given[0]


def _nest(node: dict[str, Any], path: list[str], value: Any) -> None:
    *parents, last = path
    for name in parents:
        inner = node.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        node = inner
    node[last] = value


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
