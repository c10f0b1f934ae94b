"""The head files that a checker of an answer needs."""

from __future__ import annotations

import shutil
from pathlib import Path

from suite.errors import InvalidInput, MissingPrerequisite
from suite.evidence.commitment import Commitment
from suite.reference.store import head_file


def copy_heads(commitment: Commitment, heads: Path, out: Path) -> list[Path]:
    """Copy the heads of both sides into a folder of the checker's; returns their files.

    Args:
        commitment: Names them by hash.
        heads: Of the capture store.
        out: Made where it is absent; files that are there stay.

    Raises:
        InvalidInput: `out` is the store's own folder.
        MissingPrerequisite: a head is absent.
    """
    if out.resolve() == heads.resolve():
        raise InvalidInput("that is the store's own folder", where=str(out), hint="name another one")
    names = {name for side in (commitment.reference, commitment.candidate) if side.head for name in side.head.sha256s}
    copied = []
    out.mkdir(parents=True, exist_ok=True)
    for name in sorted(names):
        source, target = head_file(heads, name), head_file(out, name)
        if not source.is_file():
            raise MissingPrerequisite("the head is absent", where=str(source), hint="run the stack again")
        if not target.is_file():
            partial = target.with_name(f".{target.name}.partial")
            shutil.copyfile(source, partial)
            partial.replace(target)
        copied.append(target)
    return copied
