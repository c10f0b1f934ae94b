"""A forger who knows the whole format: changes what they like in a bundle, and makes every hash fit again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from suite.bundle.derive import contrast
from suite.bundle.schema import RECORD_NAME, folder_name, seal
from suite.files import canonical_json, pretty_json, sha256_bytes
from suite.manifest.lock import parse_lock
from suite.score.floor import Repeats, floor_of
from suite.score.ledger import read_ledger
from suite.score.summary import summarise


class Forger:
    """One bundle under their hands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def edit(self, name: str, change: Callable[[dict[str, Any]], object]) -> Forger:
        """Change one JSON file in place."""
        value = self.json(name)
        change(value)
        self.write(name, pretty_json(value))
        return self

    def write(self, name: str, data: bytes) -> Forger:
        path = self.folder / name
        path.unlink(missing_ok=True)  # results/ may hold hard links
        path.write_bytes(data)
        return self

    def ledger(self, change: Callable[[dict[str, list[Any]]], object]) -> Forger:
        """Change cells of the ledger."""
        path = self.folder / "ledger.parquet"
        table = pq.read_table(path)
        columns = {name: table[name].to_pylist() for name in table.column_names}
        change(columns)
        changed = type(table).from_pydict(columns, schema=table.schema)
        path.unlink()
        pq.write_table(changed, path, compression="zstd", version="2.6")
        return self

    def locks(self) -> Forger:
        """Write locks in canonical form, and their digests wherever they stand."""
        for name in ("lock.json", "reference-lock.json"):
            self.write(name, parse_lock((self.folder / name).read_bytes(), where=name).to_bytes())
        return self

    def seal(self, *, recompute: bool = False, **changes: Any) -> Path:
        """Make digests, hashes, folder name and record fit; returns the folder, which may have another name.

        Args:
            recompute: Headlines, floor and factors as well.
            changes: Fields of the record, by name.
        """
        self.locks()
        fields = self.json(RECORD_NAME)
        del fields["record_sha256"]
        fields["evidence"] = changes.pop("evidence", fields["evidence"])
        lock = parse_lock((self.folder / "lock.json").read_bytes(), where="lock")
        reference = parse_lock((self.folder / "reference-lock.json").read_bytes(), where="lock")
        fields |= {"name": lock.name, "lock_digest": lock.digest, "reference_lock_digest": reference.digest}
        fields["evidence"]["candidate"] |= {
            "capture_digest": lock.capture_digest,
            "receipt_sha256": sha256_bytes((self.folder / "receipt.json").read_bytes()),
        }
        fields["evidence"]["reference"] |= {
            "capture_digest": reference.capture_digest,
            "receipt_sha256": sha256_bytes((self.folder / "reference-receipt.json").read_bytes()),
        }
        repeats = self.json("repeats.json")
        repeats["capture_digest"] = lock.capture_digest
        repeats["starts"][0]["receipt_sha256"] = fields["evidence"]["candidate"]["receipt_sha256"]
        self.write("repeats.json", pretty_json(repeats))
        if recompute:
            headlines = summarise(read_ledger(self.folder / "ledger.parquet"))
            stacks = contrast(
                reference,
                lock,
                reference_receipt=self.json("reference-receipt.json"),
                candidate_receipt=self.json("receipt.json"),
            )
            fields |= {
                "headlines": headlines.model_dump(mode="json"),
                "off_policy": headlines.off_policy.model_dump(mode="json"),
                "repeat_floor": floor_of(Repeats.model_validate_json(canonical_json(repeats))).model_dump(mode="json"),
                "factors": [factor.model_dump(mode="json") for factor in stacks.factors],
                "consequent": [factor.model_dump(mode="json") for factor in stacks.consequent],
                "causal_claim": stacks.causal_claim,
            }
        fields |= changes
        fields["files"] = {name: sha256_bytes((self.folder / name).read_bytes()) for name in fields["files"]}
        self.write(RECORD_NAME, seal(fields))
        target = self.folder.parent.parent / lock.name
        target.mkdir(exist_ok=True)
        target /= folder_name(created=fields["created"], lock_digest=lock.digest)
        if target != self.folder:
            self.folder = self.folder.rename(target)
        return self.folder

    def evidence(self, **sides: dict[str, Any]) -> dict[str, Any]:
        """The record's evidence with changes to `reference` or `candidate`."""
        value: dict[str, Any] = self.json(RECORD_NAME)["evidence"]
        for side, changes in sides.items():
            value[side] |= changes
        return value
