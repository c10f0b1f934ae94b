"""A capture store with one hidden capture, its pack, and ways to spoil a pack."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suite.capture.rows import to_float32
from suite.capture.tensors import write_tensors
from suite.files import canonical_json, sha256_bytes, sha256_file, write_atomic
from suite.manifest.lock import Lock
from suite.manifest.positions import probe_positions
from suite.reference.pack import write_pack
from suite.reference.schema import RECORD_NAME
from suite.reference.store import StoredReference, open_stored
from tests.capture.synthetic import RECEIPT, bf16
from tests.manifest.samples import lock as sample_lock
from tests.manifest.samples import rendered

WIDTH = 8
VOCABULARY = 128
CHUNK_ROWS = 12


def reference_lock(tmp_path: Path, **changes: object) -> Lock:
    """The lock of `tests.manifest.samples`: 29 probes of 120 tokens."""
    folder = tmp_path / "manifests"
    folder.mkdir(exist_ok=True)
    return sample_lock(folder, **changes)


def head_tensors(seed: int = 1) -> dict[str, np.ndarray]:
    return {"weight": bf16(np.random.default_rng(seed).normal(0, 1, (VOCABULARY, WIDTH)))}


HEAD_METADATA = {"vocab_size": str(VOCABULARY), "scale": "1.0", "soft_cap": "null", "dtype": '"bfloat16"'}


def positions_of(lock: Lock) -> list[int]:
    policy = lock.capture
    return probe_positions(
        path=policy.path, stride=policy.stride, ranges=policy.ranges, num_tokens=lock.workload.num_tokens
    )


def logits_of(hidden: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """BF16 logits of BF16 hidden states, rounded from float32."""
    return bf16(to_float32(hidden) @ to_float32(weight).T)


def facts_of(rows: np.ndarray) -> dict[str, np.ndarray]:
    """What a stack stores beside each row."""
    values = to_float32(rows).astype(np.float64)
    order = np.argsort(-values, axis=1, kind="stable")[:, :64]
    best = values.max(axis=1, keepdims=True)
    return {
        "row_sha256": np.array([list(hashlib.sha256(row.tobytes()).digest()) for row in rows], dtype=np.uint8),
        "logsumexp": (best + np.log(np.exp(values - best).sum(axis=1, keepdims=True)))[:, 0],
        "top_ids": order.astype(np.int32),
        "top_logits": np.take_along_axis(rows, order, axis=1),
    }


def hidden_capture(
    home: Path, lock: Lock, *, start: int = 0, seed: int = 0, codec: str = "hidden", **changes: object
) -> StoredReference:
    """Write a capture into the store below `home`, with its head and lock."""
    captures = home / "captures"
    folder = captures / lock.capture_digest / f"start-{start}"
    tokens = rendered().token_ids
    positions = np.array(changes.pop("positions", positions_of(lock)), dtype=np.int64)
    head = head_tensors()
    draft = captures / "heads" / "draft.safetensors"
    write_tensors(draft, head, metadata=HEAD_METADATA)
    head_sha256 = sha256_file(draft)
    draft.rename(captures / "heads" / f"{head_sha256}.safetensors")
    hidden = bf16(np.random.default_rng(seed).normal(0, 1, (len(positions), WIDTH)))
    logits = logits_of(hidden, head["weight"])
    rows = hidden if codec == "hidden" else logits
    facts = facts_of(logits)
    chunks = []
    for number, first in enumerate(range(0, len(rows), CHUNK_ROWS)):
        part = slice(first, first + CHUNK_ROWS)
        tensors = {
            "rows": rows[part],
            "positions": positions[part],
            "target_ids": np.array([tokens[p + 1] for p in positions[part]], dtype=np.int64),
            **{name: values[part] for name, values in facts.items()},
        }
        name = f"chunk-{number:05d}.safetensors"
        write_tensors(folder / name, tensors)
        chunks.append(
            {
                "file": name,
                "sha256": sha256_file(folder / name),
                "size_bytes": (folder / name).stat().st_size,
                "num_rows": len(rows[part]),
                "first_position": int(positions[part][0]),
                "last_position": int(positions[part][-1]),
            }
        )
    receipt = canonical_json(RECEIPT)
    write_atomic(folder / "receipt.json", receipt)
    index = {
        "schema_version": 1,
        "lock_digest": lock.digest,
        "capture_digest": lock.capture_digest,
        "start": start,
        "path": lock.capture.path,
        "codec": codec,
        "dtype": "bfloat16",
        "num_rows": len(rows),
        "row_width": rows.shape[1],
        "vocab_size": VOCABULARY,
        "tokenizer_size": VOCABULARY,
        "rows_per_gemm": 64,
        "tokens_sha256": lock.workload.tokens_sha256,
        "num_tokens": lock.workload.num_tokens,
        "steps": [[0, lock.workload.num_tokens]],
        "chunks": chunks,
        "head": {"sha256s": [head_sha256]} if codec == "hidden" else None,
        "replay_probe": {"rows": 4, "equal": 4, "accepted": True} if codec == "hidden" else None,
        "non_finite_rows": 0,
        "sanity": {"positions": 4, "mean_nll": 1.5},
        "engine": {"vllm": "0.32.0", "torch": "2.13.0", "model_runner": "v1"},
        "receipt_sha256": sha256_bytes(receipt),
        "timings": {"capture": 0.25},
    }
    write_atomic(folder / "index.json", canonical_json(index | changes))
    write_atomic(folder.parent / "lock.json", lock.to_bytes())
    return open_stored(folder)


def packed(tmp_path: Path, name: str = "reference.tar", **options: object) -> Path:
    """A whole pack of a capture in a store of its own."""
    home = tmp_path / "maker"
    stored = hidden_capture(home, options.pop("lock", None) or reference_lock(tmp_path), **options)
    write_pack(stored, heads=home / "captures" / "heads", out=tmp_path / name, licence="CC0-1.0")
    return tmp_path / name


@dataclass
class Parts:
    """A pack taken apart; `record` may be edited, `seal` makes it fit the members again."""

    record: dict
    members: dict[str, bytes]
    entries: list[tarfile.TarInfo] = field(default_factory=list)
    """Put in place of members of the same position; see `replace`."""

    @classmethod
    def of(cls, path: Path) -> "Parts":
        with tarfile.open(path, "r:") as tar:
            files = {info.name: tar.extractfile(info).read() for info in tar}
        return cls(record=json.loads(files.pop(RECORD_NAME)), members=files)

    def seal(self) -> None:
        """List the members as they are now, in order, and let lock and index agree with the record."""
        order = {name: at for at, name in enumerate(("lock.json", "index.json", "receipt.json"))}
        names = sorted(self.members, key=lambda n: (order.get(n, 3 if n.startswith("heads/") else 4), n))
        self.members = {name: self.members[name] for name in names}
        self.record["members"] = [
            {"path": name, "size_bytes": len(data), "sha256": sha256_bytes(data)} for name, data in self.members.items()
        ]

    def edit_index(self, change: Callable[[dict], object]) -> None:
        index = json.loads(self.members["index.json"])
        change(index)
        self.members["index.json"] = canonical_json(index)

    def edit_lock(self, change: Callable[[dict], object]) -> None:
        """Change the lock and carry its new digests into index and record."""
        from suite.manifest.lock import parse_lock

        value = json.loads(self.members["lock.json"])
        change(value)
        lock = parse_lock(canonical_json(value), where="lock")
        self.members["lock.json"] = lock.to_bytes()
        self.record |= {"reference_lock_digest": lock.digest, "capture_digest": lock.capture_digest}
        self.edit_index(lambda index: index.update(capture_digest=lock.capture_digest))

    def replace_chunk(self, name: str, data: bytes) -> None:
        self.members[name] = data
        self.edit_index(
            lambda index: next(c for c in index["chunks"] if c["file"] == name).update(
                sha256=sha256_bytes(data), size_bytes=len(data)
            )
        )

    def replace_head(self, data: bytes) -> None:
        [old] = [name for name in self.members if name.startswith("heads/")]
        del self.members[old]
        self.members[f"heads/{sha256_bytes(data)}.safetensors"] = data
        self.edit_index(lambda index: index["head"].update(sha256s=[sha256_bytes(data)]))

    def write(self, path: Path, *, edit: Callable[[tarfile.TarInfo, int], object] | None = None) -> Path:
        """Write the tar; `edit` may change each header, whose number is given (0: pack.json)."""
        out = io.BytesIO()
        for number, (name, data) in enumerate([(RECORD_NAME, canonical_json(self.record)), *self.members.items()]):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if edit is not None:
                edit(info, number)
            out.write(info.tobuf(tarfile.USTAR_FORMAT))
            out.write(data + bytes(-len(data) % 512))
        path.write_bytes(out.getvalue() + bytes(1024))
        return path


def folder_of(path: Path, folder: Path) -> Path:
    """The pack as a folder."""
    parts = Parts.of(path)
    for name, data in {RECORD_NAME: canonical_json(parts.record), **parts.members}.items():
        write_atomic(folder / name, data)
    return folder


def stored_state(home: Path) -> list[str]:
    """Everything in the capture store and what is on its way there, lock files left aside."""
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file() and not p.name.startswith("."))
