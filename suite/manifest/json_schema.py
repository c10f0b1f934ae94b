"""The JSON Schema of manifest files, for editors and for other programs."""

from __future__ import annotations

from typing import Any

from suite.files import pretty_json
from suite.manifest.schema import Manifest

_EXTENDS = {
    "description": "Files that this one is laid over, relative to it; the last is the strongest.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a manifest file after `extends`, with `extends` itself allowed."""
    schema = Manifest.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Manifest, schema version 1"
    schema["properties"]["extends"] = _EXTENDS
    return schema


def json_schema_bytes() -> bytes:
    """`json_schema` as the committed file holds it."""
    return pretty_json(json_schema())
