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
    """JSON Schema (draft 2020-12) of one manifest file as it is written, before `extends`.

    What a mapping that is merged key by key lacks may stand in an extended file, so only the mappings that are
    replaced as a whole have required keys here. Loading checks the rest.
    """
    schema = Manifest.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Manifest, schema version 1"
    schema["properties"]["extends"] = _EXTENDS
    merged = {"Runtime", "Hardware", "Engine", "Serve", "Capture", "Branches"}
    for part in (schema, *(schema["$defs"][name] for name in merged)):
        part.pop("required", None)
        for key, value in part["properties"].items():
            # `null` takes an inherited key out.
            part["properties"][key] = {"anyOf": [value, {"type": "null"}]} if not _allows_null(value) else value
    return schema


def json_schema_bytes() -> bytes:
    """`json_schema` as the committed file holds it."""
    return pretty_json(json_schema())


def _allows_null(value: dict[str, Any]) -> bool:
    return {"type": "null"} in value.get("anyOf", [])
