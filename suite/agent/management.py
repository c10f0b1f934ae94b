"""What the driver says of a GPU: version, power limit, clocks, interconnect. Nothing that moves while it works."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

_MAX_LINKS = 18


def facts(uuid: str, *, ranks: int) -> dict[str, Any]:
    """Facts of the GPU with this UUID; those that the driver does not tell are None.

    Args:
        uuid: As torch gives it, with or without `GPU-`; the first GPU if it is empty.
        ranks: How many GPUs work together; the interconnect is told for two and more.
    """
    names = (
        "driver", "power_limit_watts", "max_sm_clock_mhz", "max_memory_clock_mhz", "application_sm_clock_mhz",
        "interconnect",
    )  # fmt: skip
    found: dict[str, Any] = dict.fromkeys(names)
    library = _library()
    if library is None:
        return found
    with contextlib.suppress(Exception):
        library.nvmlInit()
        version = library.nvmlSystemGetDriverVersion()
        found["driver"] = version.decode() if isinstance(version, bytes) else str(version)
        handle = _handle(library, uuid)
        questions: dict[str, Callable[[], Any]] = {
            "power_limit_watts": lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "max_sm_clock_mhz": lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM),
            "max_memory_clock_mhz": lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_MEM),
            "application_sm_clock_mhz": lambda: library.nvmlDeviceGetApplicationsClock(handle, library.NVML_CLOCK_SM),
            "interconnect": lambda: _interconnect(library, handle) if ranks > 1 else None,
        }
        for name, ask in questions.items():
            # A card, or the container it is given to, may refuse any one of them.
            with contextlib.suppress(Exception):
                found[name] = ask()
    return found


def _library() -> Any:
    """NVIDIA's management library for Python: installed, or the copy that vLLM carries."""
    try:
        import pynvml
    except ImportError:
        with contextlib.suppress(ImportError):
            from vllm.third_party import pynvml as carried

            return carried
        return None
    return pynvml


def _handle(library: Any, uuid: str) -> Any:
    if not uuid:
        return library.nvmlDeviceGetHandleByIndex(0)
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    return library.nvmlDeviceGetHandleByUUID(name.encode())


def _interconnect(library: Any, handle: Any) -> str:
    """Active NVLinks of this GPU, or its PCIe bus."""
    links = 0
    for link in range(_MAX_LINKS):
        with contextlib.suppress(Exception):
            links += int(library.nvmlDeviceGetNvLinkState(handle, link) == 1)
    if links:
        return f"NVLink, {links} links"
    generation = library.nvmlDeviceGetMaxPcieLinkGeneration(handle)
    return f"PCIe {generation} x{library.nvmlDeviceGetMaxPcieLinkWidth(handle)}"
