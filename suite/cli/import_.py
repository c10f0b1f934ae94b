"""`suite import`: bring other programs' files into the capture store."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group("import")
def import_() -> None:
    """Bring other programs' files into the capture store."""


@import_.command("llama-kld")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--clip",
    type=click.Choice(["16", "24", "auto"]),
    default="auto",
    show_default=True,
    help="How far below its best token the file reaches: 16 nats (llama.cpp) or 24 (ik_llama.cpp).",
)
@click.option("--json", "as_json", is_flag=True, help="Write what was imported as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def llama_kld(file: Path, clip: str, as_json: bool, quiet: bool) -> None:
    """Import FILE, written by `llama-perplexity --kl-divergence-base`, as a capture.

    Two such files can also be scored as they are; an import is for keeping, and for tools that read captures.
    """
    from typing import cast

    from suite.cli.progress import Progress
    from suite.llama.clip import Clip, ClipChoice
    from suite.llama.importing import import_kld
    from suite.llama.sidecar import read_sidecar
    from suite.stack.home import suite_home

    with Progress(quiet=quiet) as progress:
        capture = import_kld(file, home=suite_home(), clip=cast(ClipChoice, clip), observer=progress.line(file.name))
    index, sidecar = capture.index, read_sidecar(capture.folder, capture.index)
    receipt = sidecar.receipt
    known = Clip(nats=receipt.clip_nats, source=receipt.clip_source, span_nats=receipt.largest_span_nats)
    if as_json:
        data = receipt.model_dump(mode="json") | {
            "capture": str(capture.folder),
            "num_rows": index.num_rows,
            "non_finite_rows": index.non_finite_rows,
            "mean_nll": index.sanity.mean_nll,
        }
        click.echo(json.dumps(data, indent=1, sort_keys=True))
        return
    click.echo(str(capture.folder))
    click.echo(
        f"{index.num_rows:,} rows of {index.vocab_size:,} ids; chunks of {receipt.context_tokens} tokens: "
        f"{receipt.num_chunks}"
    )
    click.echo(known.text())
    if receipt.clipped_targets:
        click.echo(f"targets at the clip, whose NLL is at least what is stored: {receipt.clipped_targets}")
    if index.non_finite_rows:
        click.echo(f"rows that are not finite: {index.non_finite_rows}. Nothing in this file may be quoted")
