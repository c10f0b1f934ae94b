"""Reads an engine's log line by line, by the wordings of vLLM 0.11 to 0.32.

A log is a weaker witness than a receipt, which is read back from inside the workers: it tells what was chosen, and for
which layers only where vLLM prints it. What it does not tell stays None; nothing is inferred from silence.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from suite.stack.log_report import Backend, LinearKernel, LogReport

_LINE_LIMIT_CHARACTERS = 65_536
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    r"^\s*(?:\([\w ./=:-]*\)\s*)*"
    r"(?:(?:INFO|WARNING|ERROR|DEBUG)\s+\d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\]\s*|[\w./]+:\d+\]\s*))?"
)
# How vLLM called its backends while it had no names for them.
_OLD_BACKENDS = {
    "Flash Attention": "FLASH_ATTN",
    "FlashInfer": "FLASHINFER",
    "Triton Attention": "TRITON_ATTN",
    "Triton": "TRITON_ATTN",
    "FlexAttention": "FLEX_ATTENTION",
    "Flex Attention": "FLEX_ATTENTION",
    "Torch SDPA": "TORCH_SDPA",
    "Cutlass MLA": "CUTLASS_MLA",
    "FlashMLA": "FLASHMLA",
    "FlashInfer MLA": "FLASHINFER_MLA",
    "Triton MLA": "TRITON_MLA",
}
# Graph modes as older versions printed them.
_GRAPH_NUMBERS = {
    "0": "NONE",
    "1": "PIECEWISE",
    "2": "FULL",
    "[2,0]": "FULL_DECODE_ONLY",
    "[2,1]": "FULL_AND_PIECEWISE",
}
_FP4_MARLIN = "Marlin, weight-only FP4, on the layers named by read-back"
_REQUESTED = (
    "attention_backend", "kv_cache_dtype", "dtype", "quantization", "tensor_parallel_size", "pipeline_parallel_size",
    "enforce_eager", "enable_prefix_caching", "max_num_batched_tokens", "max_num_seqs", "max_model_len",
    "gpu_memory_utilization", "kv_cache_memory_bytes", "gdn_prefill_backend", "linear_backend", "moe_backend",
    "disable_custom_all_reduce", "seed", "block_size", "cpu_offload_gb", "language_model_only",
)  # fmt: skip


def read_log(lines: Iterable[str]) -> LogReport:
    """Read a log. Lines that mean nothing here are passed over; nothing in a log makes this fail."""
    report = LogReport()
    for line in lines:
        if len(line) <= _LINE_LIMIT_CHARACTERS:
            text = _PREFIX.sub("", _ESCAPES.sub("", line).rstrip(), count=1)
            for pattern, take in _RULES:
                if match := pattern.search(text):
                    # A number of thousands of digits, or one with two points, means nothing here either.
                    with contextlib.suppress(ValueError, OverflowError):
                        take(report, match)
    return report


def _start(report: LogReport, match: re.Match[str]) -> None:
    report.vllm_version, config = match[1].removeprefix("v"), match[2]
    report.model = _quoted(config, "model")
    report.dtype = _word(config, "dtype")
    report.quantization = _word(config, "quantization")
    report.tensor_parallel_size = _number(_word(config, "tensor_parallel_size"))
    report.pipeline_parallel_size = _number(_word(config, "pipeline_parallel_size"))
    report.enforce_eager = _truth(_word(config, "enforce_eager"))
    report.enable_prefix_caching = _truth(_word(config, "enable_prefix_caching"))
    report.max_model_len = _number(_word(config, "max_seq_len")) or report.max_model_len
    kv = _word(config, "kv_cache_dtype")
    # Under `auto` the checkpoint decides, which this line does not tell; a line of its own may.
    if kv != "auto" and kv is not None:
        report.kv_cache_dtype = kv
    if mode := re.search(r"'cudagraph_mode': <CUDAGraphMode\.(\w+)", config):
        report.cudagraph_mode = mode[1]
    elif mode := re.search(r"[\"']cudagraph_mode[\"']: ?(\d|\[\d, ?\d\])", config):
        report.cudagraph_mode = _GRAPH_NUMBERS.get(mode[1].replace(" ", ""))


def _arguments(report: LogReport, match: re.Match[str]) -> None:
    for name in _REQUESTED:
        found = re.search(rf"'{name}': ('[^']*'|[\w.+-]+)", match[1])
        if found is not None:
            report.requested[name] = _literal(found[1])
    # A backend with a version of its own is asked for by a record.
    if found := re.search(
        r"'attention_config': .*?\bbackend\b'?[:=] ?['<]?(?:AttentionBackendEnum\.)?([A-Z_]+)", match[1]
    ):
        report.requested.setdefault("attention_backend", found[1])
    if found := re.search(r"'attention_config': .*?\bflash_attn_version\b'?[:=] ?(\d)", match[1]):
        report.requested["flash_attn_version"] = int(found[1])


def _backend(report: LogReport, match: re.Match[str]) -> None:
    candidates = tuple(re.findall(r"[A-Z][A-Z0-9_]+", match["from"] or "")) if "from" in match.groupdict() else ()
    chosen = Backend(name=match["name"], candidates=candidates)
    if chosen not in report.attention:
        report.attention.append(chosen)


def _old_backend(report: LogReport, match: re.Match[str]) -> None:
    name = _OLD_BACKENDS.get(match["name"])
    if name is not None and Backend(name=name, candidates=()) not in report.attention:
        report.attention.append(Backend(name=name, candidates=()))


def _unit_scale(report: LogReport, match: re.Match[str]) -> None:
    report.k_scale = report.v_scale = 1.0
    report.kv_cache_dtype = report.kv_cache_dtype or match[1]


def _size(report: LogReport, match: re.Match[str]) -> None:
    report.capacity = replace(report.capacity, tokens_from_line=_number(match[1]))


def _concurrency(report: LogReport, match: re.Match[str]) -> None:
    report.capacity = replace(report.capacity, length_tokens=_number(match[1]), concurrency=float(match[2]))


def _linear(report: LogReport, match: re.Match[str]) -> None:
    kernel = LinearKernel(kernel=match[1].rsplit(".", 1)[-1], layers=match[2].strip("'"))
    if kernel not in report.linear:
        report.linear.append(kernel)


def _all_reduce(report: LogReport, match: re.Match[str]) -> None:
    report.all_reduce = re.findall(r"'([^']+)'", match[1])


def _no_custom_all_reduce(report: LogReport, match: re.Match[str]) -> None:
    reason = re.split(r"\. To silence|\.$", match[1])[0]
    if (told := f"custom: {reason}") not in report.all_reduce_disabled:
        report.all_reduce_disabled.append(told)
    if "PCIe" in reason:
        report.interconnect = "PCIe"


def _eager(report: LogReport, _: re.Match[str]) -> None:
    report.enforce_eager, report.cudagraph_mode, report.graphs_captured = True, "NONE", False


def _sampling(report: LogReport, match: re.Match[str]) -> None:
    value = _literal(match[1])
    if isinstance(value, dict):
        report.sampling_defaults = {str(k): v for k, v in value.items() if isinstance(v, int | float | str)}


def _gpu(report: LogReport, match: re.Match[str]) -> None:
    index, name = int(match[1]), match[2].strip()
    if index == len(report.gpus):
        report.gpus.append(name)


def _driver_and_cuda(report: LogReport, match: re.Match[str]) -> None:
    report.driver, report.cuda = match[1], report.cuda or match[2]


def _power(report: LogReport, match: re.Match[str]) -> None:
    report.power_limit_watts = float(match[1])


def _set(name: str, convert: Callable[[str], Any] = str) -> Callable[[LogReport, re.Match[str]], None]:
    def take(report: LogReport, match: re.Match[str]) -> None:
        setattr(report, name, convert(match[1]))

    return take


def _fixed(name: str, value: Any) -> Callable[[LogReport, re.Match[str]], None]:
    def take(report: LogReport, _: re.Match[str]) -> None:
        setattr(report, name, value)

    return take


def _number(text: str | None) -> int | None:
    return int(text.replace(",", "")) if text is not None and re.fullmatch(r"[\d,]{0,19}\d", text) else None


def _truth(text: str | None) -> bool | None:
    return {"True": True, "False": False}.get(text or "")


def _word(config: str, name: str) -> str | None:
    """One `name=value` of the start line; None also where the value is `None`."""
    found = re.search(rf"(?:^|[ ,(]){name}=(?:torch\.)?([\w./-]+)", config)
    return None if found is None or found[1] == "None" else found[1]


def _quoted(config: str, name: str) -> str | None:
    found = re.search(rf"(?:^|[ ,]){name}='([^']*)'", config)
    return None if found is None else found[1]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text


def _capability(digits: str) -> str:
    return f"{digits[:-1]}.{digits[-1]}"


_RULES: tuple[tuple[re.Pattern[str], Callable[[LogReport, re.Match[str]], None]], ...] = tuple(
    (re.compile(pattern), take)
    for pattern, take in (
        (r"^Initializing a V1 LLM engine \((\S+)\) with config: (.*)", _start),
        (r"^non-default args: (\{.*)", _arguments),
        (r"^Resolved architecture: (\w+)", _set("architecture")),
        (r"^Using (?P<name>[A-Z][A-Z0-9_]+) attention backend out of potential backends: (?P<from>.*)", _backend),
        (r"^Using (?:AttentionBackendEnum\.)?(?P<name>[A-Z][A-Z0-9_]+) backend\.?$", _backend),
        (r"^Using (?P<name>[A-Z][A-Za-z ]+?) backend(?: on V1 engine)?\.?$", _old_backend),
        (r"^Using FlashAttention version (\d)", _set("flash_attention_version", int)),
        (r"^Using (\w+) data type to store kv cache", _set("kv_cache_dtype")),
        (r"^Using KV cache scaling factor 1\.0 for (\w+)", _unit_scale),
        (r"^(?:\w+ )?KV cache size: ([\d,]+) tokens", _size),
        (r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]{1,15})x", _concurrency),
        (r"^(?:Using|Selected) (\w+Kernel) for (.+?)\.?$", _linear),
        (r"^Using ([\w.-]+) for ((?:NVFP4|MXFP4|MXFP6|MXFP8)(?: GEMM)?)\b", _linear),
        (r"^Using '?(\w+)'? ((?:[\w ]+ )?MoE backend)\b", _linear),
        (r"FP4 quantization is being used.*leveraging the Marlin kernel", _fixed("fp4", _FP4_MARLIN)),
        (r"^Using (.+?) GDN prefill kernel", _set("gdn_prefill_kernel")),
        (r"^Using (\[.*?\]) all-reduce backends \(in dispatch order\) for group 'tp\b", _all_reduce),
        (r"Custom allreduce is disabled (?:because|due to)\s+(.*)", _no_custom_all_reduce),
        (r"^vLLM is using nccl==([\d.]+)", _set("nccl")),
        (r"\bNCCL version (\d[\d.]*)", _set("nccl")),
        (r"^Using V(\d) Model Runner", _set("model_runner", lambda digit: f"v{digit}")),
        (r"using the V1 model runner instead", _fixed("model_runner", "v1")),
        (r"^Enforce eager set|^Cudagraph is disabled under eager mode", _eager),
        (r"\bsetting cudagraph_mode[ =](?:CUDAGraphMode\.)?([A-Z_]+)", _set("cudagraph_mode")),
        (r"^Graph capturing finished", _fixed("graphs_captured", True)),
        (r"^Chunked prefill is enabled with max_num_batched_tokens=(\d{1,15})\b", _set("max_num_batched_tokens", int)),
        (r"^Using max model len (\d{1,15})\b", _set("max_model_len", int)),
        (r"sampling params from model: (\{[^}]*\})", _sampling),
        (r"overridden by the model's `?generation_config\.json`?: `?(\{[^}]*\})", _sampling),
        (r"^\s*GPU (\d+): ((?:NVIDIA|AMD) [^(]+)", _gpu),
        (r"^Nvidia driver version\s*: ([\d.]+)", _set("driver")),
        (r"Driver Version: ([\d.]+)\s+CUDA Version: ([\d.]+)", _driver_and_cuda),
        (r"^CUDA used to build PyTorch\s*: ([\d.]+)", _set("cuda")),
        (r"\b\d+W\s*/\s*(\d{1,6})W\b", _power),
        (r"(?:Current|Enforced) Power Limit\s*: ([\d.]{1,15}) W", _power),
        (r"\barch=sm(\d{2,3})\b", _set("compute_capability", _capability)),
        (r"^GPU\d\s.*\bNV(\d+)\b", _set("interconnect", lambda links: f"NVLink, {links} links")),
    )
)
