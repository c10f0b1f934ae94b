"""`suite verify`: compute a bundle's claims again and say what holds."""

from __future__ import annotations

import json
from pathlib import Path

import click

_MARKS = {"passed": "pass", "failed": "FAIL", "not done": "not done"}


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--captures",
    type=click.Path(path_type=Path, file_okay=False),
    help="Capture store that may hold the evidence; the local one by default.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def verify(bundles: tuple[Path, ...], captures: Path | None, as_json: bool) -> None:
    """Recompute every headline and hash of BUNDLES and, where the evidence is at hand, the whole ledger.

    Exit code 5 if anything does not follow from what it rests on; the first such thing is named.
    """
    from tabulate import tabulate

    from suite.bundle.verify import verify_bundle
    from suite.run.stored import replay_stored
    from suite.stack.home import suite_home

    store = captures or suite_home() / "captures"
    reports = []
    for path in bundles:
        reports.append(
            verify_bundle(
                path, captures=store if store.is_dir() else None, replay=replay_stored(store), root=Path.cwd()
            )
        )
        if not as_json:
            rows = [(_MARKS[c.outcome], c.name, c.detail) for c in reports[-1].checks]
            click.echo(f"{path}\n{tabulate(rows, tablefmt='plain')}\n")
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "reports": [report.to_json() for report in reports]}, indent=1))
    for report in reports:
        report.require_passed()
