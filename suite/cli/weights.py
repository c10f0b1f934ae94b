"""`suite weights`: compare the tensors of checkpoints."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def weights() -> None:
    """Compare the tensors of checkpoints."""


@weights.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--names", is_flag=True, help="Name every tensor that is not the same.")
@click.option("--json", "as_json", is_flag=True, help="Groups, names and the SHA-256 of every tensor as JSON.")
def diff(a: Path, b: Path, names: bool, as_json: bool) -> None:
    """Say which tensors of two checkpoints hold the same bytes: language, vision, MTP, head and scales.

    A and B are checkpoint folders, single safetensors files, or manifests whose model is here. Files are streamed; no
    model is loaded. Exit code 0 however much they differ.
    """
    from suite.bundle.show import shown
    from suite.cli.progress import Progress
    from suite.cli.tables import plain_table
    from suite.files import pretty_json
    from suite.model.weights import diff_weights

    with Progress() as progress:
        found = diff_weights(_folder(a), _folder(b), observer=progress.line("weights"))
    if as_json:
        click.echo(pretty_json(found.to_json()), nl=False)
        return
    rows = [
        (
            group.name,
            f"{group.same} of {group.total}",
            *(str(len(part)) for part in (group.renamed, group.changed, group.reshaped, group.only_a, group.only_b)),
        )
        for group in found.groups
    ]
    headers = ("tensors", "identical", "of these renamed", "other bytes", "other type", "only in A", "only in B")
    click.echo(plain_table(rows, headers))
    if names:
        for group in found.groups:
            for word, part in (
                ("other bytes", group.changed),
                ("other type", group.reshaped),
                ("only in A", group.only_a),
                ("only in B", group.only_b),
            ):
                for name in part:
                    click.echo(f"{word}: {shown(name, limit=200)}")


def _folder(path: Path) -> Path:
    if path.suffix not in (".yaml", ".yml"):
        return path
    from suite.errors import MissingPrerequisite
    from suite.manifest.load import load_manifest
    from suite.model.ensure import find_model
    from suite.model.source import source_of
    from suite.stack.home import suite_home

    manifest = load_manifest(path)
    folder = find_model(source_of(manifest.model, manifest=manifest.file), home=suite_home())
    if folder is None:
        raise MissingPrerequisite("its model is not here", where=str(path), hint=f"suite model fetch {path}")
    return folder
