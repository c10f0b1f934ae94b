"""Facts about GPUs: how much memory they have and which kernels their compute capability allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One model of GPU."""

    name: str
    """As manifests write it."""
    compute_capability: str
    """`major.minor`, for instance `12.0`."""
    memory_mib: int
    """What the driver reports where a page read it, else the nominal size."""
    memory_reported: bool
    """Whether `memory_mib` was reported by a driver (False: nominal)."""
    bandwidth_gb_s: int

    @property
    def sm(self) -> str:
        """The name that kernels go by: `SM120` for capability 12.0."""
        return "SM" + self.compute_capability.replace(".", "")


def _gpu(name: str, capability: str, mib: int, bandwidth: int, *, reported: bool) -> Gpu:
    return Gpu(
        name=name, compute_capability=capability, memory_mib=mib, memory_reported=reported, bandwidth_gb_s=bandwidth
    )


# Nominal sizes are the marketing figure in GiB, except the RTX 5090 and the DGX Spark: their usable part was published
# (31.4 GiB; 121 to 122 GiB of unified memory).
GPUS = (
    _gpu("RTX 5090", "12.0", 32_153, 1_792, reported=True),
    _gpu("RTX PRO 6000 Blackwell", "12.0", 97_887, 1_792, reported=True),
    _gpu("H200 SXM", "9.0", 143_771, 4_800, reported=True),
    _gpu("B200 SXM", "10.0", 180 * 1024, 7_700, reported=False),
    _gpu("RTX 4090", "8.9", 24_564, 1_008, reported=True),
    _gpu("RTX 3090", "8.6", 24_576, 936, reported=True),
    _gpu("GB10", "12.1", 121 * 1024, 273, reported=True),
    _gpu("L40S", "8.9", 46_068, 864, reported=True),
    _gpu("A100 SXM 80GB", "8.0", 80 * 1024, 2_039, reported=False),
    _gpu("H100 SXM", "9.0", 80 * 1024, 3_350, reported=False),
)
_BY_NAME = {gpu.name: gpu for gpu in GPUS}


def find_gpu(name: str) -> Gpu | None:
    """The GPU that manifests call `name`, or None if there are no facts about it."""
    return _BY_NAME.get(name)


def names() -> tuple[str, ...]:
    """Every known name, in the table's order."""
    return tuple(_BY_NAME)
