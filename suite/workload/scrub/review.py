"""What scrubbing changed, as a diff of the two transcripts for a person to read. It shows the private values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from suite.workload.session import Session
from suite.workload.transcript import transcript


def review(before: Session, after: Session) -> Iterator[str]:
    """Unified diff without context; a heading before each message that changed."""
    old, new = list(transcript(before)), list(transcript(after))
    if len(old) != len(new):
        yield from difflib.unified_diff(old, new, "before", "after", n=0, lineterm="")
        return
    heading = shown = ""
    for a, b in zip(old, new, strict=True):
        if b.startswith("── "):
            heading = b
        if a != b:
            if heading != shown:
                yield heading
                shown = heading
            yield f"-{a}"
            yield f"+{b}"
