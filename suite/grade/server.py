"""A server's own reading of an output, set beside ours: what it took for calls, and why it may differ."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, RunFailed
from suite.files import strict_json
from suite.grade.tools import ToolSet, same_json
from suite.grade.verdict import Graded

VLLM_PARSERS = {
    "qwen_xml": "qwen3_coder",
    "hermes": "hermes",
    "mistral": "mistral",
    "llama3_json": "llama3_json",
    "glm": "glm45",
    "deepseek_v3": "deepseek_v3",
    "deepseek_v31": "deepseek_v31",
    "deepseek_v32": "deepseek_v32",
    "kimi_k2": "kimi_k2",
    "harmony": "openai",
}
"""Our formats and the names of vLLM's parsers (`--tool-call-parser`) for them."""

_LABELS = {"deepseek_v3": "V3", "deepseek_v31": "V3.1", "deepseek_v32": "V3.2"}
# Where each version's parser takes a call's name from, strict or not.
_NAME_READINGS = {
    "deepseek_v3": re.compile(r"<｜tool▁call▁begin｜>[^<]{0,256}<｜tool▁sep｜>([^\n]{0,256})\n"),
    "deepseek_v31": re.compile(r"<｜tool▁call▁begin｜>([^<]{0,256})<｜tool▁sep｜>"),
}
_ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCall:
    """A call as a server reported it."""

    name: str | None
    arguments: Any = None
    """The parsed JSON of its arguments, or their text where that is no JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinion:
    """A server's or parser's calls, or the error that it died of."""

    parser: str
    calls: tuple[ServerCall, ...] = ()
    error: str | None = None
    vllm: str | None = None

    def to_json(self, remark: str) -> dict[str, Any]:
        """With the remark of `differences`."""
        return {
            "parser": self.parser,
            "vllm": self.vllm,
            "error": self.error,
            "calls": [{"name": call.name, "arguments": call.arguments} for call in self.calls],
            "remark": remark,
        }


def server_calls(items: Sequence[Mapping[str, Any]]) -> tuple[ServerCall, ...]:
    """Calls from `{name, arguments}` or `{"function": {name, arguments}}`, arguments as JSON text or value."""
    calls = []
    for item in items:
        inner = item.get("function", item)
        arguments = inner.get("arguments")
        if isinstance(arguments, str):
            with suppress(InvalidInput):
                arguments = strict_json(arguments.encode("utf-8", errors="replace"), where="arguments")
        calls.append(ServerCall(name=inner.get("name"), arguments=arguments))
    return tuple(calls)


def differences(graded: Graded, calls: Sequence[ServerCall], *, text: str, tools: ToolSet | None = None) -> str:
    """How a server's reading differs from the text: `agrees`, or each difference with its likely cause."""
    found = []
    for ours, theirs in zip(graded.calls, calls, strict=False):
        if ours.name != theirs.name:
            strange = tools is None or theirs.name not in tools
            cause = _misreading(graded.format, theirs.name, text)
            name = "unknown name" if strange else f"another name, {theirs.name!r}"
            found.append(f"{name}; {cause}" if cause else f"{name}: {theirs.name!r}, the text has {ours.name!r}")
        elif not ours.parsed:
            found.append(f"the call is {ours.verdict} and the server took it all the same")
        elif not same_json(ours.arguments, theirs.arguments):
            found.append(_arguments(ours.arguments or {}, theirs.arguments))
    if len(calls) != len(graded.calls):
        found.append(f"calls found: {len(calls)} by the server, {len(graded.calls)} in the text")
    return "; ".join(found) or "agrees"


def _misreading(format: str | None, name: str | None, text: str) -> str | None:
    for other, reading in _NAME_READINGS.items():
        match = reading.search(text)
        if other != format and match and match[1].strip() == name and format in _LABELS:
            return f"the server reads {_LABELS[format]} text with a {_LABELS[other]} parser"
    return None


def _arguments(ours: Mapping[str, Any], theirs: Any) -> str:
    if not isinstance(theirs, Mapping):
        return "the server's arguments are no JSON object"
    both = {**ours, **theirs}
    keys = [key for key in both if not (key in ours and key in theirs and same_json(ours[key], theirs[key]))]
    shown = ", ".join(f"{key}: {theirs.get(key)!r} by the server, {ours.get(key)!r} in the text" for key in keys[:3])
    return f"arguments differ: {shown}"


def ask_vllm(
    python: Path,
    parser: str,
    text: str,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tokenizer: Path | None = None,
    timeout_seconds: float = 300,
) -> Opinion:
    """What vLLM's parser of that name makes of a text; runs in the stack's own interpreter, nothing is executed.

    Raises:
        RunFailed: the interpreter gave no answer.
    """
    request = {
        "parser": parser,
        "text": text,
        "tools": list(tools),
        "tokenizer": str(tokenizer) if tokenizer is not None else None,
    }
    environment = os.environ | {"PYTHONPATH": str(_ROOT), "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(
            [str(python), "-P", "-m", "suite.agent.lenient"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            env=environment,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError) as error:
        raise RunFailed(
            f"vLLM's parser {parser!r} gave no answer: {error}",
            where=str(python),
            hint="the interpreter must have vLLM; name it with SUITE_VLLM_PYTHON",
        ) from error
    return Opinion(
        parser=parser,
        calls=server_calls(answer.get("calls", [])),
        error=answer.get("error"),
        vllm=answer.get("vllm"),
    )
