"""`suite model`: fetch and derive the models that manifests name, and list what is kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.manifest.schema import Manifest
    from suite.model.derive import Interpreter
    from suite.model.source import Source

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def model() -> None:
    """Fetch and derive the models that manifests name."""


@model.command()
@click.argument("manifests", nargs=-1, required=True, type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Write folders and file hashes as JSON.")
def fetch(manifests: tuple[Path, ...], as_json: bool) -> None:
    """Make the models of MANIFESTS ready, and print their folders.

    A model that is here already needs no network. Downloads that were cut off are resumed.
    """
    from suite.cli.progress import Progress
    from suite.files import pretty_json
    from suite.manifest.load import load_manifest
    from suite.model.ensure import ensure_model
    from suite.model.hashes import hash_files
    from suite.model.source import source_of
    from suite.stack.home import suite_home

    found = []
    for path in manifests:
        manifest = load_manifest(path)
        source = source_of(manifest.model, manifest=manifest.file)
        python = _stack_of(manifest, source)
        with Progress() as progress:
            folder = ensure_model(source, home=suite_home(), python=python, observer=progress.line(manifest.name))
        if not as_json:
            click.echo(folder)
            continue
        files = [
            {"path": file.path, "size_bytes": file.size_bytes, "sha256": file.sha256} for file in hash_files(folder)
        ]
        found.append({"manifest": str(path), "folder": str(folder), "files": files})
    if as_json:
        click.echo(pretty_json({"schema_version": 1, "models": found}), nl=False)


@model.command()
@click.argument("scheme")
@click.argument("source", type=_FOLDER)
def derive(scheme: str, source: Path) -> None:
    """Round the linear weights of the checkpoint folder SOURCE to nearest in SCHEME, and print the new folder.

    Schemes: w8a8-int8, w8a8-fp8, w8a16, w4a16-g64 (or another group size). The result is a fixture of damage, not of
    quality: nothing is calibrated. An engine may lack a kernel for a scheme; vLLM on a CPU has none for w8a16.
    """
    from suite.cli.progress import Progress
    from suite.model.ensure import ensure_model
    from suite.model.source import LocalModel
    from suite.stack.home import suite_home

    local = LocalModel(path=source, derive=scheme)
    python = _interpreter(local, None)
    with Progress() as progress:
        folder = ensure_model(local, home=suite_home(), python=python, observer=progress.line(scheme))
    click.echo(folder)


@model.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write the list as JSON.")
def list_kept(as_json: bool) -> None:
    """List the models in the state folder (SUITE_HOME, else ~/.cache/suite) with their size."""
    from suite.files import pretty_json
    from suite.model.inventory import list_models
    from suite.stack.home import suite_home

    kept = list_models(suite_home())
    if as_json:
        rows = [
            {"kind": item.kind, "name": item.name, "folder": str(item.folder), "size_bytes": item.size_bytes}
            for item in kept
        ]
        click.echo(pretty_json({"schema_version": 1, "models": rows}), nl=False)
        return
    if not kept:
        click.echo(f"no model in {suite_home() / 'models'}")
    for item in kept:
        click.echo(f"{item.kind:<8} {item.size_bytes / 1e6:>10,.1f} MB  {item.name}")


def _stack_of(manifest: Manifest, source: Source) -> Interpreter:
    """What may derive the model: where the stack is a container, Python in its image."""
    from suite.model.ensure import find_model
    from suite.observer import SilentObserver
    from suite.run.stack import start_runtime
    from suite.runtime.docker import DockerRuntime
    from suite.stack.home import suite_home

    if manifest.runtime.kind == "process":
        return _interpreter(source, manifest.runtime.python)
    if source.derive is None or find_model(source, home=suite_home()) is not None:
        return Path(sys.executable)  # never used
    runtime = start_runtime(manifest, home=suite_home(), root=manifest.root, observer=SilentObserver())
    assert isinstance(runtime, DockerRuntime)
    return runtime.run_script


def _interpreter(source: Source, named: str | None) -> Path:
    """The stack's interpreter if something has to be derived; any, and never used, otherwise."""
    from suite.model.source import PackagedModel
    from suite.runtime.process import find_interpreter

    if isinstance(source, PackagedModel) or source.derive is not None:
        return find_interpreter(named, os.environ, Path.cwd())
    return Path(sys.executable)
