"""The journal: one file for each start of the proxy, to which every event is appended before it is passed on.

Each line is one JSON object and is handed to the operating system by one write, so that a killed process loses nothing
that it had passed on. The file and its folder are readable by their owner alone. A power cut may take the last seconds.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json

SCHEMA_VERSION = 1
_NAME = re.compile(r"journal-(\d{4,})\.jsonl")


class Journal:
    """An open journal. Events of many exchanges may interleave; those of one are numbered and in order."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.failure: str | None = None
        """Why nothing more is written (a full disk); traffic passes on regardless."""

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any]) -> Journal:
        """Start the next journal of `folder`, with `header` in its first line.

        Raises:
            OSError: the folder cannot be made or written.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = max((int(match[1]) for match in map(_match, folder.iterdir()) if match), default=0)
        while True:
            number += 1
            path = folder / f"journal-{number:04}.jsonl"
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            except FileExistsError:  # another proxy took this number
                continue
            journal = cls(path, descriptor)
            journal.write({"event": "open", "schema_version": SCHEMA_VERSION, **header})
            return journal

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one event. Does not raise: `failure` tells that the disk took no more."""
        if self.failure is not None:
            return
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            self.failure = error.strerror or str(error)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def encode_body(data: bytes) -> dict[str, str]:
    """`{"text": …}` for UTF-8, else `{"base64": …}`."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decode_body(event: Mapping[str, Any]) -> bytes:
    """The bytes of an event.

    Raises:
        ValueError: neither form.
    """
    if isinstance(event.get("text"), str):
        return str(event["text"]).encode()
    if isinstance(event.get("base64"), str):
        try:
            return base64.b64decode(event["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError("not base64") from error
    raise ValueError("an event without a body")


@dataclass(kw_only=True, slots=True)
class RawExchange:
    """One request and what came back, as bytes."""

    journal: str
    number: int
    """From 1, in the order in which requests were complete."""
    started: str
    """UTC, ISO 8601."""
    path: str
    request_headers: Mapping[str, str]
    request_body: bytes
    status: int | None = None
    response_headers: Mapping[str, str] = field(default_factory=dict)
    response_body: bytes = b""
    held_answer: Any = None
    """The parsed answer, where the bytes were not kept because the client's own API key stood in the request."""
    first_byte_ms: float | None = None
    last_byte_ms: float | None = None
    how: str | None = None
    """`complete`, `client_closed`, `upstream_closed`, `upstream_unreachable`; None: the proxy died meanwhile."""
    error: str | None = None
    problems: list[str] = field(default_factory=list)
    num_chunks: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """All journals of one folder, in order."""

    exchanges: tuple[RawExchange, ...]
    problems: tuple[str, ...]


def read_journals(folder: Path) -> Recording:
    """Read every journal of `folder`; a line that a kill cut off at the end is noted, not fatal.

    Raises:
        InvalidInput: no journal there, one of a newer version, or one damaged before its last line.
    """
    files = sorted((path for path in folder.iterdir() if _match(path)), key=lambda p: (len(p.name), p.name)) if (
        folder.is_dir()
    ) else []  # fmt: skip
    if not files:
        raise InvalidInput("no journal here", where=str(folder), hint="record first: suite record --upstream URL --out")
    exchanges: list[RawExchange] = []
    problems: list[str] = []
    for path in files:
        open_exchanges: dict[int, RawExchange] = {}
        for event in _events(path, problems):
            _apply(event, path, open_exchanges)
        exchanges.extend(open_exchanges.values())
    return Recording(exchanges=tuple(exchanges), problems=tuple(problems))


def _match(path: Path) -> re.Match[str] | None:
    return _NAME.fullmatch(path.name)


def _events(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            where = f"{path}: line {number}"
            if not line.endswith(b"\n"):
                problems.append(f"{path.name}: its last line was cut off while being written")
                return
            event = strict_json(line, where=where)
            if not isinstance(event, dict):
                raise InvalidInput("not an event", where=where, hint="the journal was damaged after it was written")
            if number == 1:
                version = event.get("schema_version")
                if event.get("event") != "open" or type(version) is not int:
                    raise InvalidInput("not a journal", where=where)
                if version > SCHEMA_VERSION:
                    raise InvalidInput(f"journal version {version} is newer", where=where, hint="update suite")
                continue
            yield event


def _apply(event: dict[str, Any], path: Path, exchanges: dict[int, RawExchange]) -> None:
    try:
        number = event["n"]
        kind = event["event"]
        if kind == "request":
            exchanges[number] = RawExchange(
                journal=path.name,
                number=number,
                started=event["time"],
                path=event["path"],
                request_headers=event["headers"],
                request_body=decode_body(event),
            )
            return
        exchange = exchanges[number]
        if kind == "response":
            exchange.status = event["status"]
            exchange.response_headers = event["headers"]
        elif kind == "data":
            if event["i"] != exchange.num_chunks:
                exchange.problems.append(f"piece {exchange.num_chunks} of the answer is missing")
            exchange.num_chunks = event["i"] + 1
            exchange.response_body += decode_body(event)
            exchange.last_byte_ms = event["ms"]
            if exchange.first_byte_ms is None:
                exchange.first_byte_ms = event["ms"]
        elif kind == "answer":
            exchange.held_answer = event["answer"]
        elif kind == "end":
            exchange.how = event["how"]
            exchange.error = event.get("error")
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"a damaged event: {error!r}", where=str(path), hint="the journal was changed after it was written"
        ) from error
