"""A results folder to which others have brought submissions, attestations, corrections and withdrawals."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from suite.bundle.read import Bundle, open_bundle
from suite.signing import sign_folder
from suite.submission.private import aggregate
from suite.submission.schema import submission_id
from tests.compare.world import CompareWorld, member, one_per_turn
from tests.results.repository import OWNER_KEY, Repository, reproduced
from tests.site.world import GPU, HOSTILE, MODEL, table_of_bundles

NOTE = f"{HOSTILE[0]} {HOSTILE[1]} {HOSTILE[4]} {HOSTILE[6]} {HOSTILE[7]}"
"""A stranger's words, of the kind that records let pass."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The folder and what lies in it."""

    world: CompareWorld
    repository: Repository
    reproduced: Bundle
    """Submitted, signed, and run again by someone trusted."""
    consistent: Bundle
    withdrawn: Bundle
    """Of the maintainers."""
    corrected: Bundle
    namesake: Bundle
    """Submitted later under the name of a maintainers' bundle."""
    private: str
    """Its id."""

    @property
    def results(self) -> Path:
        return self.repository.results


def community(root: Path) -> Folder:
    """Four bundles of the maintainers', three submitted ones, and a private one."""
    world = table_of_bundles(root)
    repository = Repository(root=root)
    own = {folder.parent.name: open_bundle(folder) for folder in world.results.glob("*/*/")}

    def submitted(name: str, flips: tuple[int, ...], *, by: str | None, note: str = "", **options: object) -> Bundle:
        made = world.bundle(name, flips, hardware=GPU, model=MODEL, **options)  # type: ignore[arg-type]
        staged = root / f"staged-{name}"
        target = staged / "bundle" / name / made.name
        shutil.copytree(made, target)
        shutil.rmtree(made)
        if not any(made.parent.iterdir()):
            made.parent.rmdir()
        bundle = open_bundle(target)
        final = repository._submitted(staged, bundle, by, {"kind": "full", "bundle_id": bundle.bundle_id, "note": note})
        return open_bundle(final / "bundle" / name / made.name)

    sign_folder(own["tiny-chunk-512"].folder, repository.key("maintainer"), kind="result")
    band = (member(next(world.results.glob("tiny-chunk-512/*"))),)
    first = submitted("tiny-e5m2", one_per_turn(range(6)), by="author", note=NOTE, kv_cache_dtype="fp8_e5m2", band=band)
    second = submitted("tiny-e5m2-again", one_per_turn(range(7)), by=None, kv_cache_dtype="fp8_e5m2", band=band)
    namesake = submitted("tiny-kv-fp16", one_per_turn(range(1)), by="author", kv_cache_dtype="float16", band=band)
    repository.trust("lab")
    repository.attest(
        first, by="lab", kind="reproduced", detail=reproduced(own_record_sha256=second.record.record_sha256)
    )
    repository.attest(second, by="lab")
    repository.attest(namesake, by="author")
    repository.notice(
        own["tiny-kv-fp8"],
        kind="withdrawal",
        why=f"the driver was another one {NOTE}",
        replaced_by=own["tiny-kv-int8"].bundle_id,
    )
    repository.notice(own["tiny-kv-int8"], why="its card was named wrongly", seconds=1)
    kept = open_bundle(
        world.bundle("tiny-private", one_per_turn(range(4)), kv_cache_dtype="fp8_e5m2", hardware=GPU, model=MODEL)
    )
    private = submitted_privately(repository, kept)
    shutil.rmtree(kept.folder.parent)
    return Folder(
        world=world,
        repository=repository,
        reproduced=first,
        consistent=second,
        withdrawn=own["tiny-kv-fp8"],
        corrected=own["tiny-kv-int8"],
        namesake=namesake,
        private=private,
    )


def submitted_privately(repository: Repository, bundle: Bundle) -> str:
    """Submit counts and sums of a bundle alone; returns the id under which they stand."""
    staged = repository.root / f"staged-{bundle.record.name}"
    staged.mkdir()
    aggregates = aggregate(bundle, OWNER_KEY)
    (staged / "aggregates.json").write_bytes(aggregates.to_bytes())
    own = submission_id(name=bundle.record.name, record_sha256=aggregates.record_sha256)
    fields = {"kind": "private", "bundle_id": aggregates.bundle_id, "session_public": False, "note": NOTE}
    fields |= {"id": own, "record_sha256": aggregates.record_sha256}
    folder = repository._submitted(staged, bundle, "owner", fields)
    folder.rename(folder.with_name(own))
    return aggregates.bundle_id
