"""`suite compare BUNDLE...`: several bundles of one cohort in one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from suite.compare.grouping import By
    from suite.compare.metrics import MetricName
    from suite.compare.table import Style

# Written out, because help must not import what the table needs; a test compares them.
SORTS = ("flips", "confident", "leaning", "uncertain", "tied", "kl", "kl-reverse", "jsd", "tv")


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="BUNDLE...")
@click.option("--sort", type=click.Choice(SORTS), default="flips", show_default=True, help="What rows are ranked by.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["table", "github", "json", "csv"]),
    default="table",
    show_default=True,
    help="How the table is written.",
)
@click.option(
    "--by", type=click.Choice(["window", "range", "turn", "span"]), help="Add the counts of each window, range, ..."
)
def compare(bundles: tuple[Path, ...], sort: str, style: str, by: str | None) -> None:
    """Compare bundles that were measured against the same reference rows at the same probes.

    BUNDLE is a bundle, or a folder of results, of which the latest bundle of each name is taken. Counts stand with
    intervals beside repeat floor and numerical band. Rows that the paired test does not separate share a rank.
    """
    from suite.compare.comparison import compare as compare_bundles
    from suite.compare.data import to_csv, to_json
    from suite.compare.table import render

    comparison = compare_bundles(bundles, sort=cast("MetricName", sort))
    group = cast("By | None", by)
    if style == "json":
        click.echo(json.dumps(to_json(comparison, by=group), indent=1, allow_nan=False))
    elif style == "csv":
        click.echo(to_csv(comparison, by=group), nl=False)
    else:
        click.echo(render(comparison, style=cast("Style", style), by=group))
