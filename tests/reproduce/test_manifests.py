"""A lock written as manifests and resolved again is the same lock, in all that decides numbers, and in nothing else."""

import hashlib
import json

import pytest

from suite.errors import InvalidInput, VerificationFailed
from suite.manifest.load import load_manifest
from suite.manifest.lock import LockedImage, make_lock
from suite.reproduce.draw import draw
from suite.reproduce.manifests import require_same_lock, session_of, template_of, write_manifests
from suite.workload.session import load_session
from tests.manifest.samples import DIGEST, ROOT, files, rendered
from tests.reproduce.locks import altered, container, honest

SESSION = load_session(ROOT / "workloads" / "netops-lab" / "session-7k.json")
BUILD = {"recipe": "vllm-cpu", "recipe_sha256": "b" * 64, "base": DIGEST}


def again(lock, reference, folder, *, root, built=None, weights="bf16"):
    """Both locks as this machine resolves them from the manifests that were written."""
    path = write_manifests(lock, reference, folder, session=SESSION, root=root)
    made = load_manifest(path)
    assert made.reference_file is not None
    both = (made, load_manifest(made.reference_file))
    # The sample's rendering stands for a session of the digest that its lock names.
    return [make_lock(m, model_files=files(weights), rendered=rendered(), built=built) for m in both]


@pytest.mark.parametrize("make", [honest, container])
@pytest.mark.parametrize("ranges", ["none", "assistant_output", [[1, 5], [9, 12]]])
def test_the_same_lock_comes_out(tmp_path, make, ranges):
    changes = {"capture__ranges": ranges, "environment": {"NCCL_ALGO": "Ring"}, "engine__extra": {"a_flag": True}}
    theirs = make(tmp_path, **changes)
    reference = altered(theirs, name="their-reference")
    candidate = altered(theirs, role="candidate", engine__kv_cache_dtype="fp8_e4m3")
    ours = again(candidate, reference, tmp_path / "again", root=tmp_path)
    assert [lock.capture_digest for lock in ours] == [candidate.capture_digest, reference.capture_digest]
    assert [lock.name for lock in ours] == [candidate.name, reference.name]
    for claimed, found in zip((candidate, reference), ours, strict=True):
        require_same_lock(claimed, found, where="lock.json")


def test_what_numbers_do_not_rest_on_is_left_behind(tmp_path):
    lock = altered(
        honest(tmp_path),
        role="band",
        repeats=100,
        serve={"tool_call_parser": "evil", "extra": {"tool_parser_plugin": "evil.py"}},
        branches={"policy": "flips", "max_new_tokens": 9},
        replay={"samples": 64, "temperature": "1.0"},
    )
    ours, _ = again(lock, altered(lock, role="reference"), tmp_path / "again", root=tmp_path)
    assert (ours.role, ours.repeats, ours.branches.policy, ours.replay) == ("band", 1, "none", None)
    assert ours.serve.model_dump(exclude_none=True) == {"extra": {}}
    text = (tmp_path / "again" / "manifests" / "candidate.yaml").read_text()
    assert "evil" not in text


def test_two_stacks_of_one_name_stay_two(tmp_path):
    lock = altered(honest(tmp_path), role="candidate")
    ours, reference = again(lock, lock, tmp_path / "again", root=tmp_path)
    assert ours.name != reference.name
    assert ours.capture_digest == reference.capture_digest


def test_a_drawn_policy_survives(tmp_path):
    lock = altered(honest(tmp_path), role="candidate")
    capture = draw(lock.capture, num_tokens=lock.workload.num_tokens, count=7)
    drawn = lock.model_copy(update={"capture": capture})
    ours, reference = again(drawn, drawn, tmp_path / "again", root=tmp_path)
    assert ours.capture == reference.capture == capture
    assert ours.capture_digest != lock.capture_digest


def test_an_image_built_here_has_a_configuration_of_its_own_and_no_other_freedom(tmp_path):
    image = {"build": BUILD, "config_digest": "sha256:" + "1" * 64}
    lock = altered(honest(tmp_path), role="candidate", runtime={"kind": "docker", "image": image, "packages": {}})
    here = LockedImage.model_validate_json(json.dumps(image | {"config_digest": "sha256:" + "2" * 64}))
    ours, _ = again(lock, lock, tmp_path / "again", root=tmp_path, built=here)
    assert ours.capture_digest != lock.capture_digest
    require_same_lock(lock, ours, where="lock.json")
    other = here.model_copy(update={"build": here.build.model_copy(update={"recipe_sha256": "c" * 64})})
    with pytest.raises(VerificationFailed, match=r"runtime\.image is not"):
        require_same_lock(
            lock, ours.model_copy(update={"runtime": ours.runtime.model_copy(update={"image": other})}), where="x"
        )


def test_a_swapped_checkpoint_is_named(tmp_path):
    lock = altered(honest(tmp_path), role="candidate")
    ours, _ = again(lock, lock, tmp_path / "again", root=tmp_path, weights="other")
    with pytest.raises(VerificationFailed, match=r"model\.files is not what the lock says: config\.json has SHA-256"):
        require_same_lock(lock, ours, where="lock.json")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"engine__max_num_batched_tokens": 512}, "engine"),
        ({"environment": {"NCCL_ALGO": "Ring"}}, "environment"),
        ({"runtime__packages": {"vllm": "9"}}, r"runtime\.packages"),
        ({"hardware__threads": 2}, "hardware"),
        ({"workload__tokens_sha256": "0" * 64}, "workload"),
        ({"chat_template_sha256": "0" * 64}, "chat_template"),
        ({"capture__rows_per_gemm": 32}, "capture"),
    ],
)
def test_any_other_setting_is_another_lock(tmp_path, changes, key):
    lock = honest(tmp_path)
    with pytest.raises(VerificationFailed, match=f"^lock.json: {key} is not what the lock says"):
        require_same_lock(altered(lock, **changes), lock, where="lock.json")


def test_a_session_is_found_by_digest_in_the_repository_alone(tmp_path):
    lock = honest(tmp_path)
    known = altered(lock, workload__digest=SESSION.digest())
    assert session_of(known, root=ROOT).digest() == SESSION.digest()
    for root in (ROOT, tmp_path):
        with pytest.raises(InvalidInput, match="is not among workloads") as caught:
            session_of(lock, root=root)
    assert "never from a bundle" in str(caught.value)


def test_a_chat_template_is_found_by_hash_and_is_else_the_checkpoints(tmp_path):
    template = ROOT / "workloads" / "netops-lab" / "chatml-tools.jinja"
    digest = hashlib.sha256(template.read_bytes()).hexdigest()
    lock = altered(honest(tmp_path), role="candidate", chat_template_sha256=digest)
    assert template_of(lock, root=ROOT) == template
    assert template_of(honest(tmp_path), root=ROOT) is None
    path = write_manifests(lock, honest(tmp_path), tmp_path / "again", session=SESSION, root=ROOT)
    named = load_manifest(path).workload.chat_template
    assert (tmp_path / "again" / named).read_bytes() == template.read_bytes()
    assert load_manifest(path.with_name("reference.yaml")).workload.chat_template is None
