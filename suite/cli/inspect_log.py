"""`suite inspect-log FILE`: what an engine really used, from its log or its receipt."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from suite.stack.log_report import LogReport

_LIMIT_BYTES = 256 << 20


@click.command("inspect-log")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Everything that was found, as JSON.")
def inspect_log(file: Path, as_json: bool) -> None:
    """Say what an engine really used: backend, KV cache and scales, kernels, graphs, capacity, hardware.

    FILE is a log of vLLM (also .gz, or - for standard input), or a receipt.json, which tells more: it was read back
    from inside the workers. What a log does not say is shown as not told.
    """
    from suite.bundle.show import shown
    from suite.cli.tables import plain_table
    from suite.files import read_json
    from suite.stack.engine_log import read_log
    from suite.stack.receipt_view import receipt_rows

    if file.suffix == ".json":
        receipt = read_json(file)
        if not isinstance(receipt, dict) or not (rows := receipt_rows(receipt)):
            from suite.errors import InvalidInput

            raise InvalidInput("not a receipt: it holds no ranks", where=str(file), hint="name a receipt.json or a log")
        value = receipt
    else:
        report = read_log(_lines(file))
        rows, value = _rows(report), report.to_json()
        if all(text == "not told" for _, text in rows):
            from suite.errors import InvalidInput

            raise InvalidInput(
                "no line of a vLLM server is in it", where=str(file), hint="name what the server printed from its start"
            )
    if as_json:
        click.echo(json.dumps(value, indent=1, sort_keys=True))
        return
    plain = [(name, shown(text, limit=160)) for name, text in rows]
    click.echo(plain_table(plain))


def _lines(file: Path) -> Iterator[str]:
    """Lines of a log of at most `_LIMIT_BYTES`, unpacked."""
    from suite.errors import InvalidInput

    read = 0
    try:
        with _stream(file) as stream:
            while block := stream.readline(1 << 20):
                read += len(block)
                if read > _LIMIT_BYTES:
                    raise InvalidInput(f"more than {_LIMIT_BYTES >> 20} MiB", where=str(file), hint="cut its start out")
                yield block.decode(errors="replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"not a whole gzip file: {error}", where=str(file), hint="copy it again") from error
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(file), hint="correct the name") from error


def _stream(file: Path) -> BinaryIO | gzip.GzipFile:
    if str(file) == "-":
        return sys.stdin.buffer
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")


def _rows(report: LogReport) -> list[tuple[str, str]]:
    told = {
        "vLLM": report.vllm_version,
        "model": report.model,
        "architecture": report.architecture,
        "FlashAttention": report.flash_attention_version,
        "dtype": report.dtype,
        "quantisation": report.quantization,
        "KV cache": report.kv_label,
        "KV capacity": report.capacity.message,
        "FP4": report.fp4,
        "GDN prefill": report.gdn_prefill_kernel,
        "tensor parallel": report.tensor_parallel_size,
        "all-reduce": ", then ".join(report.all_reduce) or None,
        "NCCL": report.nccl,
        "model runner": report.model_runner,
        "graphs": "none: eager" if report.enforce_eager else report.cudagraph_mode,
        "prefix caching": report.enable_prefix_caching,
        "chunk": report.max_num_batched_tokens,
        "longest": report.max_model_len,
        "GPUs": ", ".join(report.gpus) or None,
        "compute capability": report.compute_capability,
        "driver": report.driver,
        "CUDA": report.cuda,
        "power limit": None if report.power_limit_watts is None else f"{report.power_limit_watts:g} W",
        "interconnect": report.interconnect,
    }
    rows = [(name, "not told" if value is None else str(value)) for name, value in told.items()]
    attention = [
        ("attention", b.name + (f", chosen from {', '.join(b.candidates)}" if b.candidates else ""))
        for b in report.attention
    ]
    linear = [("linear layers", f"{k.kernel} for {k.layers}") for k in report.linear]
    disabled = [("taken out", text) for text in report.all_reduce_disabled]
    defaults = (
        [("sampling", f"not greedy by default: {report.sampling_defaults}")]
        if report.greedy_by_default is False
        else []
    )
    at = 3
    rows[at:at] = attention or [("attention", "not told")]
    return rows + linear + disabled + defaults + [("NOT TAKEN", text) for text in report.not_taken()]
