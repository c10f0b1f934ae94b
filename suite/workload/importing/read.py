"""From a file of some other program to sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.untyped import json_or_none
from suite.workload.importing.anthropic_json import AnthropicJson
from suite.workload.importing.codex import Rollout
from suite.workload.importing.draft import Built, build
from suite.workload.importing.interface import Importer, Source
from suite.workload.importing.open_webui import OpenWebUi
from suite.workload.importing.openai_json import OpenAIJson
from suite.workload.importing.sharegpt import ShareGpt
from suite.workload.importing.trajectory import Trajectory
from suite.workload.importing.vllm_log import VllmLog

MAX_SOURCE_BYTES = 512 * 1024 * 1024

IMPORTERS: tuple[Importer, ...] = (
    VllmLog(),
    ShareGpt(),
    OpenWebUi(),
    AnthropicJson(),
    Rollout(),
    Trajectory(),
    OpenAIJson(),
)
"""In the order in which they are asked: the more special first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """The sessions of one file."""

    format: str
    built: tuple[Built, ...]
    refused: tuple[str, ...]
    """Conversations that no session could be made of, and lines that are no JSON objects, and why."""


def import_file(path: Path, *, format: str | None = None, name: str | None = None) -> Imported:
    """Read a file.

    Args:
        path: JSON, JSONL or a log.
        format: Name of an importer; None to find out.
        name: Name of the session; with several, a number is added. None: from the source.

    Raises:
        InvalidInput: unreadable, of no known format, or without a conversation.
    """
    source = read_source(path)
    importer = _find(source, format)
    drafts = list(importer.read(source))
    built: list[Built] = []
    refused: list[str] = []
    for number, draft in enumerate(drafts, 1):
        own = _slug(name or draft.name or path.stem)
        own = own if len(drafts) == 1 else f"{own}-{number}"
        try:
            built.append(build(draft, name=own, where=f"{path}: conversation {number}"))
        except InvalidInput as error:
            refused.append(f"conversation {number}: {error.message} ({error.where})")
    if not built:
        raise InvalidInput("no session could be made of it", where=str(path), hint="; ".join(refused[:3]) or None)
    if source.lines and not isinstance(importer, VllmLog):
        refused += _unread(source.text)
    return Imported(format=importer.name, built=tuple(built), refused=tuple(refused))


def read_source(path: Path) -> Source:
    """Read a file once, as text, JSON and JSONL.

    Raises:
        InvalidInput: unreadable, too large or not UTF-8.
    """
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise InvalidInput(f"larger than {MAX_SOURCE_BYTES >> 20} MiB", where=str(path), hint="split it")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("not UTF-8 text", where=str(path)) from error
    value = json_or_none(text)
    return Source(path=path, text=text, value=value, lines=() if value is not None else tuple(_lines(text)))


def _lines(text: str) -> Iterator[dict[str, Any]]:
    # `splitlines` would also cut at U+2028 and the like, which JSON may hold as they are.
    for line in text.split("\n"):
        if line.lstrip().startswith("{"):
            value = json_or_none(line)
            if isinstance(value, dict):
                yield value


def _unread(text: str) -> list[str]:
    lines = enumerate(text.split("\n"), 1)
    bad = [number for number, line in lines if line.strip() and not isinstance(json_or_none(line), dict)]
    return [f"{len(bad)} of the lines, no JSON objects; the first is line {bad[0]}"] if bad else []


def _find(source: Source, format: str | None) -> Importer:
    names = ", ".join(importer.name for importer in IMPORTERS)
    if format is not None:
        chosen = next((importer for importer in IMPORTERS if importer.name == format), None)
        if chosen is None:
            raise InvalidInput(f"no such format {format!r}", where="--format", hint=f"known are {names}")
        return chosen
    found = next((importer for importer in IMPORTERS if importer.recognises(source)), None)
    if found is None:
        raise InvalidInput("of no known format", where=str(source.path), hint=f"name it with --format: {names}")
    return found


def _slug(name: str) -> str:
    slug = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")
    return slug[:70] or "imported"
