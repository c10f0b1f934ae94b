"""`suite llama`: the statistics of llama-perplexity from two base files, and a check of its command lines."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from suite.llama.pair import Pair
    from suite.llama.statistics import Figure

_FILE = click.Path(dir_okay=False, path_type=Path)
_TEXT = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)

_TEXT_BYTES = 16 << 20


@click.group()
def llama() -> None:
    """Check llama.cpp's numbers, and its command lines."""


@llama.command("stats")
@click.argument("base", type=_FILE)
@click.argument("candidate", type=_FILE)
@click.option(
    "--clip",
    type=click.Choice(["16", "24", "auto"]),
    default="auto",
    show_default=True,
    help="How far below its best token the files reach: 16 nats (llama.cpp) or 24 (ik_llama.cpp).",
)
@click.option("--printed", type=_TEXT, help="What llama-perplexity printed for the pair, to stand beside.")
@click.option("--plain", is_flag=True, help="Only llama-perplexity's own text, by its formulas.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def stats(
    base: Path, candidate: Path, clip: str, printed: Path | None, plain: bool, as_json: bool, quiet: bool
) -> None:
    """The statistics that llama-perplexity prints, from the base files of two models over the same text.

    Each figure twice: by the tool's own formulas, and in FP64 from distributions that sum to 1. The tool takes the
    candidate's rows from the running model; here they come from a file, clipped and coded as the base's are.
    """
    from typing import cast

    from suite.cli.progress import Progress
    from suite.cli.tables import plain_table
    from suite.llama.clip import ClipChoice
    from suite.llama.pair import compare_files
    from suite.llama.printed import parse_printed, render_printed
    from suite.llama.statistics import PRINTED_FROM_ROWS, summary_statistics

    beside: dict[str, Figure] = {}
    if printed is not None:
        beside = {figure.name: figure for figure in parse_printed(_text(printed), where=str(printed))}
    with Progress(quiet=quiet) as progress:
        pair = compare_files(base, candidate, clip=cast(ClipChoice, clip), observer=progress.line(candidate.name))
    own, ours = summary_statistics(pair.own), summary_statistics(pair.renormalised)
    if as_json:
        click.echo(json.dumps(_as_data(pair, own, ours, beside), indent=1, ensure_ascii=False, allow_nan=False))
        return
    if plain:
        click.echo(render_printed(own), nl=False)
        return
    rows = [
        (mine.name, *([_cell(beside.get(mine.name))] if beside else []), _cell(mine), _cell(normal))
        for mine, normal in zip(own, ours, strict=True)
    ]
    headers = ("", *(["printed"] if beside else []), "its formulas", "renormalised FP64")
    click.echo(plain_table(rows, headers))
    click.echo(f"\nn = {len(pair.own)} rows in {_count(pair.num_chunks, 'chunk')}. Base: {pair.base.clip.text()}.")
    click.echo(f"Candidate: {pair.candidate.clip.text()}.")
    click.echo(
        f"Stored rows sum to as much as {pair.largest_mass:.4f}, because clipped ids come back too likely; "
        "the last column divides by the sum."
    )
    clipped = pair.base.clipped_targets, pair.candidate.clipped_targets
    if any(clipped):
        click.echo(f"Targets at the clip, whose NLL is at least what is stored: base {clipped[0]}, Q {clipped[1]}.")
    click.echo("± takes rows as independent, as the tool does; `suite score` resamples chunks instead.")
    if len(pair.own) < PRINTED_FROM_ROWS:
        click.echo(f"llama-perplexity prints no summary below {PRINTED_FROM_ROWS} rows.")


@llama.command("lint")
@click.argument("file", type=_TEXT)
@click.option("--json", "as_json", is_flag=True, help="Write the findings as JSON.")
def lint(file: Path, as_json: bool) -> None:
    """Check the llama-perplexity commands in FILE (- for standard input): the base's first, then the candidates'.

    Exit code 2 on any error, 0 otherwise, also with warnings.
    """
    from suite.llama.lint import lint_text

    findings = lint_text(_text(file), where=str(file))
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(f"{finding.severity}: {finding.message}\n  {finding.hint}")
        click.echo(f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}")
    if errors:
        sys.exit(2)


def _text(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read(_TEXT_BYTES)
    with path.open("rb") as stream:
        return stream.read(_TEXT_BYTES).decode("utf-8", errors="replace")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    digits = 3 if figure.unit else 6
    half = "" if figure.half_width is None else f" ± {figure.half_width:.{digits}f}"
    return f"{figure.value:.{digits}f}{half}{' %' if figure.unit else ''}"


def _as_data(
    pair: Pair, own: tuple[Figure, ...], ours: tuple[Figure, ...], beside: dict[str, Figure]
) -> dict[str, Any]:
    def numbers(figure: Figure | None) -> dict[str, float | None] | None:
        if figure is None:
            return None
        return {"value": figure.value if math.isfinite(figure.value) else None, "half_width": figure.half_width}

    sides = {
        name: {
            "sha256": survey.sha256,
            "clip": {"nats": survey.clip.nats, "source": survey.clip.source, "largest_span": survey.clip.span_nats},
            "clipped_targets": survey.clipped_targets,
        }
        for name, survey in (("base", pair.base), ("candidate", pair.candidate))
    }
    return {
        "schema_version": 1,
        "n": len(pair.own),
        "chunks": pair.num_chunks,
        **sides,
        "largest_row_sum": pair.largest_mass,
        "figures": [
            {
                "name": mine.name,
                "unit": mine.unit,
                "its_formulas": numbers(mine),
                "renormalised": numbers(normal),
                **({"printed": numbers(beside.get(mine.name))} if beside else {}),
            }
            for mine, normal in zip(own, ours, strict=True)
        ],
    }
