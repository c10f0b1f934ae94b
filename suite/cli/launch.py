"""`suite launch MANIFEST|BUNDLE`: the command that launches a stack, and in what it is not the measured one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from suite.manifest.lock import Lock
    from suite.manifest.schema import Manifest
    from suite.stack.alternatives import Alternative
    from suite.stack.launch import Launch


@click.command()
@click.argument("target", type=click.Path(path_type=Path), metavar="MANIFEST|BUNDLE")
@click.option("--plain", is_flag=True, help="Plain `vllm serve`, also for a stack in a container.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8000, show_default=True, help="On 127.0.0.1.")
@click.option("--device", "devices", multiple=True, help="GPU by index, UUID or CDI name; may be repeated.")
@click.option("--model", "model_folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of a checkpoint that is not a repository.")  # fmt: skip
@click.option("--grid", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of bundles: list the backends and KV caches measured there, to pick one.")  # fmt: skip
@click.option("--check", is_flag=True, help="Check every flag against the stack's own `vllm serve --help=all`.")
@click.option("--json", "as_json", is_flag=True, help="Argument lists, differences and alternatives as JSON.")
def launch(
    target: Path,
    plain: bool,
    port: int,
    devices: tuple[str, ...],
    model_folder: Path | None,
    grid: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Print the command that launches a stack for use.

    What is launched is not what was measured (eager, one sequence, no prefix cache): the differences stand below it.
    With --check, exit code 2 if the stack does not know a flag, or does not take its value.
    """
    from suite.errors import InvalidInput
    from suite.stack.alternatives import alternatives
    from suite.stack.launch import launch as render

    opened = _open(target)
    if grid is not None and opened.lock is None:
        raise InvalidInput("a manifest has no place in a measured grid", where=str(target), hint="name a bundle")
    folder = model_folder.resolve() if model_folder is not None else opened.model_folder
    made = render(
        opened.stack, model_folder=None if folder is None else str(folder), port=port, devices=devices or None
    )
    others = alternatives(opened.lock, _locks(grid)) if grid is not None and opened.lock is not None else ()
    problems = _check(opened, made) if check else None
    if as_json:
        value = made.to_json() | {"alternatives": [_cell(item) for item in others]}
        click.echo(json.dumps(value | ({} if problems is None else {"flag_problems": problems}), indent=1))
    else:
        click.echo(launch_text(made, plain=plain))
        if others:
            click.echo(f"\n{alternatives_text(others)}")
        if problems is not None:
            click.echo("\n" + ("\n".join(problems) or "every flag is known to this vLLM"))
    if problems:
        sys.exit(2)


def launch_text(made: Launch, *, plain: bool = False) -> str:
    """Command, differences and notes, as `suite launch` and `suite show` print them."""
    from tabulate import tabulate

    from suite.bundle.show import shown
    from suite.stack.launch import shell_text

    arguments = made.plain if plain or made.docker is None else made.docker
    parts = [shell_text(arguments, wrapped=True)]
    if made.differences:
        rows = [(shown(c.name), shown(_word(c.measured)), shown(_word(c.served)), c.effect) for c in made.differences]
        headers = ("launched is not measured", "measured", "launched", "")
        parts.append(tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True))
    else:
        parts.append("launched as measured: no setting differs")
    parts += ["\n".join(f"note: {shown(note, limit=300)}" for note in made.notes)] if made.notes else []
    return "\n\n".join(parts)


def alternatives_text(others: tuple[Alternative, ...]) -> str:
    """The measured cells, one a line."""
    from suite.bundle.show import shown

    lines = [f"  {'*' if item.chosen else ' '} {shown(item.label):<32} {shown(item.lock.name)}" for item in others]
    return "\n".join(["pick one (measured; * is this one):", *lines])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Opened:
    stack: Lock | Manifest
    lock: Lock | None
    manifest: Manifest | None
    model_folder: Path | None


def _open(target: Path) -> _Opened:
    from suite.bundle.read import open_bundle
    from suite.manifest.load import load_manifest
    from suite.model.ensure import find_model
    from suite.model.source import HubModel, source_of
    from suite.stack.home import suite_home

    if target.is_dir():
        bundle = open_bundle(target)
        bundle.require_unchanged("lock.json")
        lock = bundle.lock()
        return _Opened(stack=lock, lock=lock, manifest=None, model_folder=None)
    manifest = load_manifest(target)
    folder = None
    if not manifest.missing:
        source = source_of(manifest.model, manifest=manifest.file)
        if not (isinstance(source, HubModel) and source.derive is None):
            folder = find_model(source, home=suite_home())
    return _Opened(stack=_with_built_image(manifest), lock=None, manifest=manifest, model_folder=folder)


def _with_built_image(manifest: Manifest) -> Manifest:
    """The manifest with the digest of the image that was built from its recipe, where this machine has it."""
    from suite.errors import MissingPrerequisite
    from suite.image.engine import connected
    from suite.image.present import built_image
    from suite.image.recipe import load_recipe

    image = manifest.runtime.image
    if image is None or image.build is None:
        return manifest
    recipe = load_recipe(image.build, root=manifest.root)
    with connected() as engine:
        built = built_image(engine, recipe)
    if built is None:
        raise MissingPrerequisite(
            "its image is not built yet", where=manifest.name, hint=f"suite image build {recipe.name}"
        )
    found = image.model_copy(update={"config_digest": built.facts.config_digest})
    return manifest.model_copy(update={"runtime": manifest.runtime.model_copy(update={"image": found})})


def _locks(folder: Path) -> list[Lock]:
    """Locks of all bundles below `folder`, candidates and references."""
    from suite.bundle.find import find_bundles
    from suite.bundle.read import open_bundle

    bundles = [open_bundle(path) for path in find_bundles(folder)]
    return [bundle.lock(name) for bundle in bundles for name in ("lock.json", "reference-lock.json")]


def _check(opened: _Opened, made: Launch) -> list[str]:
    from suite.cli.progress import Progress
    from suite.run import asked
    from suite.stack.flags import flag_problems, help_of, known_flags
    from suite.stack.home import suite_home

    home, root = suite_home(), Path.cwd()
    with Progress() as progress:
        observer = progress.line(opened.stack.name)
        if opened.manifest is not None:
            runtime = asked.of_manifest(opened.manifest, home=home, root=root, observer=observer)
        else:
            assert opened.lock is not None
            runtime = asked.of_lock(opened.lock.runtime, home=home, root=root, observer=observer)
        flags = known_flags(help_of(runtime, observer))
    return flag_problems(made.serve, flags)


def _cell(item: Alternative) -> dict[str, Any]:
    return {
        "attention_backend": item.attention_backend,
        "flash_attn_version": item.flash_attn_version,
        "kv_cache_dtype": item.kv_cache_dtype,
        "name": item.lock.name,
        "lock_digest": item.lock.digest,
        "chosen": item.chosen,
    }


def _word(value: object) -> str:
    return "left to the engine" if value is None else str(value)
