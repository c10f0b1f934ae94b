"""`suite sbom`: list what a stack is made of, and compare two lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.errors import InvalidInput, VerificationFailed

if TYPE_CHECKING:
    from suite.sbom.diff import SbomDiff
    from suite.sbom.interface import Component

_FORMATS = click.Choice(["cyclonedx", "spdx", "json"])
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def sbom() -> None:
    """List what a stack is made of: Debian packages, Python distributions, and files that neither owns."""


@sbom.command()
@click.option("--root", type=_FOLDER, default=Path("/"), show_default=True, help="Folder to read as a machine's root.")
@click.option(
    "--site-packages",
    type=_FOLDER,
    multiple=True,
    help="Read only this Python environment (repeatable). Default: all in the usual places under the root.",
)
@click.option("--inventory", type=_FILE, help="Convert this inventory.json instead of reading a root.")
@click.option("--image", metavar="NAME", help="Read this image of the container engine instead, by digest or id.")
@click.option("--container", metavar="NAME", help="Read this running container instead.")
@click.option("--unowned/--no-unowned", default=True, show_default=True, help="Hash ELF files that no package owns.")
@click.option("--format", "style", type=_FORMATS, default="cyclonedx", show_default=True, help="What to write.")
@click.option("--out", type=_FILE, help="File to write. Default: standard output.")
def collect(
    root: Path,
    site_packages: tuple[Path, ...],
    inventory: Path | None,
    image: str | None,
    container: str | None,
    unowned: bool,
    style: str,
    out: Path | None,
) -> None:
    """Collect an SBOM. The same root gives the same bytes; counts and findings go to standard error."""
    from suite.agent.inventory import collect_inventory, inventory_bytes
    from suite.files import write_atomic
    from suite.sbom.components import components_of, count_by_kind
    from suite.sbom.cyclonedx import render_cyclonedx
    from suite.sbom.read import read_bounded
    from suite.sbom.schema import load_inventory
    from suite.sbom.spdx import render_spdx

    if sum(source is not None for source in (inventory, image, container)) > 1:
        raise InvalidInput("more than one source", where="--inventory, --image, --container", hint="name one of them")
    if inventory is not None:
        raw = read_bounded(inventory)
    elif image is not None or container is not None:
        raw = _from_engine(image, container)
    else:
        raw = inventory_bytes(collect_inventory(root, list(site_packages) or None, unowned))
    parsed = load_inventory(raw, where=str(inventory or image or container or root))
    data = raw if style == "json" else render_spdx(parsed) if style == "spdx" else render_cyclonedx(parsed)
    if out is None:
        click.echo(data, nl=False)
    else:
        write_atomic(out, data)
    counts = count_by_kind(components_of(parsed))
    click.echo(", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing found", err=True)
    for finding in parsed.findings[:20]:
        click.echo(f"finding: {finding.code}: {finding.path}: {finding.detail}", err=True)
    if len(parsed.findings) > 20:
        click.echo(f"and {len(parsed.findings) - 20} more findings, all in the file", err=True)


def _from_engine(image: str | None, container: str | None) -> bytes:
    from suite.cli.progress import Progress
    from suite.image.engine import connected
    from suite.sbom.container import inventory_of_container, inventory_of_image
    from suite.stack.home import suite_home

    with Progress() as progress, connected() as engine:
        if container is not None:
            return inventory_of_container(container, engine=engine, observer=progress.line(container))
        assert image is not None
        return inventory_of_image(image, engine=engine, home=suite_home(), observer=progress.line(image))


@sbom.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Write the differences as JSON.")
@click.option("--require-equal", is_flag=True, help="Exit with code 5 if anything differs.")
def diff(before: Path, after: Path, as_json: bool, require_equal: bool) -> None:
    """Compare two bundles, CycloneDX, SPDX or inventory files: added, removed, changed.

    Exit code 0 whether or not something differs: a difference is an answer. See --require-equal.
    """
    from suite.files import pretty_json
    from suite.sbom.diff import diff_components
    from suite.sbom.read import read_components

    result = diff_components(read_components(before), read_components(after))
    if as_json:
        click.echo(pretty_json(_as_data(result)), nl=False)
    else:
        for sign, components in (("+", result.added), ("-", result.removed)):
            for item in components:
                click.echo(f"{sign} {item.kind} {item.name} {item.version or ''}".rstrip())
        for change in result.changed:
            versions = f"{change.before.version or '?'} -> {change.after.version or '?'}"
            detail = versions if change.what == "version" else f"{change.after.version or ''} (content)".strip()
            click.echo(f"~ {change.after.kind} {change.after.name} {detail}")
        click.echo(result.sentence())
    if require_equal and not result.is_empty:
        raise VerificationFailed(result.sentence(), where=f"{before}, {after}")


def _as_data(result: SbomDiff) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "counts": {"added": len(result.added), "removed": len(result.removed), "changed": len(result.changed)},
        "sentence": result.sentence(),
        "added": [_brief(item) for item in result.added],
        "removed": [_brief(item) for item in result.removed],
        "changed": [
            {"what": change.what, "before": _brief(change.before), "after": _brief(change.after)}
            for change in result.changed
        ],
    }


def _brief(component: Component) -> dict[str, Any]:
    return {
        "kind": component.kind,
        "name": component.name,
        "version": component.version,
        "architecture": component.architecture,
        "purl": component.purl,
        "content_sha256": component.content_sha256,
        "places": list(component.places),
    }
