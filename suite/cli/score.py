"""`suite score REF CAND`: two captures, or two base files of llama.cpp, without bundles."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.score.intervals import LedgerIntervals
    from suite.score.summary import Headlines

_SPREAD = ("nats", "mean", "95 %", "median", "p90", "p99", "p99.9", "max")


@click.command()
@click.argument("ref", type=click.Path(exists=True, path_type=Path))
@click.argument("cand", type=click.Path(exists=True, path_type=Path))
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Keep the ledger (Parquet).")
@click.option(
    "--rendered",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The rendered session that was captured: gives turns, and so intervals, and span kinds.",
)
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Interpreter with torch, to replay hidden states; $SUITE_VLLM_PYTHON by default.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def score(
    ref: Path, cand: Path, ledger: Path | None, rendered: Path | None, python: Path | None, as_json: bool, quiet: bool
) -> None:
    """Score capture CAND against capture REF in FP64 over the full vocabulary.

    Each is a folder of the capture store, or a base file of llama.cpp. Captures must be of the same tokens, path and
    positions. With rows that are not finite: counts, no mean, and exit code 4.
    """
    from suite.cli.progress import Progress
    from suite.run.sides import labels_for, open_side, read_rendered
    from suite.run.stored import replay_stored
    from suite.score.intervals import ledger_intervals
    from suite.score.ledger import read_ledger
    from suite.score.report import score_json
    from suite.score.scorer import write_scores
    from suite.score.summary import require_valid, summarise
    from suite.score.turns import NO_TURN

    session = None if rendered is None else read_rendered(rendered)
    replay = replay_stored(python=python)
    with Progress(quiet=quiet) as progress, tempfile.TemporaryDirectory(prefix="suite-score-") as folder:
        observer = progress.line("score")
        sides = [open_side(path, replay=replay, observer=observer) for path in (ref, cand)]
        path = ledger or Path(folder) / "ledger.parquet"
        labels = labels_for(sides[0], sides[1], session)
        write_scores(path, sides[0].rows, sides[1].rows, labels=labels, observer=observer)
        scored = read_ledger(path)
    headlines, intervals = summarise(scored), ledger_intervals(scored)
    if as_json:
        click.echo(json.dumps(score_json(headlines, intervals), indent=1, allow_nan=False))
    else:
        _print(headlines, intervals)
        if (scored.columns["turn"] == NO_TURN).all():
            click.echo("Give the rendered session with --rendered, and there are turns.")
    require_valid(headlines)


def _print(headlines: Headlines, intervals: LedgerIntervals) -> None:
    from suite.cli.tables import plain_table
    from suite.compare.comparison import MUST_NOT
    from suite.score.report import count_rows, divergence_rows

    off = headlines.off_policy
    click.echo(
        f"Scope: {headlines.n:,} probes of one token sequence, {headlines.path} path, vocabulary "
        f"{headlines.vocab_size:,}; ties: lowest id. Off-policy: at {off.count:,} of {off.n:,} probes the reference's "
        f"top-1 is not the recorded token.\n{MUST_NOT}\n"
    )
    for rows, headers in (
        (count_rows(headlines, intervals), ("", "count", "95 %")),
        (divergence_rows(headlines, intervals), _SPREAD),
    ):
        if rows:
            click.echo(plain_table(rows, headers) + "\n")
    click.echo(intervals.told)
