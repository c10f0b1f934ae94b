"""The laboratory as a tool server: `Lab.call` answers any call that a model may make, from memory alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from suite.errors import InvalidInput
from suite.files import strict_json
from suite.workload.lab import rest
from suite.workload.lab.build import build_world
from suite.workload.lab.configure import run_configure
from suite.workload.lab.linux import edit_file, run_host
from suite.workload.lab.model import Device, Host, World
from suite.workload.lab.result import Refused, ToolResult
from suite.workload.lab.show import run_show
from suite.workload.lab.sql import run_sql


class Lab:
    """One laboratory with its state. The same seed and the same calls give the same answers."""

    def __init__(self, seed: int) -> None:
        self.world = build_world(seed)
        self._calls = 0

    def fork(self) -> Lab:
        """An independent copy in the same state."""
        return copy.deepcopy(self)

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.world.now += seconds

    def call(self, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Answer one tool call.

        Args:
            name: The tool.
            arguments: The arguments, or the JSON text of them as the model wrote it.

        Returns:
            The text for the model. An unknown tool, bad arguments and everything that a device refuses are texts
            with `is_error` set; nothing that a model can write raises.
        """
        self._calls += 1
        self.wait(2 + self._calls * 7 % 9)
        try:
            tool = _TOOLS.get(name)
            if tool is None:
                raise Refused(f'error: no tool named "{name}"; tools are {", ".join(_TOOLS)}')
            if isinstance(arguments, str):
                arguments = _parse(arguments)
            _check_arguments(tool["parameters"], arguments)
            text = _HANDLERS[name](self.world, arguments)
        except Refused as refusal:
            return ToolResult(content=str(refusal), is_error=True)
        return ToolResult(content=text)


def tool_definitions() -> list[dict[str, Any]]:
    """The tools as OpenAI function schemas."""
    return [{"type": "function", "function": copy.deepcopy(tool)} for tool in _TOOLS.values()]


def _parse(text: str) -> Mapping[str, Any]:
    try:
        value = strict_json(text.encode(errors="replace"), where="arguments")
    except InvalidInput as error:
        raise Refused(f"error: the arguments are {error.message}") from None
    if not isinstance(value, dict):
        raise Refused("error: the arguments must be a JSON object")
    return value


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
}


def _check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    properties = schema["properties"]
    for name in schema["required"]:
        if name not in arguments:
            raise Refused(f'error: missing argument "{name}"')
    for name, value in arguments.items():
        if name not in properties:
            raise Refused(f'error: unknown argument "{name}"; allowed are {", ".join(properties)}')
        kind = properties[name]["type"]
        if not _TYPES[kind](value):
            raise Refused(f'error: argument "{name}" must be of type {kind}, got {json.dumps(value)}')


def _device(world: World, name: str) -> Device:
    if name not in world.devices:
        raise Refused(f'error: no device named "{name}"; devices are {", ".join(world.devices)}')
    return world.devices[name]


def _host(world: World, name: str) -> Host:
    if name not in world.hosts:
        raise Refused(f'error: no host named "{name}"; hosts are {", ".join(world.hosts)}')
    return world.hosts[name]


def _parameters(required: str, **properties: tuple[str, str]) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for name, (kind, description) in properties.items():
        described[name] = {"type": kind, "description": description}
        if kind == "array":
            described[name]["items"] = {"type": "string"}
    return {"type": "object", "properties": described, "required": required.split(), "additionalProperties": False}


_TOOLS: dict[str, dict[str, Any]] = {
    "device_show": {
        "name": "device_show",
        "description": "Run one read-only command (show, ping, traceroute) on a router or switch.",
        "parameters": _parameters(
            "device command",
            device=("string", "Device name, such as core-1 or sw-pier-2"),
            command=("string", "Command in full, with | include TEXT if wanted"),
        ),
    },
    "device_configure": {
        "name": "device_configure",
        "description": "Enter configuration lines on a router or switch, in order. Stops at the first refused line.",
        "parameters": _parameters(
            "device lines",
            device=("string", "Device name"),
            lines=("array", "Configuration lines"),
            save=("boolean", "Also write the startup configuration"),
        ),
    },
    "host_run": {
        "name": "host_run",
        "description": "Run one shell command on a Linux host.",
        "parameters": _parameters(
            "host command", host=("string", "Host name, such as db-1"), command=("string", "Command line")
        ),
    },
    "host_edit": {
        "name": "host_edit",
        "description": "Replace a text that occurs exactly once in a file of a Linux host.",
        "parameters": _parameters(
            "host path old new",
            host=("string", "Host name"),
            path=("string", "Absolute path"),
            old=("string", "Text to replace"),
            new=("string", "Text to put there"),
        ),
    },
    "sql_query": {
        "name": "sql_query",
        "description": "Run one SQL statement on the inventory database (port 5432).",
        "parameters": _parameters(
            "host statement", host=("string", "db-1 (primary) or db-2 (replica)"), statement=("string", "One statement")
        ),
    },
    "inventory_get": {
        "name": "inventory_get",
        "description": "Read from the inventory API. Collections come in pages.",
        "parameters": _parameters(
            "path",
            path=("string", "For example /api/v1/interfaces or /api/v1/devices/3"),
            query=("object", "page, page_size and filters by field"),
        ),
    },
    "inventory_write": {
        "name": "inventory_write",
        "description": "Create (POST) or change (PATCH) an object in the inventory.",
        "parameters": _parameters(
            "method path body",
            method=("string", "POST or PATCH"),
            path=("string", "Collection for POST, object for PATCH"),
            body=("object", "Fields"),
        ),
    },
}


def _write(world: World, arguments: Mapping[str, Any]) -> str:
    handlers = {"POST": rest.post, "PATCH": rest.patch}
    if arguments["method"] not in handlers:
        raise Refused('error: argument "method" must be POST or PATCH')
    return handlers[arguments["method"]](world, arguments["path"], arguments["body"])


_HANDLERS: dict[str, Callable[[World, Mapping[str, Any]], str]] = {
    "device_show": lambda world, given: run_show(world, _device(world, given["device"]), given["command"]),
    "device_configure": lambda world, given: run_configure(
        world, _device(world, given["device"]), given["lines"], save=given.get("save", False)
    ),
    "host_run": lambda world, given: run_host(world, _host(world, given["host"]), given["command"]),
    "host_edit": lambda world, given: edit_file(_host(world, given["host"]), given["path"], given["old"], given["new"]),
    "sql_query": lambda world, given: run_sql(world, _host(world, given["host"]), given["statement"]),
    "inventory_get": lambda world, given: rest.get(world, given["path"], given.get("query", {})),
    "inventory_write": _write,
}
