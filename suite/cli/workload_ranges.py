"""`suite workload ranges`: what to capture whole."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.stack.memory import ModelShape
    from suite.workload.ranges import Path_, Proposal

_MANIFEST_KINDS = {"tool calls": "tool_call", "assistant output": "assistant_output"}


@click.command("ranges")
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--tokenizer", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Model folder.")
@click.option(
    "--chat-template", type=click.Path(path_type=Path), metavar="FILE", help="Template in place of the model's own."
)
@click.option("--path", type=click.Choice(["prefill", "decode"]), default="prefill", show_default=True)
@click.option(
    "--around",
    type=click.IntRange(0, 10_000),
    default=16,
    show_default=True,
    metavar="TOKENS",
    help="Tokens on each side of a literal.",
)
@click.option(
    "--prefill-rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="TOKENS/S",
    help="Speed of reading. [default: one CPU thread, roughly]",
)
@click.option(
    "--decode-rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="TOKENS/S",
    help="Speed of forced writing.",
)
@click.option("--choose", metavar="NAME", help="Print this proposal as lines of a manifest.")
@click.option("--json", "as_json", is_flag=True, help="Print the proposals as JSON.")
def command(
    session: Path,
    tokenizer: Path,
    chat_template: Path | None,
    path: str,
    around: int,
    prefill_rate: float | None,
    decode_rate: float | None,
    choose: str | None,
    as_json: bool,
) -> None:
    """Propose ranges of SESSION to capture at every position, with their cost in bytes and minutes."""
    from suite.cli.workload import read_template
    from suite.workload.ranges import FLOPS_OF_A_CPU_THREAD, propose
    from suite.workload.render import render
    from suite.workload.session import load_session

    rendered = render(load_session(session), tokenizer, chat_template=read_template(chat_template))
    shape = _shape(tokenizer)
    rate = prefill_rate or (FLOPS_OF_A_CPU_THREAD / (2 * shape.num_parameters) if shape else None)
    proposals = propose(
        rendered,
        path=cast("Path_", path),
        around_tokens=around,
        shape=shape,
        prefill_tokens_per_second=rate,
        decode_tokens_per_second=decode_rate,
    )
    if choose is not None:
        click.echo(_manifest(proposals, choose, path))
        return
    if as_json:
        click.echo(json.dumps([asdict(proposal) for proposal in proposals], indent=1))
        return
    _print(proposals, rendered.num_tokens)
    given = "the rate given" if prefill_rate else "one CPU thread, a rough rate"
    click.echo(f"\nMinutes: one start, {given}. Bytes: one start, BF16.")
    click.echo("Take one with --choose NAME; beside it, `stride` keeps a probe every so many prompt tokens.")


def _shape(folder: Path) -> ModelShape | None:
    from suite.files import read_json
    from suite.stack.memory import model_shape

    return model_shape(read_json(folder / "config.json")) if (folder / "config.json").is_file() else None


def _print(proposals: tuple[Proposal, ...], num_tokens: int) -> None:
    from tabulate import tabulate

    rows = [
        [
            p.name,
            len(p.ranges),
            f"{p.num_probes:,}",
            f"{100 * p.num_probes / num_tokens:.1f} %",
            _size(p.logits_bytes),
            _size(p.hidden_bytes),
            "?" if p.minutes is None else f"{p.minutes:,.1f}",
            p.why,
        ]
        for p in proposals
    ]
    heads = ["proposal", "ranges", "probes", f"of {num_tokens:,}", "logits", "hidden", "minutes", "what it is"]
    click.echo(tabulate(rows, headers=heads, tablefmt="simple", disable_numparse=True))


def _size(size_bytes: int | None) -> str:
    return (
        "?"
        if size_bytes is None
        else f"{size_bytes / 1e9:,.2f} GB"
        if size_bytes >= 1e9
        else f"{size_bytes / 1e6:,.1f} MB"
    )


def _manifest(proposals: tuple[Proposal, ...], name: str, path: str) -> str:
    chosen = next((p for p in proposals if p.name == name), None)
    if chosen is None:
        names = ", ".join(repr(p.name) for p in proposals)
        raise InvalidInput("no such proposal", where="--choose", hint=f"this session has {names}")
    if kind := _MANIFEST_KINDS.get(name):
        ranges = f"{{kinds: [{kind}]}}"
    else:
        ranges = "[" + ", ".join(f"[{a}, {b}]" for a, b in chosen.ranges) + "]"
    return f"capture:\n  path: {path}\n  ranges: {ranges}"
