"""Writing a session: a scenario speaks for the user and the agent, the laboratory answers the calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from suite.workload.lab.dice import Dice
from suite.workload.lab.lab import Lab
from suite.workload.lab.model import World
from suite.workload.lab.result import ToolResult

Call = tuple[str, dict[str, Any]]
_T = TypeVar("_T")


class Scene:
    """Collects messages and marks while scenarios play."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.dice = Dice("scene")
        self.messages: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.num_calls = 0
        self._watch: Callable[[Scene], None] | None = None

    def watch(self, watcher: Callable[[Scene], None]) -> None:
        """Call `watcher` before every message that the assistant writes."""
        self._watch = watcher

    @property
    def world(self) -> World:
        """The laboratory's state, to choose parameters from and to plant faults in."""
        return self.lab.world

    def pick(self, *items: _T) -> _T:
        """One of several wordings or values."""
        return self.dice.pick(items)

    def user(self, text: str) -> None:
        """The person writes."""
        self.lab.wait(self.dice.between(40, 900))
        self.messages.append({"role": "user", "content": text})

    def say(self, text: str, *, think: str = "", keep: Sequence[str] = ()) -> None:
        """The agent answers and the turn ends. `keep` are literals of the answer that must survive."""
        self._assistant({"role": "assistant", "content": text}, think, keep)

    def act(
        self, *calls: Call, say: str = "", think: str = "", keep: Sequence[str] = (), right: bool = True
    ) -> list[ToolResult]:
        """The agent makes calls, several side by side; returns their answers.

        Args:
            calls: Name and arguments of each.
            say: Text before the calls.
            think: Reasoning before the text.
            keep: Literals of the calls that must survive.
            right: Whether these calls are the right ones here; scripted mistakes are not.
        """
        tool_calls = []
        for name, arguments in calls:
            self.num_calls += 1
            # Nine letters and digits, which the strictest templates ask of a call id.
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            tool_calls.append({"id": f"call{self.num_calls:05d}", "type": "function", "function": function})
        message: dict[str, Any] = {"role": "assistant", "tool_calls": tool_calls}
        if say:
            message["content"] = say
        commands = [{"name": name, "arguments": arguments} for name, arguments in calls] if right else []
        self._assistant(message, think, keep, commands)
        results = []
        for call, (name, arguments) in zip(tool_calls, calls, strict=True):
            result = self.lab.call(name, arguments)
            results.append(result)
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result.content})
        return results

    def one(
        self, name: str, say: str = "", think: str = "", keep: Sequence[str] = (), right: bool = True, **arguments: Any
    ) -> ToolResult:
        """One call."""
        return self.act((name, arguments), say=say, think=think, keep=keep, right=right)[0]

    def _assistant(
        self, message: dict[str, Any], think: str, keep: Sequence[str], commands: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.lab.wait(self.dice.between(2, 9))
        if self._watch:
            self._watch(self)
        if think:
            message["reasoning_content"] = think
        if keep or commands:
            mark: dict[str, Any] = {"message": len(self.messages)}
            if keep:
                mark["must_survive"] = list(dict.fromkeys(keep))
            if commands:
                mark["right_commands"] = list(commands)
            self.marks.append(mark)
        self.messages.append(message)


def show(device: str, command: str) -> Call:
    """A read command on a device."""
    return "device_show", {"device": device, "command": command}


def configure(device: str, *lines: str, save: bool = True) -> Call:
    """Configuration lines on a device."""
    return "device_configure", {"device": device, "lines": list(lines), "save": save}


def shell(host: str, command: str) -> Call:
    """A shell command on a host."""
    return "host_run", {"host": host, "command": command}


def sql(statement: str, host: str = "db-1") -> Call:
    """A statement on the database."""
    return "sql_query", {"host": host, "statement": statement}


def fetch(path: str, **query: Any) -> Call:
    """A read from the inventory API."""
    return "inventory_get", {"path": path, "query": query} if query else {"path": path}


def write(method: str, path: str, **body: Any) -> Call:
    """A change through the inventory API."""
    return "inventory_write", {"method": method, "path": path, "body": body}
