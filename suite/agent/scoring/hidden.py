"""Hidden states of a capture on their way to the device, read one chunk ahead."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from safetensors import safe_open

_ON_DEVICE = ("rows", "top_ids", "top_logits", "logsumexp")
_ON_HOST = ("positions", "target_ids")

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
        self._paths = iter(chunks)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="suite-read")
        self._coming = self._read_ahead()
        self._held: list[Batch] = []

    def take(self, count: int) -> Batch | None:
        """The next `count` probes, fewer at the end, None after it."""
        while self._coming is not None and sum(len(part["rows"]) for part in self._held) < count:
            part = self._coming.result()
            self._coming = self._read_ahead()
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

    def _read_ahead(self) -> Future[Batch] | None:
        path = next(self._paths, None)
        return None if path is None else self._pool.submit(self._read, path)

    def _read(self, path: str) -> Batch:
        with safe_open(path, framework="pt") as file:
            part = {name: file.get_tensor(name) for name in (*_ON_DEVICE, *_ON_HOST)}
        if self._device.type == "cuda":
            part |= {name: part[name].pin_memory() for name in _ON_DEVICE}
        return part
