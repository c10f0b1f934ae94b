"""Whether a stack's own `vllm serve --help=all` knows the flags of a command, and the values it gives them."""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.errors import InvalidInput
from suite.observer import Observer, SilentObserver
from suite.runtime.interface import AgentCall, Folder, Runtime
from suite.stack.launch import SERVER_MODULE

# A flag's line begins at column 2 and names its spellings, with a metavariable or `{a,b,c}` behind each.
_LINE = re.compile(r"^  (-[A-Za-z-].*)$", re.MULTILINE)
# Braces with an open end (`{a,b} or name registered in ...`) are examples, not a list.
_SPELLING = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)(?: (\{[^}]*\})(?=,|$| \[))?")
_MIN_FLAGS = 50


def known_flags(help_text: str) -> dict[str, tuple[str, ...]]:
    """Every flag of an argparse help text, with the values it takes; no values where any are taken.

    Raises:
        InvalidInput: too few flags: not the whole help of `vllm serve`.
    """
    flags: dict[str, tuple[str, ...]] = {}
    for line in _LINE.findall(help_text):
        # The description may follow on the same line, two spaces on.
        names = re.split(r"\s{2,}", line, maxsplit=1)[0]
        for name, choices in _SPELLING.findall(names):
            flags[name] = tuple(choices[1:-1].split(",")) if choices else ()
    if len(flags) < _MIN_FLAGS:
        raise InvalidInput(
            f"only {len(flags)} flags found: not the whole help of `vllm serve`",
            hint="use the output of `vllm serve --help=all`",
        )
    return flags


def flag_problems(arguments: Sequence[str], flags: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What is wrong with the flags of `vllm serve ARGUMENTS`, as sentences; empty if the stack knows them all.

    Args:
        arguments: The whole list, also with `docker run ...` before: only what follows `serve`, or the server's module,
            is looked at.
        flags: As from `known_flags`.
    """
    problems = []
    start = next((i for i, word in enumerate(arguments) if word in ("serve", SERVER_MODULE)), -1)
    words = list(arguments[start + 1 :])
    for index, word in enumerate(words):
        if not re.match(r"--?[A-Za-z]", word):
            continue
        name, _, value = word.partition("=")
        # vLLM reads `--a_b` as `--a-b`, and `--group.key value` as one key of a JSON value.
        name, _, key = name.partition(".")
        name = name.replace("_", "-")
        if name not in flags:
            near = difflib.get_close_matches(name, flags, n=1)
            problems.append(f"this vLLM has no {name}" + (f" (nearest: {near[0]})" if near else ""))
            continue
        value = value or (words[index + 1] if index + 1 < len(words) else "")
        if flags[name] and not key and value not in flags[name]:
            problems.append(f"{name} takes one of {', '.join(flags[name])}, not {value or 'nothing'}")
    return problems


def help_of(runtime: Runtime, observer: Observer | None = None) -> str:
    """The text of `vllm serve --help=all`, printed by the stack itself; needs no GPU.

    Raises:
        MissingPrerequisite: there is no such stack.
        RunFailed: its help does not come; the message says why.
    """
    with tempfile.TemporaryDirectory(prefix="suite-help-") as folder:
        out = Path(folder)
        call = AgentCall(
            command="serve-help",
            folders={"out": Folder(host=out, writable=True)},
            request=lambda paths: {"out": paths["out"]},
        )
        runtime.call(call, observer or SilentObserver())
        return (out / "serve-help.txt").read_text(encoding="utf-8")
