"""A manifest of a stack that runs already, and everything that had to be guessed or left out on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from suite.adopt.flags import Flags, parse_flags
from suite.adopt.invocation import Invocation
from suite.adopt.settings import Notes, extra_of, measured_and_served, settings_of
from suite.errors import InvalidInput
from suite.files import canonical_json
from suite.image.reference import parse_reference
from suite.manifest.engine import RepositoryName
from suite.manifest.environment import refusal
from suite.manifest.schema import Manifest
from suite.stack.gpus import find_gpu, names

DEFAULT_SESSION = "workloads/netops-lab/session-7k.json"
DEFAULT_STRIDE = 32
_SNAPSHOT = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/(?P<revision>[0-9a-f]{40})/?$")
_REVISION = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[^a-z0-9._-]+")

# Which devices and cores a machine gives it, and where models are kept.
_NOT_ITS_NUMBERS = frozenset(
    {
        "VLLM_CPU_OMP_THREADS_BIND", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
        "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TRANSFORMERS_CACHE",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Adopted:
    """What a running stack became."""

    value: dict[str, Any]
    """The manifest as written: `suite.manifest.load.dump_yaml` makes the file."""
    guesses: tuple[str, ...]
    """What was not said and is now in the manifest; each a sentence."""
    left_out: tuple[str, ...]
    """What was said and has no place in a manifest; each a sentence."""
    missing: tuple[str, ...]
    """Facts that are named as missing: the manifest cannot be locked until they are found out."""


def adopt(
    invocation: Invocation,
    *,
    gpu: str | None = None,
    name: str | None = None,
    session: str | None = None,
    packages: dict[str, str] | None = None,
) -> Adopted:
    """Make a manifest whose serve settings are those of a running server, measured as stacks are measured.

    Args:
        invocation: How the server was started.
        gpu: The GPU as manifests name it; needed unless the image is vLLM's for CPUs.
        name: The stack's name; by default the served model's.
        session: The recorded session to run; by default the synthetic one of this repository.
        packages: Versions found in the interpreter of a process.

    Raises:
        InvalidInput: it names no model, the GPU is not known, a setting has a value that no manifest takes, or the
            image's name is none.
    """
    notes = Notes()
    flags = parse_flags(invocation.arguments)
    values = dict(flags.values)
    model, missing = _model(invocation, flags, values, notes)
    environment, threads, runner = _environment(invocation, notes)
    runtime, image_missing = _runtime(invocation, packages)
    missing |= image_missing
    settings, serving = settings_of(values, notes)
    if runner is not None:
        settings["model_runner"] = runner
    hardware = _hardware(invocation, settings, gpu=gpu, threads=threads)
    extra = extra_of(values, notes)
    engine, serve = measured_and_served(settings, hardware, notes)
    if extra:
        engine["extra"] = extra
    if session is None:
        notes.guesses.append(f"the session is {DEFAULT_SESSION}; name one of your own")
    value: dict[str, Any] = {
        "schema_version": 1,
        "name": name or _stack_name(flags),
        "role": "reference",
        "runtime": runtime,
        "hardware": hardware,
        "engine": engine,
        **({"environment": environment} if environment else {}),
        "model": model,
        "workload": {"session": session or DEFAULT_SESSION},
        "capture": {"path": "prefill", "stride": DEFAULT_STRIDE},
        **({"serve": serve | serving} if serve or serving else {}),
        **({"missing": missing} if missing else {}),
    }
    _validate(value)
    return Adopted(
        value=value, guesses=tuple(notes.guesses), left_out=tuple(notes.left_out), missing=tuple(sorted(missing))
    )


def _validate(value: dict[str, Any]) -> None:
    try:
        Manifest.model_validate_json(canonical_json(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        message = str(first["msg"]).removeprefix("Value error, ")
        raise InvalidInput(
            f"{message}", where=f"command: {key}" if key else "command", hint="correct it, or leave the flag out"
        ) from error


def _model(
    invocation: Invocation, flags: Flags, values: dict[str, Any], notes: Notes
) -> tuple[dict[str, Any], dict[str, str]]:
    if flags.model is None:
        raise InvalidInput("names no model", where="command", hint="the model stands after `vllm serve`, or in --model")
    path = _on_host(flags.model, invocation)
    revision = values.pop("revision", None)
    tokenizer_revision = values.pop("tokenizer_revision", None)
    if tokenizer_revision not in (None, revision):
        notes.left_out.append("--tokenizer-revision: the tokenizer is that of the model's commit")
    if match := _SNAPSHOT.search(path):
        return {"repository": f"{match['owner']}/{match['name']}", "revision": match["revision"]}, {}
    if path.startswith(("/", ".", "~")):
        if path.startswith("~") or "$" in path:
            notes.guesses.append(f"model.path is {path}: write the folder that it stands for")
        return {"path": path}, {}
    try:
        TypeAdapter(RepositoryName).validate_python(path)
    except ValidationError as error:
        raise InvalidInput(
            f"the model {path!r} is neither owner/name nor a folder", where="command", hint="write the whole path"
        ) from error
    if isinstance(revision, str) and _REVISION.fullmatch(revision):
        return {"repository": path, "revision": revision}, {}
    why = "the command names no revision" if revision is None else f"{revision!r} is a branch or tag, which moves"
    return {"repository": path}, {"model.revision": f"{why}; take the commit that was fetched"}


def _on_host(path: str, invocation: Invocation) -> str:
    """The folder on the host of a path inside a container."""
    for inside, host in sorted(invocation.mounts.items(), key=lambda item: -len(item[0])):
        if path == inside or path.startswith(inside.rstrip("/") + "/"):
            return host.rstrip("/") + path[len(inside.rstrip("/")) :]
    return path


def _environment(invocation: Invocation, notes: Notes) -> tuple[dict[str, str], int | None, str | None]:
    kept: dict[str, str] = {}
    threads: int | None = None
    runner: str | None = None
    for name, value in sorted(invocation.environment.items()):
        if name == "OMP_NUM_THREADS" and value.isdigit():
            threads = int(value)
        elif name == "VLLM_USE_V2_MODEL_RUNNER" and value in ("0", "1"):
            runner = "v2" if value == "1" else "v1"
        elif name in _NOT_ITS_NUMBERS:
            continue
        elif why := refusal(name, value):
            # Never the value: it may be a secret.
            notes.left_out.append(f"{name}: {why}")
        else:
            kept[name] = value
    notes.left_out += [f"{name}: its value was the caller's own" for name in invocation.passed_on]
    return kept, threads, runner


def _runtime(invocation: Invocation, packages: dict[str, str] | None) -> tuple[dict[str, Any], dict[str, str]]:
    if invocation.image is None:
        if not packages:
            raise InvalidInput(
                "a process needs the versions of its packages",
                where="command",
                hint="give the version of vLLM with --vllm",
            )
        return {"kind": "process", "python": "auto", "packages": packages}, {}
    named = parse_reference(invocation.image)
    image: dict[str, Any] = {"repository": named.repository.removeprefix("docker.io/")}
    digest = named.digest or invocation.image_digests.get("digest")
    if named.tag:
        image["tag_seen"] = named.tag
    if config := invocation.image_digests.get("config_digest"):
        image["config_digest"] = config
    if digest:
        return {"kind": "docker", "image": image | {"digest": digest}}, {}
    why = f"the command names {'the tag ' + named.tag if named.tag else 'no tag'}, which moves"
    return {"kind": "docker", "image": image}, {
        "runtime.image.digest": f"{why}; `suite image resolve {invocation.image}` says what it is today"
    }


def _hardware(
    invocation: Invocation, settings: dict[str, Any], *, gpu: str | None, threads: int | None
) -> dict[str, Any]:
    on_cpu = invocation.image is not None and "cpu" in invocation.image.partition("@")[0].rsplit("/", 1)[-1]
    if gpu is None and (on_cpu or threads is not None or "VLLM_CPU_KVCACHE_SPACE" in invocation.environment):
        return {"kind": "cpu", "architecture": "x86_64", "threads": threads or 1}
    if gpu is None:
        raise InvalidInput(
            "which GPU it runs on is not said", where="command", hint=f"name it with --gpu: {', '.join(names())}"
        )
    facts = find_gpu(gpu)
    if facts is None:
        raise InvalidInput(f"no facts about the GPU {gpu!r}", where="--gpu", hint=f"known: {', '.join(names())}")
    count = settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1)
    return {"kind": "cuda", "architecture": facts.compute_capability, "gpu": facts.name, "count": count}


def _stack_name(flags: Flags) -> str:
    served = flags.values.get("served_model_name")
    given = served[0] if isinstance(served, tuple) else served
    text = given if isinstance(given, str) else PurePosixPath(flags.model or "").name
    name = _NAME.sub("-", text.lower()).lstrip("-._")[:80]
    return name or "adopted"
