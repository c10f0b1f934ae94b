"""How a manifest and the files it extends become one: the rule is short enough to be remembered.

Mappings are merged key by key, the later file wins; every other value (also a list) replaces; `null` takes the key out.
Mappings whose keys make sense only together (`WHOLE`) replace as one: no revision ever outlives its repository.
"""

from __future__ import annotations

from typing import Any

from suite.manifest.problems import Place
from suite.manifest.strict_yaml import Document, KeyPath

WHOLE: frozenset[KeyPath] = frozenset(
    {
        ("model",),
        ("workload",),
        ("runtime", "image"),
        ("engine", "speculative"),
        ("serve", "speculative"),
        ("capture", "ranges"),
        ("missing",),
    }
)


def merge(layers: list[Document]) -> Document:
    """Merge documents, the last one strongest. The result holds no `null` in any mapping.

    Args:
        layers: At least one document.
    """
    value: dict[str, Any] = {}
    places: dict[KeyPath, Place] = {}
    for layer in layers:
        _lay(value, places, layer.value, layer.places, ())
    places[()] = layers[-1].places[()]
    return Document(value=value, places=places)


def _lay(
    below: dict[str, Any],
    places: dict[KeyPath, Place],
    above: dict[str, Any],
    above_places: dict[KeyPath, Place],
    path: KeyPath,
) -> None:
    for key, item in above.items():
        here = (*path, key)
        if isinstance(item, dict) and isinstance(below.get(key), dict) and here not in WHOLE:
            places[here] = above_places[here]
            _lay(below[key], places, item, above_places, here)
            continue
        for place in [p for p in places if p[: len(here)] == here]:
            del places[place]
        below.pop(key, None)
        if item is None:
            continue
        below[key] = _without_null(item)
        places.update({p: place for p, place in above_places.items() if p[: len(here)] == here})


def _without_null(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _without_null(value) for key, value in item.items() if value is not None}
    return item
