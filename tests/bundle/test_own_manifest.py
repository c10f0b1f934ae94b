import pytest
import yaml

from suite.bundle.own_manifest import check_manifest
from suite.errors import VerificationFailed
from suite.files import canonical_json
from suite.manifest.lock import parse_lock
from tests.bundle.world import lock, manifest_of

LOCK = lock("fp8-kv", kv_cache_dtype="fp8_e4m3")


def forged(change):
    value = yaml.safe_load(manifest_of(LOCK))
    change(value)
    return yaml.safe_dump(value).encode()


def test_the_lock_is_one_of_its_manifest():
    assert check_manifest(manifest_of(LOCK), LOCK) == "the lock is one of this manifest"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v.update(name="better"), "manifest.yaml: name is not the lock's"),
        (lambda v: v.update(repeats=9), "repeats is not the lock's"),
        (lambda v: v["engine"].update(kv_cache_dtype="auto"), "kv_cache_dtype: the manifest says auto, the lock fp8"),
        (lambda v: v["engine"].update(max_num_batched_tokens=512), "chunk_size: the manifest says 512, the lock 2048"),
        (lambda v: v["runtime"].update(packages={"vllm": "0.33.0"}), "packages: the manifest says"),
        (lambda v: v["hardware"].update(threads=2), "threads: the manifest says 2, the lock 1"),
        (lambda v: v["capture"].update(stride=2), "not the lock's: different strides"),
        (lambda v: v["capture"].update(codec="hidden"), "capture.codec: the manifest says hidden, the lock auto"),
        (lambda v: v["capture"].update(ranges=[[1, 4]], stride=None), "different strides"),
        (lambda v: v["workload"].update(sha256="0" * 64), "workload.sha256: the manifest says 000"),
        (lambda v: v.update(model={"repository": "a/b", "revision": "1" * 40}), "model: the manifest says a/b@1111"),
        (lambda v: v.update(more=1), "no manifest: more: Extra inputs"),
        (lambda v: v.pop("engine"), "no manifest: engine: Field required"),
    ],
)
def test_another_manifest_is_refused(change, told):
    with pytest.raises(VerificationFailed) as caught:
        check_manifest(forged(change), LOCK)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xff", "not UTF-8"),
        (b"a: &x 1\n", "anchors and aliases"),
        (b"a: !!python/name:os.system x\n", "tags are not allowed"),
        (b"- 1\n", "must be a mapping"),
        (b"#" * (256 * 1024 + 1), "at most 262,144"),
    ],
)
def test_what_is_no_strict_yaml_is_refused(data, told):
    with pytest.raises(VerificationFailed, match=told):
        check_manifest(data, LOCK)


def test_ranges_in_numbers_are_the_locks():
    value = LOCK.to_json()
    value["capture"] = {"path": "prefill", "ranges": [[2, 5]], "codec": "auto", "rows_per_gemm": 64, "chunk_rows": 1024}
    ranged = parse_lock(canonical_json(value), where="lock")
    data = manifest_of(ranged)
    assert check_manifest(data, ranged)
    with pytest.raises(VerificationFailed, match="ranges are not the lock's"):
        check_manifest(data.replace(b"5", b"6"), ranged)
