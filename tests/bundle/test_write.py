import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from suite.bundle.read import open_bundle
from suite.bundle.write import write_bundle
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.score.ledger import read_ledger
from suite.score.summary import summarise
from tests.bundle.world import CREATED, lock, receipt
from tests.score.session import logits


def test_a_bundle_stands_under_its_name_time_and_lock(world):
    parts = world.parts()
    folder = write_bundle(parts, results=world.results)
    assert folder == world.results / "fp8-kv" / f"20260304T050607Z-{parts.lock.digest[:12]}"
    record = open_bundle(folder).record
    assert {path.name for path in folder.iterdir()} == {"bundle.json", *record.files}
    assert record.created == "2026-03-04T05:06:07Z"
    assert record.headlines == summarise(read_ledger(parts.ledger))
    assert (record.headlines.flips, record.headlines.flips_confident, record.headlines.n) == (2, 1, 11)
    assert [factor.key for factor in record.factors] == ["kv_cache_dtype"]
    assert record.causal_claim
    assert record.repeat_floor.text() == "0, 0 flips, all rows identical (of 3 starts, n = 11)"


def test_the_log_is_redacted(world):
    folder = write_bundle(world.parts(), results=world.results)
    assert (folder / "engine.log").read_text() == "loaded ~/models with <secret> on <host>\n"


def test_times_are_written_in_utc(world):
    parts = replace(world.parts(), created=CREATED.astimezone(timezone(timedelta(hours=5))))
    assert write_bundle(parts, results=world.results).name.startswith("20260304T050607Z-")


def test_what_a_factor_does_not_entail_is_a_factor_and_voids_the_claim(world):
    parts = world.parts()
    path = parts.candidate.folder / "receipt.json"
    changed = receipt("fp8_e4m3", kernel="OtherKernel")
    candidate = world.capture(parts.lock, _candidate(), receipt=changed)
    record = open_bundle(write_bundle(replace(parts, candidate=candidate), results=world.results)).record
    assert json.loads(path.read_text()) == changed
    (kernels,) = (item for item in record.factors if item.key == "linear_kernels")
    assert (kernels.reference, kernels.candidate) == (["PlainKernel"], ["OtherKernel"])
    assert not record.causal_claim


def test_a_bundle_is_never_written_over_another(world):
    parts = world.parts()
    write_bundle(parts, results=world.results)
    with pytest.raises(InvalidInput, match="exists already"):
        write_bundle(parts, results=world.results)


def test_two_runs_of_the_same_captures_differ_in_time_only(world):
    first = write_bundle(world.parts(), results=world.results)
    later = replace(world.parts(), created=CREATED + timedelta(seconds=1))
    second = write_bundle(later, results=world.results)
    for path in first.iterdir():
        if path.name != "bundle.json":
            assert path.read_bytes() == (second / path.name).read_bytes()


def test_rows_that_are_not_finite_leave_no_bundle(world):
    values = logits()
    values[4, 0] = np.nan
    with pytest.raises(RunFailed, match="1 of 11 probes"):
        write_bundle(world.parts(candidate=values), results=world.results)
    assert not world.results.exists()


def test_parts_of_different_runs_are_refused(world):
    parts = world.parts()
    other = world.parts("other", candidate=logits(5), kv_cache_dtype="fp8_e5m2")
    with pytest.raises(VerificationFailed, match="candidate rows"):
        write_bundle(replace(parts, ledger=other.ledger), results=world.results)
    with pytest.raises(VerificationFailed, match="reference lock"):
        write_bundle(replace(parts, reference_lock=other.lock), results=world.results)
    with pytest.raises(VerificationFailed, match="candidate lock"):
        write_bundle(replace(parts, lock=lock("x", kv_cache_dtype="int8_per_token_head")), results=world.results)
    with pytest.raises(VerificationFailed, match="repeats"):
        write_bundle(replace(parts, repeats=other.repeats), results=world.results)


def test_a_changed_receipt_is_refused(world):
    parts = world.parts()
    (parts.candidate.folder / "receipt.json").write_text("{}")
    with pytest.raises(VerificationFailed, match="not the receipt"):
        write_bundle(parts, results=world.results)


def test_a_full_disk_leaves_nothing(world, monkeypatch):
    parts = world.parts()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MissingPrerequisite, match="no space left"):
        write_bundle(parts, results=world.results)
    assert not (world.results / "fp8-kv").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.bundle.world import World
from suite.bundle.write import write_bundle

parts = World(root=Path(sys.argv[1])).parts()
seen = 0
original = os.fsync
def fsync(descriptor):
    global seen
    seen += 1
    if seen == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    original(descriptor)
os.fsync = fsync
write_bundle(parts, results=Path(sys.argv[1]) / "results")
"""


@pytest.mark.parametrize("at", [1, 5, 11])
def test_a_kill_in_the_middle_leaves_no_bundle_and_the_next_run_clears_up(world, at):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(world.root), str(at)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    left = [path.name for path in (world.results / "fp8-kv").iterdir()]
    assert all(name.startswith(".") for name in left)
    assert len(left) == 1
    folder = write_bundle(world.parts(), results=world.results)
    assert [path.name for path in (world.results / "fp8-kv").iterdir()] == [folder.name]


def test_a_part_larger_than_a_bundle_holds_is_refused(world):
    parts = replace(world.parts(), manifest_yaml=bytes((1 << 20) + 1))
    with pytest.raises(InvalidInput, match=r"manifest\.yaml has 1,048,577 bytes"):
        write_bundle(parts, results=world.results)


def _candidate():
    values = logits()
    values[2, 5] = 20
    values[7] = np.roll(values[7], 1)
    return values
