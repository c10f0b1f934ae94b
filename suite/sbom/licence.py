"""Tells SPDX licence expressions from free text."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def is_spdx_expression(text: str) -> bool:
    """Whether `text` is an expression of licences on the SPDX list."""
    from cyclonedx.spdx import is_expression

    return is_expression(text)


@lru_cache(maxsize=4096)
def is_spdx_id(text: str) -> bool:
    """Whether `text` is exactly one identifier of the SPDX list."""
    from cyclonedx.spdx import is_supported_id

    return is_supported_id(text)
