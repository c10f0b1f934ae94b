import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suite.bundle.band import band_members
from suite.bundle.find import find_bundles
from suite.bundle.read import open_bundle
from suite.bundle.schema import seal
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.errors import VerificationFailed
from suite.files import canonical_json, pretty_json, sha256_bytes
from suite.score.ledger import read_ledger
from suite.score.summary import summarise
from tests.bundle.world import World, lock
from tests.score.session import logits

ORDER = [
    "record",
    "files",
    "signature",
    "locks",
    "manifest",
    "receipts",
    "packages",
    "factors",
    "ledger",
    "headlines",
    "tokens",
    "repeat floor",
    "numerical band",
    "evidence",
]


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A world with one honest bundle; tests copy the bundle before they forge it."""
    world = World(root=tmp_path_factory.mktemp("honest"))
    folder = write_bundle(world.parts(), results=world.results)
    return world, folder


@pytest.fixture
def bundle(honest, tmp_path):
    _, folder = honest
    return Path(shutil.copytree(folder, tmp_path / "results" / "fp8-kv" / folder.name))


def outcomes(report):
    return {check.name: check.outcome for check in report.checks}


def failure(path, **options):
    report = verify_bundle(path, **options)
    with pytest.raises(VerificationFailed):
        report.require_passed()
    return f"{report.failure.name}: {report.failure.detail}"


def reseal(folder, **changes):
    """Write bundle.json again with `changes` and all hashes right: a forger who knows the format."""
    fields = json.loads((folder / "bundle.json").read_text())
    del fields["record_sha256"]
    fields |= changes
    fields["files"] = {name: sha256_bytes((folder / name).read_bytes()) for name in fields["files"]}
    (folder / "bundle.json").write_bytes(seal(fields))


def forge_ledger(folder, **columns):
    """Replace cells of the ledger by {row: value} and recompute headlines and hashes, as a forger would."""
    path = folder / "ledger.parquet"
    table = pq.read_table(path)
    for name, cells in columns.items():
        values = table[name].to_pylist()
        for row, value in cells.items():
            values[row] = value
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)
    headlines = summarise(read_ledger(path))
    reseal(folder, headlines=headlines.model_dump(mode="json"), off_policy=headlines.off_policy.model_dump(mode="json"))


def test_an_honest_bundle_passes_every_check_with_its_evidence(honest):
    world, folder = honest
    report = verify_bundle(folder, captures=world.captures)
    assert list(outcomes(report)) == ORDER
    not_done = dict.fromkeys(("signature", "packages", "numerical band"), "not done")
    assert outcomes(report) == dict.fromkeys(ORDER, "passed") | not_done
    report.require_passed()
    assert report.checks[-1].detail.startswith("all 11 probes computed again from both captures")


def test_without_evidence_it_says_that_the_ledger_was_not_recomputed(honest, tmp_path):
    _, folder = honest
    for captures in (None, tmp_path / "empty"):
        report = verify_bundle(folder, captures=captures)
        assert report.checks[-1].outcome == "not done"
        assert "evidence not at hand: ledger not recomputed" in report.checks[-1].detail
        report.require_passed()


def test_another_capture_of_the_same_lock_is_not_this_evidence(world):
    parts = world.parts()
    folder = write_bundle(parts, results=world.results)
    world.capture(parts.lock, logits(), timings={"capture": 9.0})
    check = verify_bundle(folder, captures=world.captures).checks[-1]
    assert (check.outcome, "only other captures of the same lock" in check.detail) == ("not done", True)


def test_evidence_may_lie_in_any_folder_of_its_capture_digest(world):
    parts = world.parts()
    folder = write_bundle(parts, results=world.results)
    parts.reference.folder.rename(parts.reference.folder.with_name("pack-0123456789ab"))
    assert outcomes(verify_bundle(folder, captures=world.captures))["evidence"] == "passed"


def test_every_flipped_byte_of_every_file_is_caught(bundle):
    for path in sorted(bundle.iterdir()):
        data = path.read_bytes()
        for at in range(0, len(data), max(len(data) // 25, 1)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert verify_bundle(bundle).failure, f"{path.name}, byte {at}"
        path.write_bytes(data)
    assert verify_bundle(bundle).failure is None


def test_any_byte_of_the_record_counts(bundle):
    path = bundle / "bundle.json"
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        assert verify_bundle(bundle).failure.name == "record", at
    path.write_bytes(data + b"\n")
    assert "form of a bundle record" in failure(bundle)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda b: (b / "surplus").touch(), "files: surplus: a file that the bundle does not name"),
        (lambda b: (b / "notes").mkdir(), "files: notes: a file that the bundle does not name"),
        (lambda b: (b / "repeats.json").unlink(), "files: repeats.json: a file that the bundle names is missing"),
        (lambda b: b.rename(b.with_name("20260304T050608Z-000000000000")), "record: bundle.json: the folder is not"),
        (lambda b: (b / "bundle.json").unlink(), "record: .*no bundle here"),
        (lambda b: (b / "bundle.json").write_text("[1]"), "record: bundle.json: Input should be"),
        (lambda b: (b / "bundle.json").write_text("[" * 100_000), "record: bundle.json: not JSON"),
        (lambda b: (b / "bundle.json").write_text('{"schema_version": 1e999}'), "not a number that JSON allows"),
        (lambda b: (b / "bundle.json").write_text("9" * 9_999), "not JSON"),
        (lambda b: (b / "bundle.json").write_text('{"schema_version": 2}'), "newer than this program"),
        (lambda b: (b / "bundle.json").write_bytes(bytes((16 << 20) + 1)), "at most 16,777,216 are read"),
    ],
)
def test_a_folder_that_is_not_what_it_says_is_refused(bundle, change, told):
    change(bundle)
    (found,) = [path for path in bundle.parent.iterdir() if path.is_dir()]
    with pytest.raises(VerificationFailed, match=told):
        raise VerificationFailed(failure(found))


@pytest.mark.parametrize("name", ["engine.log", "bundle.json", "ledger.parquet"])
def test_links_are_never_followed(bundle, tmp_path, name):
    outside = tmp_path / "outside"
    (bundle / name).rename(outside)
    (bundle / name).symlink_to(outside)
    assert "cannot be opened" in failure(bundle)


def test_a_pipe_does_not_make_it_wait(bundle):
    import os

    (bundle / "engine.log").unlink()
    os.mkfifo(bundle / "engine.log")
    assert "files: engine.log: not a regular file" in failure(bundle)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "better"}, "locks: lock.json: name: the bundle claims better, found fp8-kv"),
        ({"reference_lock_digest": "0" * 64}, "locks: reference-lock.json: digest"),
        ({"factors": [], "causal_claim": False}, "factors: bundle.json: factors: the bundle claims"),
        ({"causal_claim": False}, "factors: bundle.json: causal_claim: the bundle claims False, recomputed True"),
        (
            {"repeat_floor": {"starts": [{"start": 0, "flips": 0, "identical_rows": 11, "n": 11}]}},
            "repeat floor: bundle.json: repeat_floor.starts: ",
        ),
        ({"off_policy": {"count": 1, "n": 11}}, "headlines: bundle.json: off_policy.count: the bundle claims 1"),
    ],
)
def test_a_resealed_claim_is_recomputed(bundle, changes, told):
    reseal(bundle, **changes)
    assert told in failure(bundle)


@pytest.mark.parametrize("key", ["flips", "n", "top1_agreement", "nll_cand", "rounding_kl", "identical_rows"])
def test_every_headline_is_recomputed_exactly(bundle, key):
    headlines = json.loads((bundle / "bundle.json").read_text())["headlines"]
    value = headlines[key]
    headlines[key] = value - 1 if isinstance(value, int) else float(np.nextafter(value, 0))
    reseal(bundle, headlines=headlines)
    assert f"headlines: bundle.json: headlines.{key}: the bundle claims {headlines[key]}" in failure(bundle)


def test_one_group_is_recomputed_too(bundle):
    headlines = json.loads((bundle / "bundle.json").read_text())["headlines"]
    headlines["by_turn"][1]["flips_confident"] += 1
    reseal(bundle, headlines=headlines)
    assert "headlines.by_turn[1].flips_confident" in failure(bundle)


def test_a_forged_ledger_that_is_consistent_in_itself_is_caught_by_the_evidence(honest, bundle):
    world, _ = honest
    forge_ledger(bundle, kl_ref_cand={2: 40.0})
    assert verify_bundle(bundle).failure is None
    assert "evidence: ledger.parquet: position 2: kl_ref_cand is 40.0, the evidence gives" in failure(
        bundle, captures=world.captures
    )


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"flip": {2: False}}, "ledger: ledger.parquet: position 2: flip does not follow"),
        ({"ref_row_sha256": {4: bytes(32)}}, "reference's rows_sha256"),
        ({"target_id": {10: 0}}, "tokens: ledger.parquet: tokens_sha256"),
    ],
)
def test_a_forged_ledger_that_contradicts_itself_or_its_lock_is_caught(bundle, cells, told):
    forge_ledger(bundle, **cells)
    assert told in failure(bundle)


def test_dropped_probes_are_noticed(bundle):
    path = bundle / "ledger.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 10), path)
    headlines = summarise(read_ledger(path))
    reseal(bundle, headlines=headlines.model_dump(mode="json"))
    assert "ledger: ledger.parquet: reference's rows_sha256" in failure(bundle)


def test_positions_other_than_the_locks_are_refused(world):
    parts = world.parts(positions=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert "its positions are not those of the lock's capture policy, first at the end" in failure(
        write_bundle(parts, results=world.results)
    )


def test_a_ledger_that_does_not_hold_all_tokens_says_so(world):
    policy = {"path": "prefill", "stride": 4, "ranges": [], "codec": "auto", "rows_per_gemm": 64, "chunk_rows": 1024}
    parts = world.parts(positions=[3, 7], capture=policy)
    report = verify_bundle(write_bundle(parts, results=world.results), captures=world.captures)
    assert outcomes(report)["tokens"] == "not done"
    assert "4 of 12 token ids" in next(check.detail for check in report.checks if check.name == "tokens")
    assert outcomes(report)["evidence"] == "passed"


def test_overlapping_ranges_in_a_lock_are_refused_before_they_are_walked(bundle):
    data = json.loads((bundle / "lock.json").read_text())
    data["capture"]["ranges"] = [[0, 11]] * 1000
    (bundle / "lock.json").write_bytes(canonical_json(data))
    forged = open_bundle(bundle).lock()
    renamed = bundle.rename(bundle.with_name(f"{bundle.name[:17]}{forged.digest[:12]}"))
    evidence = json.loads((renamed / "bundle.json").read_text())["evidence"]
    evidence["candidate"]["capture_digest"] = forged.capture_digest
    reseal(renamed, lock_digest=forged.digest, evidence=evidence)
    assert "ranges are not sorted and disjoint" in failure(renamed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda r: r["requested"].update(kv_cache_dtype="auto"),
            "kv_cache_dtype: requested 'auto', effective 'fp8_e4m3'",
        ),
        (lambda r: r.pop("effective"), "no requested and effective settings"),
    ],
)
def test_a_receipt_in_which_a_request_was_not_effective_is_refused(world, change, told):
    parts = world.parts()
    receipt = json.loads((parts.candidate.folder / "receipt.json").read_text())
    change(receipt)
    candidate = world.capture(parts.lock, _same_candidate(), receipt=receipt)
    assert told in failure(write_bundle(replace(parts, candidate=candidate), results=world.results))


def _same_candidate():
    values = logits()
    values[2, 5] = 20
    values[7] = np.roll(values[7], 1)
    return values


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v["starts"][1].update(flips=[], identical_rows=11, rows_sha256="0" * 64), "contradicts rows_sha256"),
        (lambda v: v["starts"][0].update(index_sha256="0" * 64), "first start's index_sha256"),
        (lambda v: v["starts"][1]["flips"][0].update(first_top1=3), "is not start 0's top-1"),
        (lambda v: v["starts"][1].update(flips=[]), "repeat_floor.starts[1].flips"),
        (lambda v: v.update(capture_digest="0" * 64), "capture_digest"),
        (lambda v: v.update(more=1), "more"),
    ],
)
def test_a_forged_floor_is_caught(world, change, told):
    parts = world.parts(repeats=1)
    drifted = _same_candidate()
    drifted[5, 1] += 20
    from suite.score.floor import repeat_floor

    repeats = repeat_floor([parts.candidate, world.capture(parts.lock, drifted, start=1)])
    folder = write_bundle(replace(parts, repeats=repeats), results=world.results)
    assert verify_bundle(folder).failure is None
    value = json.loads((folder / "repeats.json").read_text())
    change(value)
    (folder / "repeats.json").write_bytes(pretty_json(value))
    reseal(folder)
    assert told in failure(folder)


def test_band_members_are_those_of_the_same_reference_rows_and_are_checked(world):
    for name, seed, dtype in (("chunk-512", 3, "fp8_e5m2"), ("isa-avx2", 4, "int8_per_token_head")):
        values = logits() + np.random.default_rng(seed).normal(0, 0.5, logits().shape)
        parts = world.parts(name, role="band", kv_cache_dtype=dtype, candidate=values)
        write_bundle(parts, results=world.results)
    parts = world.parts()
    plain = write_bundle(parts, results=world.results)
    reference = open_bundle(plain).record.evidence.reference
    band = band_members(find_bundles(world.results), reference=reference)
    assert [member.name for member in band] == ["chunk-512", "isa-avx2"]
    assert all(m.flips == m.flips_tied + m.flips_uncertain + m.flips_leaning + m.flips_confident for m in band)
    other = reference.model_copy(update={"rows_sha256": "0" * 64})
    assert band_members(find_bundles(world.results), reference=other) == ()
    shutil.rmtree(plain)
    folder = write_bundle(world.with_band(parts, band), results=world.results)
    assert outcomes(verify_bundle(folder))["numerical band"] == "passed"
    fewer = [m.model_dump(mode="json") | {"flips": m.flips + 1} for m in band]
    reseal(folder, band=fewer)
    assert "numerical band: bundle.json: band member chunk-512.flips" in failure(folder)
    reseal(folder, band=[member.model_dump(mode="json") for member in band])
    shutil.rmtree(world.results / "isa-avx2")
    check = next(c for c in verify_bundle(folder).checks if c.name == "numerical band")
    assert (check.outcome, "1 of 2 members' bundles are not at hand" in check.detail) == ("not done", True)


def test_a_broken_bundle_is_no_member_and_does_not_disturb_the_others(world):
    folder = write_bundle(world.parts("chunk-512", role="band", kv_cache_dtype="bfloat16"), results=world.results)
    reference = open_bundle(folder).record.evidence.reference
    (folder / "bundle.json").write_text("{}")
    assert band_members(find_bundles(world.results), reference=reference) == ()


def test_hidden_evidence_is_recomputed_by_the_given_replay(world):
    from suite.capture.rows import open_rows

    head = {"sha256s": ["a" * 64], "scale": 1.0, "soft_cap": None, "has_bias": False}
    parts = world.parts()
    values = _same_candidate()
    hidden = world.capture(parts.lock, values, codec="hidden", head=head, fingerprint=True)
    from suite.score.floor import repeat_floor

    parts = replace(parts, candidate=hidden, repeats=repeat_floor([hidden]))
    folder = write_bundle(parts, results=world.results)
    assert outcomes(verify_bundle(folder, captures=world.captures))["evidence"] == "not done"
    elsewhere = world.root / "elsewhere"
    replayed = []

    def replay(capture):
        replayed.append(capture.index_sha256)
        other = World(root=elsewhere).capture(parts.lock, values)
        return open_rows(other)

    assert outcomes(verify_bundle(folder, captures=world.captures, replay=replay))["evidence"] == "passed"
    assert replayed == [hidden.index_sha256]


def test_damaged_evidence_fails_naming_the_chunk(world):
    parts = world.parts()
    folder = write_bundle(parts, results=world.results)
    chunk = parts.reference.folder / "chunk-00001.safetensors"
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(bytes(data))
    assert "chunk-00001.safetensors: its bytes are not those" in failure(folder, captures=world.captures)


def test_locks_of_two_workloads_are_refused(bundle):
    other = lock(
        "bf16",
        role="reference",
        workload={"name": "x", "digest": "3" * 64, "tokens_sha256": "7" * 64, "num_tokens": 12},
    )
    (bundle / "reference-lock.json").write_bytes(other.to_bytes())
    evidence = json.loads((bundle / "bundle.json").read_text())["evidence"]
    evidence["reference"]["capture_digest"] = other.capture_digest
    reseal(bundle, reference_lock_digest=other.digest, evidence=evidence)
    assert "tokens_sha256" in failure(bundle)


def test_a_signed_bundle_says_who_signed(bundle, tmp_path):
    from suite.signing.folder import sign_folder
    from suite.signing.keys import new_key

    key = new_key(tmp_path / "key.pem")
    sign_folder(bundle, key, kind="result")
    report = verify_bundle(bundle)
    assert report.failure is None
    (check,) = (check for check in report.checks if check.name == "signature")
    assert (check.outcome, check.detail) == ("passed", f"signed by {key.key_id}: says who, and not that it is right")


def test_a_resealed_bundle_has_no_longer_the_signature(bundle, tmp_path):
    from suite.signing.folder import sign_folder
    from suite.signing.keys import new_key

    sign_folder(bundle, new_key(tmp_path / "key.pem"), kind="result")
    (bundle / "engine.log").write_text("another\n")
    reseal(bundle)
    assert "signature: " in failure(bundle)


def test_a_statement_over_something_else_is_refused(bundle, tmp_path):
    from suite.signing.folder import sign_folder
    from suite.signing.keys import new_key

    sign_folder(bundle, new_key(tmp_path / "key.pem"), kind="submission")
    assert "the statement is over a submission, not over a result" in failure(bundle)
