"""What a manifest and a lock have in common: the settings of one stack."""

from __future__ import annotations

from typing import Protocol

from suite.manifest.engine import Engine
from suite.manifest.lock import LockedModel, LockedRuntime
from suite.manifest.schema import Hardware, ModelSource, Runtime


class StackSettings(Protocol):
    """A manifest or a lock, by its settings."""

    @property
    def runtime(self) -> Runtime | LockedRuntime:
        """Container or process."""

    @property
    def hardware(self) -> Hardware:
        """What it runs on."""

    @property
    def engine(self) -> Engine:
        """The settings it is measured with."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables it is started with."""

    @property
    def model(self) -> ModelSource | LockedModel:
        """The checkpoint."""
