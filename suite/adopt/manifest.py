"""A manifest of a stack that runs already, and everything that had to be guessed or left out on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from suite.adopt.flags import Flags, parse_flags, whole_number
from suite.adopt.invocation import Invocation
from suite.errors import InvalidInput
from suite.files import canonical_json
from suite.manifest.engine import RepositoryName, Word
from suite.manifest.environment import refusal
from suite.manifest.schema import Manifest
from suite.stack.gpus import find_gpu, names

DEFAULT_SESSION = "workloads/netops-lab/session-7k.json"
DEFAULT_STRIDE = 32
_DEFAULT_CONTEXT_TOKENS = 32_768
_MIB = 1 << 20
_SNAPSHOT = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/(?P<revision>[0-9a-f]{40})/?$")
_REVISION = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[^a-z0-9._-]+")

# Flag -> what its text becomes. Names are those of the manifest.
_TEXT = (
    "attention_backend", "kv_cache_dtype", "quantization", "gdn_prefill_backend", "linear_backend", "load_format",
)  # fmt: skip
_COUNTS = (
    "tensor_parallel_size", "pipeline_parallel_size", "max_num_batched_tokens", "max_model_len", "max_num_seqs",
    "block_size", "seed",
)  # fmt: skip
_SWITCHES = (
    "enforce_eager", "enable_prefix_caching", "disable_custom_all_reduce", "language_model_only",
    "kv_sharing_fast_prefill",
)  # fmt: skip
_SERVING = ("tool_call_parser", "reasoning_parser", "generation_config")
_DTYPES = {"half": "float16", "float": "float32"}
# They say where a server listens and what it logs, nothing of its answers' numbers.
_NOT_THE_STACK = frozenset(
    {
        "host", "port", "uds", "api_key", "root_path", "allowed_origins", "allowed_methods", "allowed_headers",
        "allow_credentials", "uvicorn_log_level", "disable_uvicorn_access_log", "disable_access_log_for_endpoints",
        "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "ssl_cert_reqs", "ssl_ciphers", "enable_ssl_refresh",
        "disable_log_requests", "enable_log_requests", "max_log_len", "disable_log_stats", "enable_log_outputs",
        "enable_log_deltas", "served_model_name", "download_dir", "disable_fastapi_docs", "enable_offline_docs",
        "api_server_count", "headless", "grpc", "grpc_port", "shutdown_timeout", "hf_token", "response_role",
        "enable_prompt_tokens_details", "enable_server_load_tracking", "enable_force_include_usage", "log_error_stack",
        "enable_request_id_headers", "return_tokens_as_token_ids", "otlp_traces_endpoint", "collect_detailed_traces",
        "tokenizer_mode", "enable_per_request_metrics", "log_level", "aggregate_engine_logging",
    }
)  # fmt: skip
# Which devices and cores a machine gives it, and where models are kept.
_NOT_ITS_NUMBERS = frozenset(
    {
        "VLLM_CPU_OMP_THREADS_BIND", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
        "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TRANSFORMERS_CACHE",
    }
)  # fmt: skip
# They change what is asked or shown, and have no place in a manifest's settings: a person has to look.
_TOLD = {
    "chat_template": "write the template's path as workload.chat_template",
    "default_chat_template_kwargs": "the session is rendered with the template's own defaults",
    "override_generation_config": "the capture is forced and never samples",
    "tool_parser_plugin": "it loads code",
    "reasoning_parser_plugin": "it loads code",
    "middleware": "it loads code",
    "lora_modules": "adapters are not measured",
    "config": "put the flags of that file into the command",
    "hf_overrides": "it changes the model's own configuration",
    "tokenizer": "a tokenizer of its own",
    "data_parallel_size": "one replica is measured",
}


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


@dataclass(kw_only=True)
class _Notes:
    guesses: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


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
        InvalidInput: it names no model, the GPU is not known, or a setting has a value that no manifest takes.
    """
    notes = _Notes()
    flags = parse_flags(invocation.arguments)
    values = dict(flags.values)
    model, missing = _model(invocation, flags, values, notes)
    environment, threads, runner = _environment(invocation, notes)
    runtime, image_missing = _runtime(invocation, packages, notes)
    missing |= image_missing
    settings, serving = _settings(values, notes)
    if runner is not None:
        settings["model_runner"] = runner
    hardware = _hardware(invocation, settings, gpu=gpu, threads=threads)
    extra = _extra(values, notes)
    engine, serve = _split(settings, hardware, notes)
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
    invocation: Invocation, flags: Flags, values: dict[str, Any], notes: _Notes
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


