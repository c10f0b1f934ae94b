"""JSON whose shape nobody promised: answers of servers, files of other programs, receipts of other versions.

A file of this project has a model of its own and is parsed by `suite.files.strict_json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
"""One object."""


def as_dict(value: Any) -> Json:
    """The value, or an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value, or an empty list."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value, or an empty text."""
    return value if isinstance(value, str) else ""


def json_or_none(text: str | bytes) -> Any:
    """What the text holds; None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_object(path: Path) -> Json:
    """The object in a file; an empty one where there is none that can be read."""
    try:
        return as_dict(json_or_none(path.read_bytes()))
    except OSError:
        return {}
