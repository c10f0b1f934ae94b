"""Short names for the rows of one table."""

from __future__ import annotations

from collections.abc import Sequence


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name without the words that all of them begin with; a lone name stays whole.

    Words end at hyphens. A name that would become empty keeps its last word.
    """
    words = [name.split("-") for name in names]
    shared = 0
    if len(set(names)) > 1:
        while all(len(w) > shared + 1 for w in words) and len({w[shared] for w in words}) == 1:
            shared += 1
    return {name: "-".join(w[shared:]) for name, w in zip(names, words, strict=True)}
