import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from suite.bundle.arbiter import arbitrate, read_arbiter
from suite.bundle.parts import Arbiter
from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.capture.store import open_capture
from suite.cli.compare import compare
from suite.cli.show import show
from suite.errors import InvalidInput
from suite.files import pretty_json
from suite.manifest.arbiter import require_arbiter
from suite.score.ledger import read_ledger
from tests.bundle.test_verify import failure, outcomes, reseal
from tests.bundle.world import World, lock
from tests.capture.synthetic import write_capture
from tests.score.session import TOKENS, logits


def float32_lock(name="fp32", **engine):
    settings = lock(name).engine.model_dump(mode="json", exclude_none=True)
    settings |= {"dtype": "float32", "kv_cache_dtype": "auto"} | engine
    return lock(name, role="reference", engine=settings)


def arbiter(world, *, with_reference=(2,), of=None):
    """A float32 stack that has the reference's top-1 at these positions, and elsewhere the candidate's."""
    of = of or float32_lock()
    parts_candidate = logits()
    parts_candidate[2, 5] = 20
    parts_candidate[7] = np.roll(parts_candidate[7], 1)
    values = np.where(np.isin(np.arange(11), with_reference)[:, None], logits(), parts_candidate).astype(np.float32)
    folder = world.captures / of.capture_digest / "start-0"
    write_capture(folder, values, TOKENS, lock_digest=of.digest, capture_digest=of.capture_digest)
    return Arbiter(lock=of, capture=open_capture(folder))


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    world = World(root=tmp_path_factory.mktemp("arbiter"))
    parts = world.parts()
    return world, write_bundle(replace(parts, arbiter=arbiter(world)), results=world.results)


@pytest.fixture
def bundle(honest, tmp_path):
    _, folder = honest
    return shutil.copytree(folder, tmp_path / "results" / "fp8-kv" / folder.name)


def forge(folder, **changes):
    path = folder / "arbiter.json"
    path.write_bytes(pretty_json(json.loads(path.read_text()) | changes))
    reseal(folder)


def test_each_flip_is_given_to_the_side_whose_top1_the_arbiter_has(honest):
    record = read_arbiter(open_bundle(honest[1]))
    assert [(flip.position, flip.agrees, flip.flip_class) for flip in record.flips] == [
        (2, "reference", "confident"),
        (7, "candidate", "uncertain"),
    ]
    assert {c.flip_class: (c.reference, c.candidate, c.neither) for c in record.counts} == {
        "tied": (0, 0, 0),
        "uncertain": (0, 1, 0),
        "leaning": (0, 0, 0),
        "confident": (1, 0, 0),
    }
    assert record.text() == (
        "at 2 flips the top-1 of fp32 (float32) is that of: reference 1 (confident 1), candidate 1 (confident 0), "
        "neither 0 (confident 0)"
    )


def test_a_third_token_is_neither_s(honest, tmp_path):
    world = World(root=tmp_path)
    ledger = read_ledger(honest[1] / "ledger.parquet")
    of = float32_lock()
    values = logits().astype(np.float32)
    values[2, 0] = 30
    folder = write_capture(tmp_path / "c", values, TOKENS, lock_digest=of.digest, capture_digest=of.capture_digest)
    flips = arbitrate(ledger, open_capture(folder), of).flips
    assert [flip.agrees for flip in flips] == ["neither", "reference"]
    assert not world.results.exists()


def test_an_honest_record_is_verified_against_its_capture(honest):
    world, folder = honest
    report = verify_bundle(folder, captures=world.captures)
    report.require_passed()
    assert outcomes(report)["arbiter"] == "passed"
    assert "from its capture" in next(check.detail for check in report.checks if check.name == "arbiter")


def test_without_the_capture_the_rest_is_verified(bundle):
    report = verify_bundle(bundle)
    assert outcomes(report)["arbiter"] == "passed"
    assert "not at hand" in next(check.detail for check in report.checks if check.name == "arbiter")


