"""`suite run MANIFEST...`: measure stacks and write their bundles."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.run.execute import RunReport


@click.command()
@click.argument("manifests", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="MANIFEST...")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where bundles are written.",
)
@click.option("--repeats", type=click.IntRange(1, 100), help="Starts of each stack instead of the manifest's number.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="Starts side by side; by default as many as the CPU's cores allow, 1 on a GPU.",
)
@click.option(
    "--reference",
    "packs",
    multiple=True,
    metavar="PACK",
    help="A reference pack (file, folder or URL); may be given again. $SUITE_REFERENCES may list more, by spaces.",
)
@click.option(
    "--require-signature",
    "signers",
    multiple=True,
    metavar="KEY",
    help="Key id or public key file; one of those given must have signed a pack that is used.",
)
@click.option("--resume", is_flag=True, help="Go on from the whole chunks that an interrupted run left.")
@click.option(
    "--streaming",
    is_flag=True,
    help="Score while the engine runs: wants room for a second output head on the card.",
)
@click.option(
    "--skip-refused", is_flag=True, help="Leave out stacks that this machine is known not to run, instead of stopping."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def run(
    manifests: tuple[Path, ...],
    results: Path,
    repeats: int | None,
    jobs: int | None,
    packs: tuple[str, ...],
    signers: tuple[str, ...],
    resume: bool,
    streaming: bool,
    skip_refused: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure stacks: manifest in, verified result bundle out.

    Captures of stacks that were measured before are taken from the capture store ($SUITE_HOME, or ~/.cache/suite).
    A reference is looked up there, then in reference packs: those given, and those that references/index.json of the
    repository names. Only if none has it, it is run here.
    """
    from suite.cli.progress import Progress
    from suite.reference.signature import required_signers
    from suite.run.measure import measure
    from suite.run.table import report_json, report_table

    try:
        with Progress(quiet=quiet) as progress:
            _, report = measure(
                manifests,
                results=results,
                root=Path.cwd(),
                observer_for=progress.line,
                cancelled=threading.Event(),
                repeats=repeats,
                jobs=jobs,
                resume=resume,
                streaming=streaming,
                packs=packs,
                standing_packs=os.environ.get("SUITE_REFERENCES", "").split(),
                signers=required_signers(signers),
                skip_refused=skip_refused,
            )
    except KeyboardInterrupt:
        click.echo("interrupted; whole chunks are kept: run the same command with --resume to go on", err=True)
        sys.exit(130)
    if as_json:
        click.echo(json.dumps(report_json(report), indent=1, sort_keys=True))
    elif report.measured:
        click.echo(report_table(report))
    _fail(report)


def _fail(report: RunReport) -> None:
    for name, error in report.failed.items():
        click.echo(f"error: {name}: {error}", err=True)
    if report.failed:
        sys.exit(max(error.exit_code for error in report.failed.values()))
