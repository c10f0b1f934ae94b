"""A results folder in a git checkout, with bundles, submissions, attestations and keys."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from suite.bundle.read import Bundle, open_bundle
from suite.bundle.write import write_bundle
from suite.files import pretty_json
from suite.results.attestation import Attestation, Consistent, Reproduced, write_attestation
from suite.results.notice import Notice, write_notice
from suite.signing import SigningKey, new_key, sign_folder
from suite.submission.private import aggregate
from suite.submission.schema import Submission, submission_id
from tests.bundle.world import CREATED, World

NOW = "2026-03-05T00:00:00Z"
OWNER_KEY = bytes(range(32))


@dataclass(frozen=True, kw_only=True)
class Repository:
    """Everything below one temporary folder."""

    root: Path
    keys: dict[str, SigningKey] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.root / "results"

    def key(self, name: str) -> SigningKey:
        if name not in self.keys:
            self.keys[name] = new_key(self.root / "keys" / name)
        return self.keys[name]

    def bundle(
        self, name: str = "fp8-kv", *, into: Path | None = None, later_seconds: int = 0, **options: Any
    ) -> Bundle:
        """A bundle among the maintainers' own, or below `into`."""
        world = World(root=self.root / f"world-{name}-{later_seconds}")
        parts = replace(world.parts(name, **options), created=CREATED + timedelta(seconds=later_seconds))
        return open_bundle(write_bundle(parts, results=into or self.results))

    def submission(self, name: str = "fp8-kv", *, by: str | None = "submitter", **changes: Any) -> Path:
        """A full submission, signed unless `by` is None; `changes` replace keys of its record."""
        staged = self.root / f"staged-{name}"
        bundle = self.bundle(name, into=staged / "bundle")
        return self._submitted(staged, bundle, by, {"kind": "full", "bundle_id": bundle.bundle_id} | changes)

    def private(self, name: str = "fp8-kv", *, by: str | None = "submitter", **changes: Any) -> Path:
        """A private submission."""
        staged = self.root / f"staged-{name}"
        bundle = self.bundle(name, into=self.root / f"private-{name}")
        aggregates = aggregate(bundle, OWNER_KEY)
        staged.mkdir()
        (staged / "aggregates.json").write_bytes(aggregates.to_bytes())
        fields = {
            "kind": "private",
            "bundle_id": aggregates.bundle_id,
            "record_sha256": aggregates.record_sha256,
            "session_public": False,
        }
        return self._submitted(staged, bundle, by, fields | changes)

    def _submitted(self, staged: Path, bundle: Bundle, by: str | None, changes: dict[str, Any]) -> Path:
        record = bundle.record
        record_sha256 = changes.get("record_sha256", record.record_sha256)
        fields: dict[str, Any] = {
            "schema_version": 1,
            "id": submission_id(name=record.name, record_sha256=record_sha256),
            "created": NOW,
            "record_sha256": record_sha256,
            "licence": "CC-BY-4.0",
            "session_public": True,
            "evidence": None,
            "commitment": None,
            "submitter": None if by is None else self.key(by).key_id,
            "note": "",
        }
        (staged / "submission.json").write_bytes(pretty_json(fields | changes))
        if by is not None:
            sign_folder(staged, self.key(by), kind="submission")
        final = self.results / "submissions" / fields["id"]
        final.parent.mkdir(parents=True, exist_ok=True)
        return staged.rename(final)

    def read_submission(self, folder: Path) -> Submission:
        return Submission.model_validate_json((folder / "submission.json").read_bytes())

    def attest(self, bundle: Bundle, *, by: str, **changes: Any) -> Path:
        """A consistent attestation of `bundle`; keys of `changes` replace its own."""
        return write_attestation(attestation(bundle, **changes), results=self.results, key=self.key(by))

    def trust(self, *names: str) -> None:
        keys = [
            {"key_id": self.key(name).key_id, "name": name, "role": "reproducer", "since": "2026-01-01"}
            for name in names
        ]
        self.results.mkdir(exist_ok=True)
        (self.results / "trusted-keys.json").write_bytes(pretty_json({"schema_version": 1, "keys": keys}))

    def notice(self, bundle: Bundle, *, seconds: int = 0, **changes: Any) -> Path:
        created = (datetime(2026, 4, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields: dict[str, Any] = {
            "kind": "correction",
            "created": created,
            "bundle_id": bundle.bundle_id,
            "record_sha256": bundle.record.record_sha256,
            "why": "the driver was another one",
            "replaced_by": None,
        }
        return write_notice(Notice(**(fields | changes)), results=self.results)

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self, *, new: bool = False) -> str:
        """Commit the results folder; returns the commit."""
        if new:
            self.git("init", "--quiet", "--initial-branch=main")
        return self.commit_only("results")

    def commit_only(self, *paths: str) -> str:
        """Commit what stands at these paths; returns the commit."""
        self.git("add", "--all", *paths)
        self.git("commit", "--quiet", "--message=results")
        return self.git("rev-parse", "HEAD").strip()


def attestation(bundle: Bundle, **changes: Any) -> Attestation:
    fields: dict[str, Any] = {
        "kind": "consistent",
        "created": NOW,
        "bundle_id": bundle.bundle_id,
        "record_sha256": bundle.record.record_sha256,
        "detail": Consistent(method="whole", rows=11, drawn=11, nonce=None, root=None),
    }
    return Attestation(**(fields | changes))


def reproduced(**changes: Any) -> Reproduced:
    fields: dict[str, Any] = {
        "own_record_sha256": "e" * 64,
        "same_hardware": True,
        "positions": "all",
        "n": 11,
        "identical_rows": 11,
        "flips": 0,
        "floor_flips": 0,
        "verdict": "identical",
    }
    return Reproduced(**(fields | changes))
