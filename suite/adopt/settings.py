"""From a server's flags to settings of an engine: those to measure with, those to serve with, and what has no place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from suite.adopt.flags import whole_number
from suite.errors import InvalidInput
from suite.manifest.engine import Engine, Word

_DEFAULT_CONTEXT_TOKENS = 32_768
_MIB = 1 << 20

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


@dataclass(kw_only=True, slots=True)
class Notes:
    """What a person has to be told; grows on the way."""

    guesses: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def settings_of(values: dict[str, Any], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
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


def _attention(values: dict[str, Any], found: dict[str, Any], notes: Notes) -> None:
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


def _compilation(values: dict[str, Any], found: dict[str, Any], notes: Notes) -> None:
    config = values.pop("compilation_config", None)
    if isinstance(config, dict):
        config = dict(config)
        if mode := config.pop("cudagraph_mode", None):
            found["cudagraph_mode"] = str(mode).upper()
        _rest("compilation-config", config, notes)
    elif config is not None:
        notes.left_out.append("--compilation-config: it is not JSON")


def _speculative(values: dict[str, Any], found: dict[str, Any], notes: Notes) -> None:
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


def _memory(values: dict[str, Any], found: dict[str, Any], notes: Notes) -> None:
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


def _rest(flag: str, config: dict[str, Any], notes: Notes) -> None:
    notes.left_out += [f"--{flag}.{key}: no key of a manifest stands for it" for key in sorted(config)]


def extra_of(values: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """Engine arguments that have no key of their own.

    Raises:
        InvalidInput: one has, and its value could not be read for it.
    """
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
    if unread := sorted(extra.keys() & Engine.model_fields.keys()):
        flag, value = f"--{unread[0].replace('_', '-')}", extra[unread[0]]
        raise InvalidInput(
            f"{flag} has no value" if value is True else f"{flag} does not take {value!r}",
            where="command",
            hint="correct it, or leave the flag out",
        )
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


# What vLLM takes where nothing is said. Some depend on version, card and model: hence guesses.
_DEFAULTS: tuple[tuple[str, Any, str], ...] = (
    ("kv_cache_dtype", "auto", "auto: the checkpoint decides"),
    ("dtype", "bfloat16", "bfloat16: vLLM takes the checkpoint's own"),
    ("max_num_batched_tokens", 2048, "2048: vLLM's choice depends on version and card"),
    ("max_num_seqs", 256, "256: vLLM's choice depends on version and card"),
    ("max_model_len", _DEFAULT_CONTEXT_TOKENS, f"{_DEFAULT_CONTEXT_TOKENS}: vLLM takes the model's longest"),
    ("enable_prefix_caching", True, "true: vLLM's choice depends on the model"),
)


def measured_and_served(
    settings: dict[str, Any], hardware: dict[str, Any], notes: Notes
) -> tuple[dict[str, Any], dict[str, Any]]:
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
