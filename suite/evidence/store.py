"""The store of evidence packs that came from elsewhere.

It is not the capture store: what a stranger sent to be checked must never be taken as a reference by a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from suite.errors import VerificationFailed
from suite.observer import Observer
from suite.reference.pull import Pulled, peek, pull

_FOLDER = "evidence"


def evidence_store(home: Path) -> Path:
    """The capture store below the state folder `home` into which evidence is fetched."""
    return home / _FOLDER / "captures"


def fetch_evidence(
    sources: Iterable[str],
    *,
    home: Path,
    checkpoint: str | None = None,
    most_bytes: int | None = None,
    observer: Observer | None = None,
) -> tuple[Pulled, ...]:
    """Fetch packs into the evidence store, each checked as it comes; one that is there is not fetched again.

    Args:
        sources: Files, folders or URLs.
        home: The state folder.
        checkpoint: Of packs that leave their head out; see `suite.reference.pull.pull`.
        most_bytes: Larger packs are refused before their rows are fetched; None for no such bound.
        observer: Told of progress.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: see `suite.reference.pull.pull`.
    """
    found = []
    for source in sources:
        size = peek(source).record.total_bytes if most_bytes is not None else 0
        if most_bytes is not None and size > most_bytes:
            raise VerificationFailed(f"a pack of {size:,} bytes; {most_bytes:,} were said", where=source)
        found.append(pull(source, home=home / _FOLDER, checkpoint=checkpoint, observer=observer))
    return tuple(found)
