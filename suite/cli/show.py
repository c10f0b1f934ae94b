"""`suite show`: a bundle's headline counts in one screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.bundle.read import Bundle

_GROUPS = ("key", "n", "flips", "tied", "uncertain", "leaning", "confident", "off-policy")


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--by", type=click.Choice(["window", "range", "turn", "span"]), help="Add the counts of each window, range, ..."
)
@click.option("--json", "as_json", is_flag=True, help="The bundle's record as one JSON object.")
def show(bundle: Path, by: str | None, as_json: bool) -> None:
    """Print what BUNDLE claims: counts with n, repeat floor, numerical band, factors, requested and effective settings.

    Its files must be those that its record names; nothing is recomputed: `suite verify` does that.
    """
    from suite.branch.show import summary_line
    from suite.bundle import show as view
    from suite.bundle.arbiter import SIDES, read_arbiter
    from suite.bundle.read import open_bundle
    from suite.cli.tables import plain_table
    from suite.replay.table import survival_line

    opened = open_bundle(bundle)
    opened.require_unchanged()
    record = opened.record
    if as_json:
        # Optional keys that the file does not have are not printed either.
        click.echo(json.dumps(record.model_dump(mode="json", exclude_unset=True), indent=1))
        return

    def table(rows: view.Table, headers: tuple[str, ...] = ()) -> None:
        click.echo(plain_table(rows, headers) + "\n")

    click.echo(f"{record.name}  {record.created}  lock {record.lock_digest[:12]}")
    click.echo(f"{view.scope_line(record)}\n{view.causal_line(record)}\n")
    table(view.count_table(record))
    table(view.divergence_table(record), ("nats", "mean", "median", "p90", "p99", "p99.9", "max"))
    if record.band:
        table(view.band_table(record), ("numerical band", "flips", "tied", "confident"))
    if by:
        table(view.group_table(getattr(record.headlines, f"by_{by}")), (by, *_GROUPS[1:]))
    if record.branches is not None:
        click.echo(f"{summary_line(record.name, record.branches)} See `suite branches`.\n")
    for text in map(survival_line, record.replays or ()):
        click.echo(f"{text}\n")
    if arbiter := read_arbiter(opened):
        table(view.arbiter_table(arbiter), ("arbiter: whose top-1", *SIDES))
    if record.factors:
        table(view.factor_table(record.factors), ("factor", "reference", "candidate"))
    if record.consequent:
        table(view.factor_table(record.consequent, reasons=True), ("consequent", "reference", "candidate", "why"))
    if settings := view.settings_table(opened):
        table(settings, ("setting", "requested", "effective", ""))
    if ran := view.ran_table(opened):
        table(ran, ("what ran", ""))
    click.echo(f"{_launch(opened)}\n")
    click.echo("BF16 is a reference, not the truth. Not verified here: suite verify")


def _launch(bundle: Bundle) -> str:
    """The launch command of a bundle; a lock that nobody should launch is told instead."""
    from suite.cli.launch import launch_text
    from suite.errors import SuiteError
    from suite.stack.launch import launch

    try:
        return launch_text(launch(bundle.lock()))
    except SuiteError as error:
        return f"not shown: {error}"
