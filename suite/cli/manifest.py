"""`suite manifest`: check, show, lock and compare manifests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.adopt import from_command, from_container

if TYPE_CHECKING:
    from suite.manifest.check import Checked
    from suite.manifest.diff import Comparison, Difference
    from suite.manifest.lock import Lock, LockedImage
    from suite.manifest.schema import Manifest
    from suite.model.derive import Interpreter

_PATH = click.Path(path_type=Path)
_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")


@click.group()
def manifest() -> None:
    """Check, show, lock and compare manifests."""


manifest.add_command(from_command)
manifest.add_command(from_container)


@manifest.command()
@click.argument("paths", nargs=-1, required=True, type=_PATH, metavar="PATH...")
@_JSON
@click.option("--quiet", "-q", is_flag=True, help="Only errors and the summary.")
def check(paths: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Check files and folders of manifests.

    Exit code 0 when all can be used, also with missing facts, which are warned about; 2 on any error.
    """
    from suite.manifest.check import check as check_paths

    results = check_paths(paths)
    num_errors = sum(len(result.errors) for result in results)
    if as_json:
        _echo_json([result.to_json() for result in results])
    else:
        for result in results:
            _echo_checked(result, quiet=quiet)
        click.echo(_summary(results))
    if num_errors:
        sys.exit(2)


@manifest.command()
@click.argument("path", type=_PATH)
@_JSON
def show(path: Path, as_json: bool) -> None:
    """Print a manifest with everything it extends."""
    from suite.manifest.load import dump_manifest, load_manifest

    loaded = load_manifest(path)
    if as_json:
        _echo_json(loaded.model_dump(mode="json", exclude_none=True))
    else:
        click.echo(dump_manifest(loaded), nl=False)


@manifest.command()
@click.argument("path", type=_PATH)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write. Default: standard output.")
@click.option("--python", type=_PATH, help="Interpreter with torch and transformers, if the model must be derived.")
def lock(path: Path, out: Path | None, python: Path | None) -> None:
    """Resolve a manifest to its lock: fetch and hash the model, render the workload."""
    from suite.files import write_atomic
    from suite.manifest.load import load_manifest
    from suite.manifest.lock import require_complete
    from suite.manifest.resolve import resolve
    from suite.observer import SilentObserver
    from suite.stack.home import suite_home

    loaded = load_manifest(path)
    require_complete(loaded)
    interpreter, built = _stack_of(loaded, python)
    made = resolve(loaded, home=suite_home(), python=interpreter, observer=SilentObserver(), built=built).lock
    if out is None:
        click.echo(made.to_bytes(), nl=False)
    else:
        write_atomic(out, made.to_bytes())
    click.echo(f"lock digest     {made.digest}\ncapture digest  {made.capture_digest}", err=True)


@manifest.command()
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@_JSON
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Name the factors in which two manifests or lock.json files differ, and what follows from them.

    Exit code 0 however much they differ.
    """
    from suite.manifest.diff import factors

    comparison = factors(_stack(a), _stack(b))
    if as_json:
        _echo_json(
            {
                "factors": [_difference(d) for d in comparison.factors],
                "consequent": [_difference(d) for d in comparison.consequent],
                "not_comparable": list(comparison.not_comparable),
                "causal_claim": comparison.causal_claim,
            }
        )
    else:
        _echo_comparison(comparison)


@manifest.command()
def schema() -> None:
    """Print the JSON Schema of manifests, as docs/manifest.schema.json holds it."""
    from suite.manifest.json_schema import json_schema_bytes

    click.echo(json_schema_bytes(), nl=False)


def _stack(path: Path) -> Lock | Manifest:
    from suite.errors import InvalidInput
    from suite.manifest.load import load_manifest
    from suite.manifest.lock import parse_lock

    if path.suffix != ".json":
        return load_manifest(path)
    try:
        return parse_lock(path.read_bytes(), where=str(path))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error


def _stack_of(loaded: Manifest, chosen: Path | None) -> tuple[Interpreter, LockedImage | None]:
    """What may derive the model, and the image where it is built here: only that one takes an engine to lock."""
    from suite.runtime.process import find_interpreter

    image = loaded.runtime.image
    if image is None or image.build is None:
        return chosen or find_interpreter(loaded.runtime.python, os.environ, loaded.root), None
    from suite.image.ensure import locked
    from suite.observer import SilentObserver
    from suite.run.stack import start_runtime
    from suite.runtime.docker import DockerRuntime
    from suite.stack.home import suite_home

    runtime = start_runtime(loaded, home=suite_home(), root=loaded.root, observer=SilentObserver())
    assert isinstance(runtime, DockerRuntime)
    return chosen or runtime.run_script, locked(runtime.image.facts)


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))


def _echo_checked(result: Checked, *, quiet: bool) -> None:
    from suite.manifest.problems import shown

    name = shown(result.file)
    for text in result.errors:
        click.echo(f"error: {text}" if result.manifest is None else f"error: {name}: {text}")
    if quiet:
        return
    for text in result.warnings:
        click.echo(f"warning: {name}: {text}")
    if not result.errors and not result.fragment:
        click.echo(f"ok: {name}" + (f" ({result.comparison.verdict})" if result.comparison else ""))


def _summary(results: list[Checked]) -> str:
    manifests = [result for result in results if not result.fragment]
    incomplete = sum(bool(result.manifest and result.manifest.missing) for result in manifests)
    wrong = sum(bool(result.errors) for result in results)
    parts = len(results) - len(manifests)
    text = f"{_counted(len(manifests), 'manifest')}, {_counted(parts, 'shared part')}: {wrong} with errors"
    return text + (f", {incomplete} not fully pinned (cannot be locked or run)" if incomplete else "")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _difference(difference: Difference) -> dict[str, Any]:
    value = {"name": difference.name, "a": difference.a, "b": difference.b}
    return value | ({"reason": difference.reason} if difference.reason else {})


def _echo_comparison(comparison: Comparison) -> None:
    for title, differences in (("factor", comparison.factors), ("consequent", comparison.consequent)):
        for d in differences:
            reason = f"  ({d.reason})" if d.reason else ""
            click.echo(f"{title}: {d.name}: {_plain(d.a)} -> {_plain(d.b)}{reason}")
    click.echo(comparison.verdict)


def _plain(value: Any) -> str:
    if value is None:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
