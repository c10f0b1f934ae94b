"""What can be launched, and in what it is then not the stack that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from suite.manifest.engine import Serve, differences
from suite.stack.settings import StackSettings

_EFFECTS = {
    "enforce_eager": "compiled kernels and graphs give other numbers than eager ones",
    "cudagraph_mode": "graphs may hold other kernels",
    "max_num_seqs": "sequences share a step: other batch shapes, other bits, and no longer the same ones every time",
    "enable_prefix_caching": "tokens seen before are not computed again",
    "max_num_batched_tokens": "prompts are read in other chunks: other bits",
    "speculative": "a drafter proposes tokens, and several are checked in one step",
    "attention_backend": "another backend than the one that was measured",
    "kv_cache_dtype": "another KV cache than the one that was measured",
    "tensor_parallel_size": "weights are cut in another way than was measured",
    "model_runner": "another model runner than the one that was measured",
    "max_model_len": "length only",
    "kv_cache_memory_mib": "capacity only",
    "gpu_memory_percent": "capacity only",
    "cpu_offload_gib": "speed only: the same kernels run",
    "language_model_only": "the vision part is loaded as well, or left out",
}


class Launchable(StackSettings, Protocol):
    """What can be launched: a lock or a manifest."""

    @property
    def name(self) -> str:
        """The stack's name."""

    @property
    def serve(self) -> Serve:
        """What changes when it is launched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """One setting in which the launched stack is not the measured one."""

    name: str
    measured: object
    """None: left to the engine."""
    served: object
    effect: str
    """What that means for the numbers; empty where nothing general can be said."""


def changes(stack: Launchable) -> tuple[Changed, ...]:
    """The settings in which `stack` is served otherwise than it is measured, in the order of the schema."""
    found = [
        Changed(name=name, measured=measured, served=served, effect=_EFFECTS.get(name, ""))
        for name, (measured, served) in differences(stack.engine, stack.serve).items()
    ]
    return tuple(found) + tuple(
        Changed(name=name, measured=stack.engine.extra.get(name), served=value, effect="")
        for name, value in stack.serve.extra.items()
        if stack.engine.extra.get(name) != value
    )
