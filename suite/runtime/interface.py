"""What a runtime is: something that can run one agent command inside one stack and wait for its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from suite.observer import Observer


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder that the stack may see."""

    host: Path
    writable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCall:
    """One agent command.

    The request is built from the folders' paths *as the stack sees them*, since a container mounts them elsewhere.
    """

    command: str
    """A name of `suite.agent.__main__.COMMANDS`."""
    folders: Mapping[str, Folder]
    """Name to folder; `out` is where the agent writes its events, log and outcome, and must be writable."""
    request: Callable[[Mapping[str, str]], dict[str, Any]]
    """Builds the JSON request from name-to-path as seen inside the stack."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the stack under test, from its lock."""


class Runtime(Protocol):
    """Runs agent calls in one stack."""

    @property
    def identity(self) -> str:
        """Names what is run on this machine: an interpreter or an image. Equal for two runtimes of one."""

    def packages(self) -> dict[str, str]:
        """Versions of the packages that compute, as installed in the stack.

        Raises:
            MissingPrerequisite: there is no such stack, or it has no vLLM.
        """

    def call(self, call: AgentCall, observer: Observer) -> None:
        """Run one agent command to its end.

        Raises:
            InvalidInput: the request cannot be met as written (workload longer than the context).
            MissingPrerequisite: the disk is full.
            RunFailed: the engine or the agent failed; the message names the cause and the log.
            KeyboardInterrupt: passed on after the stack has been stopped; whole chunks stay.
        """
