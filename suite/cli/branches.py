"""`suite branches`: what became of a bundle's flips."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--show", "position", type=click.IntRange(min=0), metavar="POSITION", help="One fork, both futures side by side."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def branches(bundle: Path, position: int | None, as_json: bool) -> None:
    """List the forks that BUNDLE followed, and what became of each.

    Nothing is recomputed; `suite verify` does that. Nothing generated was ever executed.
    """
    from suite.branch import show as view
    from suite.bundle.branches import read_branches
    from suite.bundle.read import open_bundle
    from suite.cli.tables import plain_table
    from suite.errors import InvalidInput

    opened = open_bundle(bundle)
    first, last = (0, None) if position is None else (position, position)
    found = read_branches(opened, first=first, last=last)
    headlines = opened.record.branches
    if found is None or headlines is None:
        raise InvalidInput(
            "this bundle follows no flips",
            where=str(bundle),
            hint="run its manifest with `branches: {policy: flips}` (see docs/branches.md)",
        )
    if position is not None and not found.forks:
        raise InvalidInput(
            f"no flip was followed at position {position}",
            where=str(bundle),
            hint=f"`suite branches {bundle}` lists those that were",
        )
    if as_json:
        value = {
            "schema_version": 1,
            "branches": headlines.model_dump(mode="json"),
            "record": found.record.model_dump(mode="json"),
            "forks": [fork.model_dump(mode="json") for fork in found.forks],
        }
        click.echo(json.dumps(value, indent=1))
        return

    def table(rows: view.Table, headers: tuple[str, ...]) -> None:
        click.echo(plain_table(rows, headers) + "\n")

    if position is not None:
        fork = found.forks[0]
        click.echo(f"position {fork.position}: {fork.flip_class} flip in {fork.span_kind}, message {fork.turn}\n")
        table(view.top_table(fork), ("reference", "p", "candidate", "p"))
        width = shutil.get_terminal_size((120, 24)).columns
        click.echo("\n".join(view.fork_lines(fork, found.record, width=width)))
        return
    table(view.count_table(headlines, found.forks), view.COUNT_HEADERS)
    table(view.fork_table(found.forks), view.FORK_HEADERS)
    click.echo(
        f"Futures of at most {found.record.policy.max_new_tokens:,} tokens, greedy, prefix caching on. Not used: "
        "branching, a stack wrote another first token than it had captured."
    )
