"""Hidden states of a capture on their way to the device, read a few chunks ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import safe_open

_ON_DEVICE = ("rows", "top_ids", "top_logits", "logsumexp")
_ON_HOST = ("positions", "target_ids")
_AHEAD_BYTES = 96 << 20
"""What is read before it is asked for: some steps of an engine, whatever the size of the chunks."""
_READERS = 2

Batch = dict[str, torch.Tensor]
"""The tensors of consecutive probes of a `hidden` chunk, by name; positions and targets stay on the CPU."""


class HiddenStates:
    """Gives the probes of one capture in order, in batches of any size whatever its chunks are."""

    def __init__(self, chunks: Sequence[str], device: str) -> None:
        """Begin to read.

        Args:
            chunks: Paths of the chunk files, in order.
            device: Where the rows shall lie.
        """
        self._device = torch.device(device)
        self._paths = deque(chunks)
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="suite-read")
        self._coming: deque[tuple[Future[Batch], int]] = deque()
        self._ahead_bytes = 0
        self._held: list[Batch] = []
        self._read_ahead()

    def take(self, count: int) -> Batch | None:
        """The next `count` probes, fewer at the end, None after it."""
        while self._coming and sum(len(part["rows"]) for part in self._held) < count:
            reading, size = self._coming.popleft()
            part = reading.result()
            self._ahead_bytes -= size
            self._read_ahead()
            for name in _ON_DEVICE:
                part[name] = part[name].to(self._device, non_blocking=True)
            self._held.append(part)
        if not self._held:
            self._pool.shutdown()
            return None
        whole = self._held[0]
        if len(self._held) > 1:
            whole = {name: torch.cat([part[name] for part in self._held]) for name in self._held[0]}
        rest = {name: tensor[count:] for name, tensor in whole.items()}
        self._held = [rest] if len(rest["rows"]) else []
        return {name: tensor[:count] for name, tensor in whole.items()}

    def _read_ahead(self) -> None:
        while self._paths and (not self._coming or self._ahead_bytes < _AHEAD_BYTES):
            path = self._paths.popleft()
            size = Path(path).stat().st_size
            self._coming.append((self._pool.submit(self._read, path), size))
            self._ahead_bytes += size

    def _read(self, path: str) -> Batch:
        with safe_open(path, framework="pt") as file:
            part = {name: file.get_tensor(name) for name in (*_ON_DEVICE, *_ON_HOST)}
        if self._device.type == "cuda":
            part |= {name: part[name].pin_memory() for name in _ON_DEVICE}
        return part
