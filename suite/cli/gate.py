"""`suite gate OLD NEW`: whether the new stack may replace the old one."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.compare.entries import Entry

_COUNT = click.IntRange(min=0)


@click.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
@click.option("--max-confident", type=_COUNT, help="Confident flips that NEW may have at most.")
@click.option("--max-leaning", type=_COUNT, help="Leaning flips that NEW may have at most.")
@click.option("--max-flips", type=_COUNT, help="Flips that NEW may have at most.")
@click.option("--max-kl", type=click.FloatRange(min=0), metavar="NATS", help="Mean KL(ref||cand) allowed to NEW.")
@click.option("--no-worse", is_flag=True, help="NEW must not be shown worse than OLD by the paired test. [default]")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where bundles of manifests are written.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def gate(
    old: Path,
    new: Path,
    max_confident: int | None,
    max_leaning: int | None,
    max_flips: int | None,
    max_kl: float | None,
    no_worse: bool,
    results: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Check whether NEW is worse than allowed: exit code 0 if not, 1 if it is.

    OLD and NEW are two bundles, or two manifests, of which what is missing is run first. Both are measured against the
    same reference; OLD may also be the manifest of NEW's reference. Without any rule, --no-worse holds.
    """
    from suite.compare.gate import Limits
    from suite.compare.gate import gate as hold_against

    rules = (max_confident, max_leaning, max_flips, max_kl)
    limits = Limits(
        confident=max_confident,
        leaning=max_leaning,
        flips=max_flips,
        kl_nats=max_kl,
        no_worse=no_worse or all(rule is None for rule in rules),
    )
    before, after = _entries(old, new, results, quiet=quiet)
    report = hold_against(before, after, limits)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=1, allow_nan=False))
    else:
        click.echo(report.scope)
        for rule in report.rules:
            click.echo(f"{'pass' if rule.passed else 'FAIL'}  {rule.rule}: {rule.detail}")
        if not limits.no_worse:
            click.echo("      no-worse: not asked for, so not tested")
        click.echo(
            f"{report.new} is not worse than allowed"
            if report.passed
            else f"{report.new} is worse than allowed: keep {report.old}"
        )
    if not report.passed:
        sys.exit(1)


def _entries(old: Path, new: Path, results: Path, *, quiet: bool) -> tuple[Entry | None, Entry]:
    from suite.compare.entries import load_entries
    from suite.errors import InvalidInput

    if old.is_dir() != new.is_dir():
        raise InvalidInput("one is a folder and the other a file", hint="name two bundles, or two manifests")
    if not old.is_dir():
        return _measured(old, new, results, quiet=quiet)
    # Together, so that two bundles of one name are called by their times.
    found = load_entries([old, new]).entries
    if len(found) > 2:
        raise InvalidInput(f"{len(found)} bundles are here", hint="name two bundles")
    return found[0], found[-1]


def _measured(old: Path, new: Path, results: Path, *, quiet: bool) -> tuple[Entry | None, Entry]:
    """Run both manifests; what the capture store holds already is not run again."""
    from suite.bundle.read import open_bundle
    from suite.cli.progress import Progress
    from suite.compare.entries import load_entry
    from suite.errors import InvalidInput
    from suite.run.measure import measure

    try:
        with Progress(quiet=quiet) as progress:
            prepared, report = measure(
                (old, new),
                results=results,
                root=Path.cwd(),
                observer_for=progress.line,
                cancelled=threading.Event(),
                standing_packs=os.environ.get("SUITE_REFERENCES", "").split(),
            )
    except KeyboardInterrupt:
        click.echo("interrupted; run the same command again to go on", err=True)
        sys.exit(130)
    for error in report.failed.values():
        raise error
    by_file = {stack.manifest.file: stack for stack in prepared.stacks}
    bundles = {measured.name: measured.bundle for measured in report.measured}
    ours, theirs = by_file[old.resolve()], by_file[new.resolve()]
    before, after = bundles[ours.label], bundles[theirs.label]
    if after is None:
        raise InvalidInput("the new stack names no reference", where=str(new), hint="add `reference` to its manifest")
    if before is None and theirs.manifest.reference_file != ours.manifest.file:
        raise InvalidInput("the old stack is a reference, and not that of the new one", where=str(old))
    return None if before is None else load_entry(open_bundle(before)), load_entry(open_bundle(after))
