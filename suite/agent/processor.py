"""What a CPU can compute with: vLLM's CPU build and oneDNN choose their kernels, and so the numbers, by it.

Read on the host before anything starts, and again inside the stack for its receipt.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

ISAS = ("avx2", "avx512", "avx512_bf16", "amx")
"""Kinds of x86-64 processors, each able to do what the one before it does. Two kinds give two sets of numbers."""

# What torch asks of a processor before it calls it AVX-512, as `/proc/cpuinfo` spells it.
_FLAGS = {
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"},
    "avx512_bf16": {"avx512_bf16"},
    "amx": {"amx_tile", "amx_bf16"},
}

_WORDS = {
    "avx2": "AVX2 only",
    "avx512": "AVX-512 without BF16 instructions",
    "avx512_bf16": "AVX-512 with BF16 instructions",
    "amx": "AMX",
}

# vLLM's CPU build carries one extension for each (`vllm/platforms/cpu.py`, `import_kernels`).
_EXTENSIONS = {"avx2": "_C_AVX2", "avx512": "_C_AVX512", "avx512_bf16": "_C", "amx": "_C"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Processor:
    """One machine's processor."""

    architecture: str
    """As the kernel names it, for instance `x86_64`."""
    name: str
    """Model name; two kinds may bear the same in a virtual machine."""
    isa: str | None
    """The last of `ISAS` that it has; None for other architectures and for x86-64 without AVX2."""

    @property
    def extension(self) -> str | None:
        """The extension that vLLM's CPU build loads here; None where that is not known."""
        return None if self.isa is None else _EXTENSIONS[self.isa]

    def __str__(self) -> str:
        return f"{self.name} ({isa_words(self.isa)})" if self.isa else f"{self.name} ({self.architecture})"


def isa_words(isa: str) -> str:
    """A kind of processor in words, for instance `AVX2 only`."""
    return _WORDS[isa]


def at_least(isa: str, needed: str) -> bool:
    """Whether a processor of kind `isa` does what one of kind `needed` does."""
    return ISAS.index(isa) >= ISAS.index(needed)


def parse_processor(cpuinfo: str, *, architecture: str) -> Processor:
    """The first processor of a `/proc/cpuinfo`.

    Args:
        cpuinfo: The file's text; fields that are absent are taken as unknown.
        architecture: What `platform.machine()` says.
    """
    found = {
        key: match[1].strip()
        for key in ("model name", "flags")
        if (match := re.search(rf"^{key}[ \t]*:(.*)$", cpuinfo, re.MULTILINE))
    }
    return Processor(
        architecture=architecture,
        name=found.get("model name") or platform.processor() or architecture,
        isa=_isa(set(found.get("flags", "").split())) if architecture == "x86_64" else None,
    )


def this_processor() -> Processor:
    """The processor of this machine."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:  # noqa: PTH123 - a kernel file, not a path of ours
            text = stream.read()
    except OSError:
        text = ""
    return parse_processor(text, architecture=platform.machine())


def loaded_extension(maps: str) -> str | None:
    """The extension of vLLM's CPU build that a process has loaded; None where it has none.

    Args:
        maps: Text of the process's `/proc/self/maps`.
    """
    match = re.search(r"/vllm/(_C(?:_AVX2|_AVX512)?)\.[^/\n]*so$", maps, re.MULTILINE)
    return match[1] if match else None


def _isa(flags: set[str]) -> str | None:
    """The last kind whose flags, and those of all before it, are there."""
    found = None
    for isa in ISAS:
        if not _FLAGS[isa] <= flags:
            break
        found = isa
    return found
