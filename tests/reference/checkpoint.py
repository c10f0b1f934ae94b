"""A capture whose head lies in a checkpoint of two shards, whole or cut over ranks, and the checkpoint."""

from pathlib import Path

import numpy as np

from suite.capture.tensors import write_tensors
from suite.files import canonical_json, sha256_file
from suite.manifest.lock import Lock, make_lock
from suite.model.hashes import hash_files
from suite.reference.store import StoredReference, open_stored
from tests.capture.synthetic import bf16
from tests.manifest.samples import CPU, manifest, rendered
from tests.reference.world import HEAD_METADATA, VOCABULARY, WIDTH, head_tensors, hidden_capture

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


def checkpoint(folder: Path, *, tied: bool = False, rows: int = VOCABULARY) -> Path:
    """Two shards; the head's rows are the first `rows` of `tests.reference.world`'s head, or the embedding is."""
    weight = head_tensors()["weight"][:rows]
    noise = bf16(np.random.default_rng(5).normal(0, 1, (VOCABULARY, WIDTH)))
    norm = bf16(np.ones(WIDTH))
    folder.mkdir(parents=True)
    write_tensors(
        folder / "model-00001-of-00002.safetensors",
        {"model.first.weight": noise, EMBEDDING: weight if tied else noise, "model.norm.weight": norm},
    )
    last = {"model.layers.0.weight": noise[:3]} | ({} if tied else {HEAD: weight})
    write_tensors(folder / "model-00002-of-00002.safetensors", last)
    (folder / "config.json").write_text("{}")
    return folder


def lock_of(tmp_path: Path, model: Path, **changes: object) -> Lock:
    """The sample's lock, over the files of `model`."""
    folder = tmp_path / "manifests"
    folder.mkdir(exist_ok=True)
    return make_lock(manifest(folder, CPU, **changes), model_files=hash_files(model), rendered=rendered())


def capture_of(home: Path, lock: Lock, shards: list[np.ndarray] | None = None) -> StoredReference:
    """A capture in the store below `home`; with `shards`, its head is kept as these parts of the weight, one a rank."""
    stored = hidden_capture(home, lock)
    if shards is None:
        return stored
    heads = home / "captures" / "heads"
    [old] = heads.iterdir()
    old.unlink()
    names = []
    for part in shards:
        write_tensors(heads / "draft", {"weight": part}, metadata=HEAD_METADATA)
        names.append(sha256_file(heads / "draft"))
        (heads / "draft").rename(heads / f"{names[-1]}.safetensors")
    index = stored.capture.index.model_dump(mode="json") | {"head": {"sha256s": names}}
    (stored.capture.folder / "index.json").write_bytes(canonical_json(index))
    return open_stored(stored.capture.folder)
