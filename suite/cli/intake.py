"""`suite intake`: look at what a stranger sent, and say whether it may be taken in."""

from __future__ import annotations

import json
from pathlib import Path

import click

_MARKS = {"passed": "pass", "failed": "FAIL", "not done": "not done"}


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Results folder that it would join; duplicates and contradictions are looked for there.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def intake(path: Path, results: Path | None, as_json: bool) -> None:
    """Check what a stranger sent: a folder, or a .tar, .tar.gz, .tar.zst or .zip.

    That is a bundle, a submission, an attestation, or a reference or evidence pack with its head.

    Nothing in it is run, and nothing is written. A process with bounded memory and time reads it. Exit code 5 if it is
    hostile or contradicts itself or the results folder, 2 if nothing that can be taken in is there.
    """
    from suite.cli.tables import plain_table
    from suite.intake.intake import take_in

    report = take_in(path, results=results)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=1))
    else:
        if report.checks:
            rows = [(_MARKS[check.outcome], check.name, check.detail) for check in report.checks]
            click.echo(f"{plain_table(rows)}\n")
        if report.accepted:
            tier = f", {report.tier}" if report.tier else ""
            of = f" of {report.bundle_id}" if report.bundle_id else ""
            click.echo(f"accepted: {report.what}{of}{tier}")
        for finding in report.findings[1:]:
            click.echo(f"also: {finding}", err=True)
    report.require_accepted()
