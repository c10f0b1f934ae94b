"""How the library reports progress: it calls an `Observer`, and never prints."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives progress. Every method returns at once and must not raise."""

    def phase(self, name: str, *, total: int | None = None, unit: str = "") -> None:
        """A new phase begins; `total` units of `unit` are expected, None if unknown. An empty name: none follows."""

    def advance(self, count: int) -> None:
        """`count` more units of the current phase are done."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def warn(self, text: str) -> None:
        """Something the user should know even when progress is hidden."""


class SilentObserver:
    """The default: nothing is shown."""

    def phase(self, name: str, *, total: int | None = None, unit: str = "") -> None:
        """See `Observer.phase`."""

    def advance(self, count: int) -> None:
        """See `Observer.advance`."""

    def note(self, text: str) -> None:
        """See `Observer.note`."""

    def warn(self, text: str) -> None:
        """See `Observer.warn`."""
