"""`suite export`: write captures in other programs' formats."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def export() -> None:
    """Write captures in other programs' formats."""


@export.command("llama-kld")
@click.argument("capture", type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The base file to write.")
@click.option(
    "--tokens",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The rendered workload (`suite workload render --out`). An imported capture has its own tokens.",
)
@click.option("--context", "context_tokens", type=click.IntRange(min=3), help="Tokens of the chunk. [default: all]")
@click.option("--clip", type=click.Choice(["16", "24"]), help="16 for llama.cpp, 24 for ik_llama.cpp. [default: 16]")
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Interpreter with torch, to replay hidden states; $SUITE_VLLM_PYTHON by default.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def llama_kld(
    capture: Path,
    out: Path,
    tokens: Path | None,
    context_tokens: int | None,
    clip: str | None,
    python: Path | None,
    quiet: bool,
) -> None:
    """Write CAPTURE (a folder with index.json) as a base file for `llama-perplexity --kl-divergence`.

    The format wants every position of the second half of a context; capture that range.
    """
    from suite.capture.rows import open_rows
    from suite.capture.store import open_capture
    from suite.cli.progress import Progress
    from suite.llama.export import export_kld
    from suite.run.stored import replay_stored
    from suite.workload.rendered import Rendered

    token_ids = Rendered.from_json(tokens.read_bytes(), where=str(tokens)).token_ids if tokens else None
    opened = open_capture(capture)
    with Progress(quiet=quiet) as progress:
        written = export_kld(
            opened,
            out,
            rows=open_rows(opened, replay=replay_stored(python=python)) if opened.index.codec == "hidden" else None,
            token_ids=token_ids,
            context_tokens=context_tokens,
            clip_nats=int(clip) if clip else None,
            observer=progress.line(out.name),
        )
    header = written.header
    clip_text = f"clip max-{written.clip_nats}" if written.clip_nats else "no row clipped"
    click.echo(
        f"{out}: {header.num_rows:,} rows of {header.vocab_size:,} ids, {clip_text}; "
        f"chunks of {header.context_tokens} tokens: {header.num_chunks}"
    )
    if written.non_finite_rows:
        click.echo(f"rows that are not finite: {written.non_finite_rows}. llama-perplexity will print nan", err=True)
