"""How much of a stranger's files is read at all."""

from __future__ import annotations

from dataclasses import dataclass

_KIB = 1 << 10
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds that hold while something is read, never afterwards."""

    archive_bytes: int = 512 * _MIB
    """Of an archive as it was sent."""
    expanded_bytes: int = 1024 * _MIB
    """Of all files together."""
    ratio: int = 200
    """Expanded over compressed bytes, beyond `ratio_free_bytes`."""
    ratio_free_bytes: int = 4 * _MIB
    """So much may come out of any archive: a small one of plain text is no bomb."""
    files: int = 128
    """Files and folders together."""
    depth: int = 8
    """Parts of a path."""
    path_bytes: int = 400
    """Of a whole path as UTF-8."""
    part_bytes: int = 180
    """Of one part of a path as UTF-8."""
    json_bytes: int = 32 * _MIB
    json_values: int = 1_500_000
    """Objects, arrays, keys and plain values together."""
    json_depth: int = 32
    json_string_bytes: int = 1 * _MIB
    json_number_characters: int = 40
    ledger_bytes: int = 256 * _MIB
    ledger_rows: int = 131_072
    """Probes: 40 bytes a row and more are held several times while it is checked."""
    ledger_row_bytes: int = 1_024
    """Expanded, on average; an honest row has about 350."""
    gzip_bytes: int = 64 * _MIB
    """Of one compressed file of a bundle, expanded."""
    tensor_bytes: int = 128 * _MIB
    """Of one chunk of a pack."""
    memory_bytes: int = 480 * _MIB
    """Address space of the process that reads (`RLIMIT_AS`)."""
    cpu_seconds: int = 60
    """Processor time of that process (`RLIMIT_CPU`)."""
    wall_seconds: int = 180
    """After which it is ended."""
    future_seconds: int = 3_600
    """How far another machine's clock may be ahead."""


LIMITS = Limits()
"""What the command, CI and the site apply."""
