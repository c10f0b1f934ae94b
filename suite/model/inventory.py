"""What the state folder keeps of models, for people who want to see it or free disk space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.files import read_json


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptModel:
    """One fetched file, derived folder or known snapshot."""

    kind: str
    """`gguf`, `derived` or `hub`."""
    name: str
    folder: Path
    size_bytes: int


def list_models(home: Path) -> list[KeptModel]:
    """Everything complete under `home/models`, by kind and name; snapshots count with the size of their files."""
    kept = []
    for kind in ("gguf", "derived"):
        for folder in sorted((home / "models" / kind).glob("[!.]*")):
            size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            kept.append(KeptModel(kind=kind, name=folder.name, folder=folder, size_bytes=size_bytes))
    for record in sorted((home / "models" / "hub").glob("[!.]*.json")):
        seen = read_json(record)
        folder = Path(seen["folder"])
        if folder.is_dir():
            size_bytes = sum(seen["files"].values())
            kept.append(KeptModel(kind="hub", name=record.stem, folder=folder, size_bytes=size_bytes))
    return kept
