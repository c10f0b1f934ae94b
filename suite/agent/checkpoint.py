"""The checkpoint as the stack sees it: every file hashed again before an engine reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite.agent.events import AgentFailure

_BLOCK_BYTES = 1 << 22
_WORKERS = 4


def require_files(folder: str, files: Mapping[str, str]) -> None:
    """See that `folder` holds these files with these hashes.

    Args:
        folder: The checkpoint, as this process sees it.
        files: Path inside it -> SHA-256 of the lock. Other files are not looked at.

    Raises:
        AgentFailure: one is absent, or holds other bytes (`altered`).
    """
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        found = dict(zip(files, pool.map(lambda name: _sha256(Path(folder) / name), files), strict=True))
    wrong = sorted(name for name, digest in files.items() if found[name] != digest)
    if wrong:
        name = wrong[0]
        what = "is absent or cannot be read" if found[name] is None else "is not the file that the lock pins"
        raise AgentFailure(
            "altered",
            f"{name} of the checkpoint {what}" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""),
            "fetch the model again (suite model fetch); if it was changed on purpose, lock and measure it anew",
        )


def _sha256(path: Path) -> str | None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
