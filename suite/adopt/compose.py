"""From a service of a compose file to how its server is started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from suite.adopt.invocation import Invocation, inside_image
from suite.errors import InvalidInput

_LIMIT_BYTES = 1 << 20
_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?:(?P<how>:?[-?+])(?P<word>[^}]*))?\}|(?P<plain>[A-Za-z_]\w*))")


def of_compose(data: bytes, *, service: str | None, environment: Mapping[str, str], where: str) -> Invocation:
    """How one service's server is started.

    Args:
        data: The file's bytes.
        service: Its name; None if only one service runs vLLM.
        environment: Variables to put in; the file's own defaults stand in for those that are absent.
        where: The file, for messages.

    Raises:
        InvalidInput: not a compose file, no such service, a variable without a value, or not a vLLM server.
    """
    services = _services(data, where)
    name = service or _only_server(services, where)
    chosen = services.get(name)
    if not isinstance(chosen, dict):
        raise InvalidInput(f"no service {name!r}", where=where, hint=f"it has {', '.join(map(str, services))}")
    image = _fill(chosen.get("image"), environment, where)
    if not isinstance(image, str):
        raise InvalidInput("names no image (a build is not pinned)", where=f"{where}: {name}", hint="give it an image")
    words = _words(_fill(chosen.get("command"), environment, where))
    entrypoint = chosen.get("entrypoint")
    given = None if entrypoint is None else _words(_fill(entrypoint, environment, where))
    arguments, inner = inside_image(words, entrypoint=given or None)
    variables, passed_on = _variables(_fill(chosen.get("environment"), environment, where), environment)
    files = chosen.get("env_file")
    if files:
        passed_on.append("the variables of env_file")
    return Invocation(
        image=image,
        arguments=arguments,
        environment=variables | inner,
        passed_on=tuple(passed_on),
        mounts=_mounts(_fill(chosen.get("volumes"), environment, where)),
    )


def _services(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > _LIMIT_BYTES:
        raise InvalidInput(f"larger than {_LIMIT_BYTES:,} bytes", where=where)
    try:
        value = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidInput(f"not YAML: {str(error).splitlines()[0]}", where=where) from error
    services = value.get("services") if isinstance(value, dict) else None
    if not isinstance(services, dict) or not services:
        raise InvalidInput("not a compose file: it has no `services`", where=where)
    return services


def _only_server(services: dict[str, Any], where: str) -> str:
    found = [name for name, value in services.items() if isinstance(value, dict) and "vllm" in str(value).lower()]
    if len(found) != 1:
        raise InvalidInput(
            f"{len(found)} services look like vLLM", where=where, hint=f"name one with --service: {', '.join(services)}"
        )
    return str(found[0])


def _fill(value: Any, environment: Mapping[str, str], where: str) -> Any:
    """`${NAME}`, `${NAME:-default}` and `$NAME` replaced as compose does it."""
    if isinstance(value, list):
        return [_fill(item, environment, where) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, environment, where) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        name = match["name"] or match["plain"]
        if name is None:
            return "$"
        given, how, word = environment.get(name), match["how"] or "", match["word"] or ""
        empty = given is None or (how.startswith(":") and not given)
        if how.endswith("+"):
            return "" if empty else word
        if not empty:
            return str(given)
        if how.endswith("-"):
            return word
        raise InvalidInput(f"{name} has no value", where=where, hint=f"set it: {name}=... suite manifest ...")

    return _VARIABLE.sub(replaced, value)


def _words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [str(item) for item in value]
    try:
        return shlex.split(str(value))
    except ValueError as error:
        raise InvalidInput(f"a command that cannot be read: {error}", where="compose") from error


def _variables(value: Any, environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    pairs: list[tuple[str, str | None]]
    if isinstance(value, dict):
        pairs = [(str(k), None if v is None else _plain(v)) for k, v in value.items()]
    else:
        texts = [str(item) for item in value] if isinstance(value, list) else []
        pairs = [(t.partition("=")[0], t.partition("=")[2] if "=" in t else None) for t in texts]
    found = {name: text if text is not None else environment.get(name) for name, text in pairs}
    passed_on = [name for name, text in found.items() if text is None]
    return {name: text for name, text in found.items() if text is not None}, passed_on


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _mounts(value: Any) -> dict[str, str]:
    found = {}
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict):
            if item.get("type") == "bind" and isinstance(item.get("target"), str):
                found[item["target"]] = str(item.get("source", ""))
        else:
            host, _, inside = str(item).partition(":")
            inside = inside.partition(":")[0]
            if inside.startswith("/") and host.startswith(("/", ".", "~")):
                found[inside] = host
    return found