def test_counts_that_do_not_follow_are_found(bundle):
    counts = json.loads((bundle / "arbiter.json").read_text())["counts"]
    counts[3] |= {"reference": 0, "candidate": 1}
    forge(bundle, counts=counts)
    assert "counts do not follow" in failure(bundle)


def test_a_side_that_does_not_follow_is_found(bundle):
    flips = json.loads((bundle / "arbiter.json").read_text())["flips"]
    flips[0] |= {"agrees": "candidate"}
    forge(bundle, flips=flips)
    assert "position 2: does not follow from the ledger" in failure(bundle)


def test_a_flip_that_is_left_out_is_found(bundle):
    flips = json.loads((bundle / "arbiter.json").read_text())["flips"]
    forge(bundle, flips=flips[1:])
    assert "its flips are not those of the ledger" in failure(bundle)


def test_another_token_and_its_counts_are_found_with_the_capture(honest, bundle):
    record = json.loads((bundle / "arbiter.json").read_text())
    ledger = read_ledger(bundle / "ledger.parquet")
    record["flips"][0] |= {"top1": int(ledger.columns["cand_top1"][2]), "agrees": "candidate"}
    record["counts"][3] |= {"reference": 0, "candidate": 1}
    forge(bundle, **record)
    verify_bundle(bundle).require_passed()
    assert "does not follow from the arbiter's capture" in failure(bundle, captures=honest[0].captures)


def test_a_lock_of_another_dtype_is_found(bundle):
    lock_value = json.loads((bundle / "arbiter.json").read_text())["lock"]
    lock_value["engine"]["dtype"] = "bfloat16"
    forge(bundle, lock=lock_value)
    assert "its lock is not that of its capture" in failure(bundle)


def test_what_is_no_record_is_refused(bundle):
    forge(bundle, extra=1)
    assert "Extra inputs are not permitted" in failure(bundle)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"dtype": "bfloat16"}, "must be float32"),
        ({"kv_cache_dtype": "fp8_e4m3"}, "must be auto"),
    ],
)
def test_only_a_float32_stack_may_judge(tmp_path, changes, why):
    world = World(root=tmp_path)
    parts = world.parts()
    with pytest.raises(InvalidInput, match=why):
        write_bundle(replace(parts, arbiter=arbiter(world, of=float32_lock(**changes))), results=world.results)
    assert not list(world.results.glob("*/*"))


def test_it_may_not_judge_other_weights(tmp_path):
    world = World(root=tmp_path)
    parts = world.parts()
    other = {"source": {}, "files": [{"path": "model.safetensors", "size_bytes": 1, "sha256": "8" * 64}]}
    quantised = lock("int8", model=other, kv_cache_dtype="bfloat16")
    with pytest.raises(InvalidInput, match="favours the reference by construction"):
        require_arbiter(parts.reference_lock, quantised, float32_lock())


def test_a_capture_of_other_probes_is_refused(tmp_path):
    world = World(root=tmp_path)
    parts = world.parts()
    of = float32_lock()
    folder = write_capture(
        tmp_path / "short",
        logits().astype(np.float32)[:5],
        TOKENS,
        lock_digest=of.digest,
        capture_digest=of.capture_digest,
    )
    with pytest.raises(InvalidInput, match="not of the ledger's probes"):
        arbitrate(read_ledger(parts.ledger), open_capture(folder), of)


def test_people_see_counts_and_no_word_of_being_right(honest):
    shown = CliRunner().invoke(show, [str(honest[1])], catch_exceptions=False).output
    rows = [line.split() for line in shown.splitlines()]
    assert ["confident", "1", "0", "0"] in rows
    assert ["all", "flips", "(fp32,", "float32)", "1", "1", "0"] in rows
    table = CliRunner().invoke(compare, [str(honest[1])], catch_exceptions=False).output
    assert "fp8-kv: at 2 flips the top-1 of fp32 (float32) is that of: reference 1" in table
    assert "not which is right" in table
    value = json.loads(CliRunner().invoke(compare, [str(honest[1]), "--format", "json"]).output)
    assert value["rows"][0]["arbiter"][3] == {"flip_class": "confident", "reference": 1, "candidate": 0, "neither": 0}
    assert "correct" not in shown + table
