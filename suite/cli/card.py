"""`suite card`: what a model card says about a divergence, written from a bundle or looked for in any card."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.group()
def card() -> None:
    """Write and check what model cards say about divergences."""


@card.command("block")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--site", metavar="URL", help="Link to the result's page on a site that `suite site build` made.")
@click.option("--badge", type=click.Path(path_type=Path), help="Write an SVG badge there, and show it in the block.")
def block(bundle: Path, site: str | None, badge: Path | None) -> None:
    """Print Markdown for a model card: scope, counts with intervals, repeat floor, band, and the full method of BUNDLE.

    Every figure is recomputed from the bundle's ledger first.
    """
    from suite.bundle.read import open_bundle
    from suite.card.badge import badge_svg
    from suite.card.block import card_block
    from suite.files import write_atomic

    opened = open_bundle(bundle)
    text = card_block(opened, site=site, badge=None if badge is None else badge.name)
    if badge is not None:
        write_atomic(badge, badge_svg(opened.record))
    click.echo(text, nl=False)


@card.command("lint")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Claims, fields and findings as one JSON object.")
def lint(file: Path, as_json: bool) -> None:
    """List what the divergence claims of FILE disclose, what they lack, and what contradicts what.

    FILE is a model card or guide in Markdown, with or without front matter, or JSON. Exit code 2 on any error, 0
    otherwise, also with warnings or without any claim.
    """
    from suite.card.lint import lint_file
    from suite.card.report import lines, to_json

    report = lint_file(file)
    if as_json:
        click.echo(json.dumps(to_json(report, file=str(file)), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        for line in lines(report):
            click.echo(line)
    if report.num_errors:
        sys.exit(2)
