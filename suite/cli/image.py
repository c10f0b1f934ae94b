"""`suite image`: pin, build, check, archive and restore container images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.image.facts import ImageFacts

_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def image() -> None:
    """Pin, build, check, archive and restore container images."""


@image.command()
@click.argument("name")
@click.option("--platform", help="Which image of an index, for instance linux/arm64. Default: this machine's.")
@_JSON
def resolve(name: str, platform: str | None, as_json: bool) -> None:
    """Ask the registry what NAME (with a tag or digest) is today, and print the lines for a manifest.

    Index, platform manifest and configuration have digests of their own; all three are checked. Nothing is pulled.
    """
    from suite.image.reference import parse_reference
    from suite.image.resolve import resolve_image, this_platform

    reference = parse_reference(name)
    facts = resolve_image(reference, platform=platform or this_platform())
    if as_json:
        click.echo(facts.to_bytes(), nl=False)
        return
    click.echo("runtime:\n  kind: docker\n  image:")
    for key, value in (
        ("repository", facts.repository),
        ("digest", facts.index_digest or facts.platform_digest),
        ("digest_kind", "index" if facts.index_digest else "platform"),
        ("platform_digest", facts.platform_digest),
        ("config_digest", facts.config_digest),
        ("tag_seen", reference.tag),
    ):
        if value is not None:
            click.echo(f"    {key}: {value}")
    size = f"{facts.size_bytes / 1e6:,.1f} MB"
    click.echo(f"{facts.platform}, {len(facts.layers)} layers, {size}, {len(facts.labels)} labels", err=True)


@image.command()
@click.argument("recipe")
@click.option("--base", metavar="NAME@DIGEST", help="Another base image than the recipe's.")
@click.option(
    "--wheels", type=_FOLDER, help="Take the wheels from this folder. Default: downloaded once into the state folder."
)
@click.option("--network", help="The engine's network during the build, for instance none or host.")
@click.option("--root", type=_FOLDER, default=Path(), help="The repository's root. Default: the working folder.")
@_JSON
def build(recipe: str, base: str | None, wheels: Path | None, network: str | None, root: Path, as_json: bool) -> None:
    """Build the image of RECIPE, a folder of dockerfiles/, from wheels that are locked by hash.

    A manifest with `image: {build: RECIPE}` runs in it. Its digests are this machine's: push it to a registry and pin
    the digest there to give it to others.
    """
    from suite.cli.progress import Progress
    from suite.image.build import build_image
    from suite.image.engine import connected
    from suite.image.recipe import load_recipe
    from suite.image.wheels import ensure_wheels
    from suite.stack.home import suite_home

    loaded = load_recipe(recipe, root=root)
    with Progress() as progress, connected() as engine:
        observer = progress.line(recipe)
        folder = wheels or ensure_wheels(loaded, home=suite_home(), observer=observer)
        built = build_image(loaded, wheels=folder, engine=engine, observer=observer, base=base, network=network)
    if as_json:
        click.echo(built.facts.to_bytes(), nl=False)
    else:
        click.echo(f"{loaded.tag}\n{built.facts.config_digest}")


@image.command()
@click.argument("manifests", nargs=-1, required=True, type=_FILE, metavar="MANIFEST...")
@_JSON
def verify(manifests: tuple[Path, ...], as_json: bool) -> None:
    """Make the images of MANIFESTS present, as a run would, and check that they are what is pinned.

    An image that is absent is pulled by digest (its repository first, then its mirrors) or built. Exit code 5 if
    anything differs from the pins.
    """
    from suite.cli.progress import Progress
    from suite.errors import InvalidInput
    from suite.files import pretty_json
    from suite.image.engine import connected
    from suite.image.ensure import ensure_image
    from suite.manifest.load import load_manifest
    from suite.manifest.lock import require_complete
    from suite.stack.home import suite_home

    stacks = {path: load_manifest(path) for path in manifests}
    for path, loaded in stacks.items():
        require_complete(loaded)
        if loaded.runtime.image is None:
            raise InvalidInput("has no image: its runtime is a process", where=str(path), hint="leave it out")
    checked: dict[str, ImageFacts] = {}
    with Progress() as progress, connected() as engine:
        for path, loaded in stacks.items():
            observer = progress.line(loaded.name)
            present = ensure_image(loaded, engine=engine, home=suite_home(), observer=observer)
            checked[str(path)] = present.facts
    if as_json:
        images = {path: facts.model_dump(mode="json", exclude_none=True) for path, facts in checked.items()}
        click.echo(pretty_json({"schema_version": 1, "images": images}), nl=False)
        return
    for name, facts in checked.items():
        pinned = facts.index_digest or facts.platform_digest or f"built from {facts.build and facts.build.recipe}"
        click.echo(f"{name}: {pinned}, configuration {facts.config_digest}, {len(facts.diff_ids)} layers")


@image.command()
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--platform", help="Which image of an index, for instance linux/arm64. Default: this machine's.")
@click.option("--all-platforms", is_flag=True, help="Keep every image of an index, so that it can be restored too.")
def archive(name: str, folder: Path, platform: str | None, all_platforms: bool) -> None:
    """Copy the image NAME (with its digest) from its registry into FOLDER, bit for bit.

    Images disappear; an archive can be given back to any registry under the same digest. Needs skopeo.
    """
    from suite.cli.progress import Progress
    from suite.image.archive import archive_image
    from suite.image.reference import pinned_reference
    from suite.image.resolve import this_platform

    reference = pinned_reference(name)
    with Progress() as progress:
        made = archive_image(
            reference,
            folder,
            platform=platform or this_platform(),
            all_platforms=all_platforms,
            observer=progress.line(folder.name),
        )
    click.echo(f"{made.record.digest}  {folder}")


@image.command()
@click.argument("folder", type=_FOLDER)
@click.argument("repository", required=False)
def restore(folder: Path, repository: str | None) -> None:
    """Check the archive in FOLDER, and copy it to REPOSITORY under its own digest.

    Without REPOSITORY it is only checked. Needs skopeo.
    """
    from suite.cli.progress import Progress
    from suite.errors import InvalidInput
    from suite.image.archive import open_archive, restore_image
    from suite.image.reference import parse_reference

    target = None if repository is None else parse_reference(repository)
    if target is not None and (target.tag or target.digest):
        raise InvalidInput("the repository alone is wanted: the digest is the archive's own", where=repository)
    with Progress() as progress:
        observer = progress.line(folder.name)
        opened = open_archive(folder, observer=observer)
        if target is None:
            click.echo(f"{opened.record.digest}  whole")
        else:
            click.echo(restore_image(opened, target, observer=observer))


@image.command()
@click.argument("name", required=False, metavar="[MANIFEST|NAME@DIGEST]")
@click.option("--python", type=_FILE, help="Ask the vLLM of this interpreter instead of an image.")
@click.option("--capability", help="Compute capability, for instance 12.0. Default: that of the manifest.")
@click.option("--gpu", help="A GPU as manifests name it, instead of its capability.")
@click.option("--head-size", "head_sizes", type=click.IntRange(1, 1024), multiple=True, help="May be repeated.")
@_JSON
def capabilities(
    name: str | None,
    python: Path | None,
    capability: str | None,
    gpu: str | None,
    head_sizes: tuple[int, ...],
    as_json: bool,
) -> None:
    """Ask an image which attention backend takes which KV cache on a GPU, and why not.

    The engine's own rules are evaluated inside the image; no GPU is needed. The answer is kept: `suite plan` and
    `suite run` refuse by it what the engine would refuse after its start.
    """
    from suite.cli.capabilities import answer, capabilities_text

    found = answer(name, python=python, capability=capability, gpu=gpu, head_sizes=head_sizes)
    click.echo(found.data if as_json else capabilities_text(found), nl=not as_json)
