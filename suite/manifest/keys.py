"""Unknown keys: found before validation, so that a typing error names its line and the key that was probably meant."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from suite.manifest.problems import Place, Problem
from suite.manifest.schema import Manifest
from suite.manifest.strict_yaml import KeyPath

FILE_KEYS = frozenset({"extends"})
"""Keys of the file that are gone once it is loaded."""


def unknown_keys(value: Mapping[str, Any], places: Mapping[KeyPath, Place]) -> Iterator[Problem]:
    """Yield one problem for every key that the schema does not know, in a manifest or a part of one.

    Args:
        value: The parsed file.
        places: Where its keys stand.
    """
    for path, model in _unknown(Manifest, value, (), FILE_KEYS):
        yield Problem(place=places[path], key=dotted(path), message=f"unknown key; {_advice(path, model)}")


def dotted(path: KeyPath) -> str:
    """`engine.kv_cache_dtype` for `("engine", "kv_cache_dtype")`; list positions stand in brackets."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def model_inside(annotation: Any) -> type[BaseModel] | None:
    """The model that a field's annotation allows, looking through `Annotated` and unions; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return model_inside(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return next((m for m in map(model_inside, typing.get_args(annotation)) if m is not None), None)
    return None


def _unknown(
    model: type[BaseModel], value: Mapping[str, Any], path: KeyPath, extra: frozenset[str]
) -> Iterator[tuple[KeyPath, type[BaseModel]]]:
    for key, item in value.items():
        if key in extra:
            continue
        field = model.model_fields.get(key)
        if field is None:
            yield (*path, key), model
            continue
        inner = model_inside(field.annotation)
        if inner is not None and isinstance(item, dict):
            yield from _unknown(inner, item, (*path, key), frozenset())


def _advice(path: KeyPath, model: type[BaseModel]) -> str:
    key = str(path[-1])
    here = list(model.model_fields) + (sorted(FILE_KEYS) if model is Manifest else [])
    if near := difflib.get_close_matches(key, here, n=1, cutoff=0.6):
        return f"did you mean {near[0]!r}?"
    for name, field in Manifest.model_fields.items():
        inner = model_inside(field.annotation)
        if inner is not None and key in inner.model_fields and name != path[0]:
            return f"it belongs under {name!r}"
    if key in Manifest.model_fields:
        return "it belongs at the top level"
    return f"known here: {', '.join(here)}"
