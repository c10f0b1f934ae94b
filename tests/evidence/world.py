"""A bundle of two hidden captures with their heads and locks, as a store keeps them."""

from dataclasses import dataclass
from pathlib import Path

from suite.bundle.parts import BundleParts
from suite.bundle.redact import Private
from suite.bundle.write import write_bundle
from suite.evidence.numpy_head import NumpyRows
from suite.score.floor import repeat_floor
from suite.score.labels import Labels
from suite.score.scorer import write_scores
from tests.bundle.world import CREATED
from tests.manifest.samples import lock, manifest, rendered
from tests.reference.world import hidden_capture


@dataclass(frozen=True, kw_only=True)
class HiddenWorld:
    """29 probes of 120 tokens; the candidate's hidden states are other ones."""

    root: Path

    @property
    def captures(self) -> Path:
        return self.root / "captures"

    def bundle(self, *, codec: str = "hidden", **changes: object) -> Path:
        from suite.manifest.load import dump_for_others

        folder = self.root / "manifests"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bf16.yaml").touch()
        theirs = {
            "name": "fp8-kv",
            "role": "candidate",
            "reference": "bf16.yaml",
            "engine__kv_cache_dtype": "fp8_e4m3",
            "repeats": 1,
        }
        ours = hidden_capture(self.root, lock(folder), codec=codec, **changes)
        (folder / "bf16.yaml").write_text((folder / "sample.yaml").read_text())
        of = lock(folder, **theirs)
        candidate = hidden_capture(self.root, of, codec=codec, seed=5, **changes)
        rows = [
            NumpyRows(capture=side.capture, heads=self.captures / "heads") if codec == "hidden" else _stored(side)
            for side in (ours, candidate)
        ]
        ledger = self.root / "ledger.parquet"
        write_scores(ledger, *rows, labels=Labels.of(rendered()))
        parts = BundleParts(
            created=CREATED,
            manifest_yaml=dump_for_others(manifest(folder, **theirs)).encode(),
            lock=of,
            reference_lock=ours.lock,
            candidate=candidate.capture,
            reference=ours.capture,
            ledger=ledger,
            repeats=repeat_floor([candidate.capture]),
            performance={"schema_version": 1, "phases": {}},
            engine_log="",
            private=Private(home="/home/someone", host="node-17", user="someone"),
        )
        return write_bundle(parts, results=self.root / "results")


def _stored(side):
    from suite.capture.rows import open_rows

    return open_rows(side.capture)
