"""Command lines of llama-perplexity, taken apart: which command, which options, which line was lost."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from suite.errors import InvalidInput

_PROGRAM = re.compile(r"^(?:llama-)?perplexity(?:\.exe)?$")
_LIMIT_CHARACTERS = 1 << 16
_FLAGS = frozenset({"--kl-divergence", "--no-mmap", "--mlock", "--verbose", "--no-warmup"})
"""Options without a value, where the next word could be taken for one."""

_ENDS = frozenset({"|", "||", "&&", ";", "&"})

_CONTINUES = ("\\", "^", "`")
"""Line continuation of POSIX shells, cmd.exe and PowerShell."""

_LONG = {
    "-m": "--model",
    "-hf": "--hf-repo",
    "-f": "--file",
    "-bf": "--binary-file",
    "-c": "--ctx-size",
    "-ctk": "--cache-type-k",
    "-ctv": "--cache-type-v",
    "-b": "--batch-size",
    "-ub": "--ubatch-size",
    "-ngl": "--gpu-layers",
    "--n-gpu-layers": "--gpu-layers",
    "-fa": "--flash-attn",
    "-s": "--seed",
    "-t": "--threads",
    "--save-all-logits": "--kl-divergence-base",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One llama-perplexity command as a shell would run it."""

    options: dict[str, str]
    """Long name to value, the last one given; an empty string for an option without a value."""
    lost: tuple[str, ...] = ()
    """Lines of options after it that a shell would not take as part of it."""

    def has(self, name: str) -> bool:
        """Whether the option is given."""
        return name in self.options

    @property
    def model(self) -> str | None:
        """The model as named; None where none is."""
        return self.options.get("--model") or self.options.get("--hf-repo")


def parse_commands(text: str, *, where: str = "commands") -> tuple[Command, ...]:
    """All llama-perplexity commands in shell text, in order; comments and other commands are skipped.

    Raises:
        InvalidInput: no such command, or a quote that is not closed.
    """
    if len(text) > _LIMIT_CHARACTERS:
        raise InvalidInput(f"longer than {_LIMIT_CHARACTERS:,} characters", where=where)
    found: list[Command] = []
    for line, lost in _logical_lines(text):
        words = _words(line, where)
        starts = [i for i, word in enumerate(words) if _PROGRAM.match(re.split(r"[/\\]", word)[-1])]
        found += [
            Command(options=_options(words[start + 1 :]), lost=lost if start == starts[-1] else ()) for start in starts
        ]
    if not found:
        raise InvalidInput("holds no llama-perplexity command", where=where)
    return tuple(found)


def _logical_lines(text: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Lines joined at a continuation, each with the lines of options that follow it unjoined."""
    joined: list[tuple[str, list[str]]] = []
    open_line = False
    for raw in text.splitlines():
        stripped = raw.strip().removeprefix("$ ")
        continues = raw.endswith(_CONTINUES)  # a space after it ends the line for a shell
        body = (stripped[:-1] if stripped.endswith(_CONTINUES) else stripped).strip()
        if open_line:
            joined[-1] = (f"{joined[-1][0]} {body}", joined[-1][1])
        elif stripped and not stripped.startswith("#"):
            if stripped.startswith("-") and joined:
                joined[-1][1].append(body)
                continue  # a chain of lost lines stays lost
            joined.append((body, []))
        open_line = continues
    return [(line, tuple(lost)) for line, lost in joined]


def _words(line: str, where: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise InvalidInput(
            f"not shell text: {error}", where=where, hint="give the commands as they were typed"
        ) from error


def _options(words: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if word in _ENDS:
            break
        if not word.startswith("-") or re.fullmatch(r"-\d+", word):
            continue
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = _LONG.get(name, name)
        takes = not equals and name not in _FLAGS and i < len(words)
        if takes and (not words[i].startswith("-") or re.fullmatch(r"-\d+", words[i])):
            value = words[i]
            i += 1
        options[name] = value
    return options
