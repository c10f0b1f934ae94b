"""Pick one: the other attention backends and KV caches of a stack for which measurements exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from suite.manifest.diff import factors
from suite.manifest.lock import Lock

_AXES = frozenset({"attention_backend", "kv_cache_dtype", "flash_attention_version"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """One measured cell of the grid backend x KV cache."""

    attention_backend: str | None
    flash_attn_version: int | None
    kv_cache_dtype: str
    lock: Lock
    """To launch it: `suite.stack.launch.launch(alternative.lock)`."""
    chosen: bool
    """Whether it is the stack that was asked about."""

    @property
    def label(self) -> str:
        """For a person, for instance `FLASH_ATTN 2, bfloat16`."""
        version = "" if self.flash_attn_version is None else f" {self.flash_attn_version}"
        return f"{self.attention_backend or 'engine chooses'}{version}, {self.kv_cache_dtype}"


def alternatives(lock: Lock, measured: Iterable[Lock]) -> tuple[Alternative, ...]:
    """The cells that differ from `lock` in nothing but attention backend and KV cache, itself included.

    Only what was measured is offered: a cell that nobody measured is not in the list.

    Args:
        lock: The stack that is launched.
        measured: Locks of bundles and references; those that differ otherwise, or on other tokens, are passed over.

    Returns:
        Sorted by backend, version and KV cache; of several locks of one cell the first by name stands.
    """
    cells: dict[tuple[str, int, str], Alternative] = {}
    for other in (lock, *sorted(measured, key=lambda item: item.name)):
        comparison = factors(lock, other)
        if comparison.not_comparable or not {factor.name for factor in comparison.factors} <= _AXES:
            continue
        engine = other.engine
        key = (engine.attention_backend or "", engine.flash_attn_version or 0, engine.kv_cache_dtype)
        cells.setdefault(
            key,
            Alternative(
                attention_backend=engine.attention_backend,
                flash_attn_version=engine.flash_attn_version,
                kv_cache_dtype=engine.kv_cache_dtype,
                lock=other,
                chosen=other is lock,
            ),
        )
    return tuple(cells[key] for key in sorted(cells))
