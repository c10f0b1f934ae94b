"""What is wrong with a pair of llama-perplexity commands before hours are spent on them.

The tool reads a base file with `--kl-divergence` and writes one without it, so a flag in the wrong command swaps the
two roles: the base is measured against an old file, and the candidate overwrites it. The tool itself does not notice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from suite.llama.commands import Command, parse_commands

_FULL_PRECISION = re.compile(r"(?<![A-Za-z0-9])(BF16|F16|FP16|F32|FP32)(?![A-Za-z0-9])", re.IGNORECASE)
_QUANTISED = re.compile(r"(?<![A-Za-z0-9])(I?Q\d_[A-Z0-9_]+|TQ\d_\d|MXFP4|NVFP4|Q\d)(?![A-Za-z0-9])", re.IGNORECASE)
_PLAIN_CACHE = frozenset({"f32", "f16", "bf16"})
_CACHE = ("--cache-type-k", "--cache-type-v")
_ROWS = {"--file": "text", "--binary-file": "text", "--ctx-size": "context", "--chunks": "number of chunks"}
_NOT_A_FACTOR = frozenset(
    {"--model", "--hf-repo", "--kl-divergence", "--kl-divergence-base", "--threads", "--seed", "--verbose", *_ROWS}
)

Kind = Literal[
    "base_reads",
    "base_not_written",
    "base_overwritten",
    "base_not_read",
    "other_base_file",
    "candidate_full_precision",
    "same_model",
    "base_quantised",
    "base_kv_quantised",
    "rows_differ",
    "setting_differs",
    "line_lost",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault."""

    kind: Kind
    severity: Literal["error", "warning"]
    """An error makes the result wrong; a warning makes it something else than it seems."""
    message: str
    hint: str


def lint_text(text: str, *, where: str = "commands") -> tuple[Finding, ...]:
    """Findings for shell text: the first llama-perplexity command is the base's, every other a candidate's.

    Raises:
        InvalidInput: there is no such command in it.
    """
    base, *candidates = parse_commands(text, where=where)
    return lint_commands(base, candidates)


def lint_commands(base: Command, candidates: Sequence[Command]) -> tuple[Finding, ...]:
    """Findings for one base command and its candidates, each stated once."""
    found = _lint_base(base)
    for candidate in candidates:
        found += _lint_candidate(base, candidate)
    for lost in (line for command in (base, *candidates) for line in command.lost):
        found.append(
            Finding(
                kind="line_lost",
                severity="error",
                message="a line continuation is missing",
                hint=f"`{lost}` was not part of the command: end the line before it with a backslash and nothing after",
            )
        )
    return tuple(dict.fromkeys(found))


def _lint_base(base: Command) -> list[Finding]:
    found = []
    if base.has("--kl-divergence"):
        found.append(
            Finding(
                kind="base_reads",
                severity="error",
                message="base command has --kl-divergence, which reads the base file instead of writing it",
                hint="take --kl-divergence out of the base command",
            )
        )
    if not base.options.get("--kl-divergence-base"):
        found.append(
            Finding(
                kind="base_not_written",
                severity="error",
                message="base command names no --kl-divergence-base file, so it writes none",
                hint="add --kl-divergence-base FILE",
            )
        )
    quantised = [name for name in _CACHE if base.options.get(name, "f16").lower() not in _PLAIN_CACHE]
    if quantised:
        told = ", ".join(f"{name} {base.options[name]}" for name in quantised)
        found.append(
            Finding(
                kind="base_kv_quantised",
                severity="error",
                message="base has a quantised KV cache",
                hint=f"the reference carries the damage of {told}: take it out, or give it to the candidate",
            )
        )
    if name := _QUANTISED.search(base.model or ""):
        found.append(
            Finding(
                kind="base_quantised",
                severity="warning",
                message=f"base names a quantised file ({name[1]})",
                hint="the numbers then speak of the distance to that file, not to the original model",
            )
        )
    return found


def _lint_candidate(base: Command, candidate: Command) -> list[Finding]:
    found = []
    if not candidate.has("--kl-divergence"):
        written = bool(candidate.options.get("--kl-divergence-base"))
        found.append(
            Finding(
                kind="base_overwritten" if written else "base_not_read",
                severity="error",
                message="candidate command lacks --kl-divergence, so it "
                + ("overwrites the base" if written else "compares nothing"),
                hint=("the two roles are swapped: " if base.has("--kl-divergence") else "")
                + "give --kl-divergence to the candidate, and write the base file again",
            )
        )
    ours, theirs = (command.options.get("--kl-divergence-base") for command in (base, candidate))
    if candidate.has("--kl-divergence") and not theirs:
        found.append(
            Finding(
                kind="base_not_read",
                severity="error",
                message="candidate command names no --kl-divergence-base file",
                hint="name the file that the base command writes",
            )
        )
    elif ours and theirs and ours != theirs:
        found.append(
            Finding(
                kind="other_base_file",
                severity="error",
                message="candidate reads another base file than the base command writes",
                hint=f"the base writes {ours}, the candidate names {theirs}",
            )
        )
    return found + _lint_models(base, candidate) + _lint_settings(base, candidate)


def _lint_models(base: Command, candidate: Command) -> list[Finding]:
    same = base.model is not None and base.model == candidate.model
    hint = "it is the base's own model: " if same else ""
    if name := _FULL_PRECISION.search(candidate.model or ""):
        return [
            Finding(
                kind="candidate_full_precision",
                severity="error" if same or _QUANTISED.search(base.model or "") else "warning",
                message=f"candidate names the {name[1].upper()} file",
                hint=f"{hint}give the candidate the quantised file, and the base the {name[1].upper()} one",
            )
        ]
    if not same:
        return []
    return [
        Finding(
            kind="same_model",
            severity="warning",
            message="both commands name the same model",
            hint="right only if another setting is what you measure",
        )
    ]


def _lint_settings(base: Command, candidate: Command) -> list[Finding]:
    found = []
    for name, what in _ROWS.items():
        ours, theirs = base.options.get(name), candidate.options.get(name)
        if ours != theirs:
            found.append(
                Finding(
                    kind="rows_differ",
                    severity="error",
                    message=f"the commands differ in {what} ({name} {ours or 'absent'} and {theirs or 'absent'})",
                    hint="the candidate takes tokens and context from the base file: make the two commands agree",
                )
            )
    names = [name for name in base.options | candidate.options if name not in _NOT_A_FACTOR]
    for name in names:
        ours, theirs = base.options.get(name), candidate.options.get(name)
        if ours == theirs or (name in _CACHE and theirs is None):  # the base's own cache has its own finding
            continue
        found.append(
            Finding(
                kind="setting_differs",
                severity="warning",
                message=f"the commands also differ in {name} ({ours or 'absent'} and {theirs or 'absent'})",
                hint="a second factor: the difference is then not the model file's alone",
            )
        )
    return found
