"""The session's tools: whose names are known, what type each argument has, whether arguments fit the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.files import read_json
from suite.grade.json_reader import parse_json
from suite.grade.source import Broken

_PYTHON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
_MAX_DEPTH = 16


class ToolSet:
    """Tools by name, with the JSON Schema of their arguments.

    Args:
        schemas: Name to JSON Schema.

    Raises:
        InvalidInput: a schema is none.
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.schemas = dict(schemas)
        self._validators: dict[str, Any] = {}
        for name in self.schemas:
            self._validators[name] = self._validator(name)

    def __contains__(self, name: object) -> bool:
        return name in self.schemas

    def words(self) -> set[str]:
        """Names of tools and of their arguments at any depth, and the strings that schemas allow."""
        found: set[str] = set(self.schemas)
        for schema in self.schemas.values():
            _collect_words(schema, found)
        return found

    def types(self, name: str | None, argument: str) -> frozenset[str] | None:
        """JSON types that the schema allows for an argument; None where it does not say."""
        schema = self.schemas.get(name or "")
        if schema is None:
            return None
        properties = schema.get("properties")
        spec = properties.get(argument) if isinstance(properties, dict) else None
        if spec is None and isinstance(schema.get("additionalProperties"), dict):
            spec = schema["additionalProperties"]
        return _types(spec, schema, 0)

    def first_error(self, name: str, arguments: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
        """Path and message of the first place where the arguments do not fit the tool's schema.

        Raises:
            InvalidInput: the schema cannot be applied: a reference leads nowhere or round in circles.
        """
        try:
            errors = sorted(self._validators[name].iter_errors(arguments), key=lambda e: [str(p) for p in e.path])
        except OverflowError:
            return (), "a number is out of range"
        except Exception as error:
            raise InvalidInput(
                f"the schema of the tool {name!r} cannot be applied: {str(error)[:200]}",
                hint="references must lead to a place in the same schema",
            ) from error
        if not errors:
            return None
        return tuple(errors[0].path), str(errors[0].message)[:300]

    def _validator(self, name: str) -> Any:
        import jsonschema
        from referencing import Registry

        schema = self.schemas[name]
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise InvalidInput(
                f"the parameters of the tool {name!r} are no JSON Schema: {error.message[:200]}",
                where=".".join(str(part) for part in error.path) or None,
            ) from error
        # An empty registry: a reference to a URL is an error and is never fetched.
        return kind(schema, registry=Registry())


def tools_of(definitions: Sequence[Any], *, where: str = "tools") -> ToolSet:
    """Tools from OpenAI definitions (`{"type": "function", "function": {…}}`), or the inner objects.

    Raises:
        InvalidInput: names the definition that is none.
    """
    schemas: dict[str, dict[str, Any]] = {}
    for index, definition in enumerate(definitions):
        inner = definition.get("function", definition) if isinstance(definition, dict) else None
        name = inner.get("name") if isinstance(inner, dict) else None
        schema = (inner.get("parameters") or {}) if isinstance(inner, dict) else None
        if not isinstance(name, str) or not name or not isinstance(schema, dict):
            raise InvalidInput(
                "not a tool definition",
                where=f"{where}: {index}",
                hint='a tool is {"type": "function", "function": {"name": …, "parameters": {JSON Schema}}}',
            )
        if name in schemas:
            raise InvalidInput(f"the tool {name!r} is defined twice", where=f"{where}: {index}")
        schemas[name] = schema
    return ToolSet(schemas)


def load_tools(path: Path) -> ToolSet:
    """Tools from a JSON file: a list of definitions, or an object (a session, a request) with a list `tools`.

    Raises:
        InvalidInput: unreadable, or no tools.
    """
    value = read_json(path)
    definitions = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(definitions, list):
        raise InvalidInput("holds no list of tools", where=str(path), hint="a JSON list, or an object with 'tools'")
    return tools_of(definitions, where=str(path))


def typed(text: str, types: frozenset[str] | None) -> Any:
    """The value that a text stands for, where only the schema can say: `1.10` stays text if a string is allowed.

    What is no JSON of an allowed type stays text too, and fails the schema.
    """
    if types is None:
        return text
    if "string" in types:
        return None if text.strip() == "null" and "null" in types else text
    try:
        return parse_json(text)
    except Broken:
        return text


def _types(spec: Any, root: Mapping[str, Any], depth: int) -> frozenset[str] | None:
    if not isinstance(spec, dict) or depth > _MAX_DEPTH:
        return None
    found: set[str] = set()
    said = False
    stated = spec.get("type")
    if isinstance(stated, str | list):
        return frozenset([stated] if isinstance(stated, str) else [item for item in stated if isinstance(item, str)])
    for values in ([spec["const"]] if "const" in spec else [], spec.get("enum")):
        for value in values if isinstance(values, list) else []:
            found.add(_PYTHON_TYPES.get(type(value), "object"))
            said = True
    if isinstance(reference := spec.get("$ref"), str):
        inner = _types(_resolve(reference, root), root, depth + 1)
        found |= inner or set()
        said = said or inner is not None
    for key in ("anyOf", "oneOf", "allOf"):
        options = spec.get(key)
        for option in options if isinstance(options, list) else []:
            inner = _types(option, root, depth + 1)
            found |= inner or set()
            said = said or inner is not None
    if not said and ("properties" in spec or "items" in spec):
        return frozenset({"object" if "properties" in spec else "array"})
    return frozenset(found) if said else None


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    value: Any = root
    if not reference.startswith("#"):
        return None
    for part in reference.lstrip("#").strip("/").split("/") if reference != "#" else []:
        key = part.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _collect_words(schema: Any, found: set[str], depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        return
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            found.update(properties)
        for key in ("enum", "examples", "required"):
            values = schema.get(key)
            found.update(item for item in values if isinstance(item, str)) if isinstance(values, list) else None
        for key, value in schema.items():
            if key in ("const", "default") and isinstance(value, str):
                found.add(value)
            _collect_words(value, found, depth + 1)
    elif isinstance(schema, list):
        for item in schema:
            _collect_words(item, found, depth + 1)


def same_json(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON: `true` is not `1`, and the order of keys says nothing."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
