"""`suite plan MANIFEST...`: what `run` would do, without running."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.run.plan import StackPlan


@click.command()
@click.argument("manifests", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="MANIFEST...")
@click.option("--repeats", type=click.IntRange(1, 100), help="Starts of each stack instead of the manifest's number.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array on standard output.")
def plan(manifests: tuple[Path, ...], repeats: int | None, as_json: bool) -> None:
    """Say what `run` would do: missing starts, probes, disk, memory, time and obstacles. Starts and fetches nothing.

    Exit code 0 when the run can start, 3 when something stands against it.
    """
    from suite.run.plan import plan as make_plan
    from suite.stack.home import suite_home

    plans = make_plan(manifests, home=suite_home(), root=Path.cwd(), repeats=repeats)
    if as_json:
        click.echo(json.dumps([item.to_json() for item in plans], indent=1, sort_keys=True))
    else:
        click.echo(_text(plans))
    if any(item.obstacles for item in plans):
        sys.exit(3)


def _text(plans: list[StackPlan]) -> str:
    from tabulate import tabulate

    headers = ("stack", "role", "stored", "to run", "probes", "disk GB", "memory GB", "of", "minutes")
    lines = [tabulate([_row(item) for item in plans], headers=headers, disable_numparse=True)]
    for item in plans:
        if item.starts_missing and item.seconds is not None:
            lines.append(f"{item.name}: time from {item.seconds_from}")
        lines += [f"{item.name}: {note}" for note in item.notes]
        lines += [f"{item.name}: cannot run: {obstacle}" for obstacle in item.obstacles]
    return "\n".join(lines)


def _row(item: StackPlan) -> tuple[str, ...]:
    def scaled(value: float | None, unit: float, digits: int) -> str:
        return "?" if value is None else f"{value / unit:.{digits}f}"

    return (
        item.name,
        item.role,
        str(len(item.starts_stored)),
        str(len(item.starts_missing)) if item.num_probes is not None else "?",
        "?" if item.num_probes is None else f"{item.num_probes:,}",
        scaled(item.disk_bytes, 1e9, 2),
        scaled(item.device_bytes, 1e9, 1),
        scaled(item.available_bytes, 1e9, 1),
        scaled(item.seconds, 60, 1),
    )