def _environment(invocation: Invocation, notes: _Notes) -> tuple[dict[str, str], int | None, str | None]:
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


def _runtime(
    invocation: Invocation, packages: dict[str, str] | None, notes: _Notes
) -> tuple[dict[str, Any], dict[str, str]]:
    if invocation.image is None:
        if not packages:
            raise InvalidInput(
                "a process needs the versions of its packages",
                where="command",
                hint="name the interpreter that has this vLLM with --python",
            )
        return {"kind": "process", "python": "auto", "packages": packages}, {}
    name, _, digest = invocation.image.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    image: dict[str, Any] = {"repository": repository.removeprefix("docker.io/")}
    digest = digest or invocation.image_digests.get("digest", "")
    if tag:
        image["tag_seen"] = tag
    if config := invocation.image_digests.get("config_digest"):
        image["config_digest"] = config
    if digest:
        return {"kind": "docker", "image": image | {"digest": digest}}, {}
    why = f"the command names {'the tag ' + tag if tag else 'no tag'}, which moves"
    return {"kind": "docker", "image": image}, {
        "runtime.image.digest": f"{why}; `suite image resolve {invocation.image}` says what it is today"
    }


def _settings(values: dict[str, Any], notes: _Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the engine and flags of serving, taken out of `values`; vLLM's own defaults are not in them."""
    found: dict[str, Any] = {}
    for name in _TEXT:
        if isinstance(values.get(name), str):
            found[name] = values.pop(name)
    for name in _COUNTS:
        if name in values and (number := whole_number(values[name])) is not None:
            found[name] = number
            del values[name]
    for name in _SWITCHES:
        if isinstance(values.get(name), bool):
            found[name] = values.pop(name)
    dtype = values.pop("dtype", "auto")
    if dtype != "auto":
        found["dtype"] = _DTYPES.get(str(dtype), dtype)
    if "attention_backend" in found:
        found["attention_backend"] = found["attention_backend"].upper()
    for take in (_attention, _compilation, _speculative, _memory):
        take(values, found, notes)
    serving = {name: values.pop(name) for name in _SERVING if isinstance(values.get(name), str)}
    if values.pop("enable_auto_tool_choice", False):
        serving["enable_auto_tool_choice"] = True
    return found, serving


def _attention(values: dict[str, Any], found: dict[str, Any], notes: _Notes) -> None:
    config = values.pop("attention_config", None)
    if not isinstance(config, dict):
        return
    config = dict(config)
    if backend := config.pop("backend", None):
        found["attention_backend"] = str(backend).upper()
    version = config.pop("flash_attn_version", None)
    if version is not None:
        found["flash_attn_version"] = version
    _rest("attention-config", config, notes)


def _compilation(values: dict[str, Any], found: dict[str, Any], notes: _Notes) -> None:
    config = values.pop("compilation_config", None)
    if isinstance(config, dict):
        config = dict(config)
        if mode := config.pop("cudagraph_mode", None):
            found["cudagraph_mode"] = str(mode).upper()
        _rest("compilation-config", config, notes)
    elif config is not None:
        notes.left_out.append("--compilation-config: it is not JSON")


def _speculative(values: dict[str, Any], found: dict[str, Any], notes: _Notes) -> None:
    config = values.pop("speculative_config", None)
    if not isinstance(config, dict):
        return
    config = dict(config)
    draft = {name: config.pop(name) for name in ("method", "num_speculative_tokens", "revision") if name in config}
    if repository := config.pop("model", None):
        draft["repository"] = repository
    _rest("speculative-config", config, notes)
    if "num_speculative_tokens" not in draft or "method" not in draft:
        notes.left_out.append("--speculative-config: a manifest needs its method and num_speculative_tokens")
    elif ("repository" in draft) is not ("revision" in draft):
        notes.left_out.append("--speculative-config: the drafter's commit is not said; add it with its repository")
    else:
        found["speculative"] = draft


def _memory(values: dict[str, Any], found: dict[str, Any], notes: _Notes) -> None:
    share = values.pop("gpu_memory_utilization", None)
    size = whole_number(values.pop("kv_cache_memory_bytes", None))
    offload = values.pop("cpu_offload_gb", None)
    if size is not None:
        found["kv_cache_memory_mib"] = max(1, size // _MIB)
        if size % _MIB:
            notes.guesses.append(f"the KV cache is {size // _MIB} MiB: a manifest holds whole MiB")
    elif share is not None:
        percent = _hundredths(share)
        found["gpu_memory_percent"] = percent
        if abs(float(share) * 100 - percent) > 1e-9:
            notes.guesses.append(f"the share of memory is {percent} %: a manifest holds whole percent")
    if offload is not None:
        found["cpu_offload_gib"] = _whole(offload, "--cpu-offload-gb")


def _hundredths(share: object) -> int:
    try:
        return max(1, int(float(str(share)) * 100 + 1e-9))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"--gpu-memory-utilization {share} is not a share", where="command") from error


def _whole(value: object, flag: str) -> int:
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{flag} {value} is not a number", where="command") from error


def _rest(flag: str, config: dict[str, Any], notes: _Notes) -> None:
    notes.left_out += [f"--{flag}.{key}: no key of a manifest stands for it" for key in sorted(config)]


def _extra(values: dict[str, Any], notes: _Notes) -> dict[str, Any]:
    """Engine arguments that have no key of their own."""
    extra: dict[str, Any] = {}
    for name, value in sorted(values.items()):
        flag = f"--{name.replace('_', '-')}"
        if name in _NOT_THE_STACK:
            continue
        if name in _TOLD:
            notes.left_out.append(f"{flag}: {_TOLD[name]}")
        elif isinstance(value, bool):
            extra[name] = value
        elif isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
            extra[name] = int(value)
        elif isinstance(value, str) and _is_word(value):
            extra[name] = value
        else:
            notes.left_out.append(f"{flag}: its value has no place in a manifest")
    if extra:
        shown = ", ".join(f"--{name.replace('_', '-')}" for name in extra)
        notes.guesses.append(f"{shown}: taken as engine arguments; `suite launch --check` asks the stack")
    return extra


def _is_word(value: str) -> bool:
    try:
        TypeAdapter(Word).validate_python(value)
    except ValidationError:
        return False
    return True


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


# What vLLM takes where nothing is said. Some depend on version, card and model: hence guesses.
_DEFAULTS: tuple[tuple[str, Any, str], ...] = (
    ("kv_cache_dtype", "auto", "auto: the checkpoint decides"),
    ("dtype", "bfloat16", "bfloat16: vLLM takes the checkpoint's own"),
    ("max_num_batched_tokens", 2048, "2048: vLLM's choice depends on version and card"),
    ("max_num_seqs", 256, "256: vLLM's choice depends on version and card"),
    ("max_model_len", _DEFAULT_CONTEXT_TOKENS, f"{_DEFAULT_CONTEXT_TOKENS}: vLLM takes the model's longest"),
    ("enable_prefix_caching", True, "true: vLLM's choice depends on the model"),
)


def _split(settings: dict[str, Any], hardware: dict[str, Any], notes: _Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings to measure with, and what is served otherwise."""
    served = dict(settings)
    for name, value, told in _DEFAULTS:
        if name not in served:
            served[name] = value
            notes.guesses.append(f"{name} is not said, so {told}")
    served.setdefault("enforce_eager", False)
    served.setdefault("tensor_parallel_size", 1)
    measured = {
        k: v for k, v in served.items() if k not in ("speculative", "cudagraph_mode", "kv_sharing_fast_prefill")
    }
    measured |= {"enforce_eager": True, "enable_prefix_caching": False, "max_num_seqs": 1}
    if hardware["kind"] == "cpu":
        measured.setdefault("attention_backend", "CPU_ATTN")
    elif "attention_backend" not in measured:
        notes.guesses.append(
            "attention_backend is not said, so the engine chooses; `suite inspect-log` says what it took"
        )
    serve = {name: value for name, value in served.items() if measured.get(name) != value}
    return measured, serve


def _stack_name(flags: Flags) -> str:
    served = flags.values.get("served_model_name")
    given = served[0] if isinstance(served, tuple) else served
    text = given if isinstance(given, str) else PurePosixPath(flags.model or "").name
    name = _NAME.sub("-", text.lower()).lstrip("-._")[:80]
    return name or "adopted"
