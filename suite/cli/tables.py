"""Tables as commands print them: columns apart by spaces, cells as they are given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain_table(rows: Iterable[Sequence[str]], headers: Sequence[str] = ()) -> str:
    """The table without a closing newline; numbers stay as they were written."""
    from tabulate import tabulate

    return tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True)
