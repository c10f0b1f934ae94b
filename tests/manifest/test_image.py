"""Images in manifests and locks: by digest, or built here from a recipe."""

import pytest
from pydantic import ValidationError

from suite.errors import InvalidInput, VerificationFailed
from suite.image.facts import Build, ImageFacts, parse_facts, require_pinned
from suite.image.recipe import load_recipe
from suite.manifest.diff import factors
from suite.manifest.lock import LockedBuild, LockedImage, make_lock, parse_lock
from suite.manifest.schema import Image
from suite.reference.store import differences
from tests.manifest.samples import CPU, DIGEST, ROOT, changed, files, manifest, rendered

OTHER = "sha256:" + "b" * 64
BUILD = changed(CPU, {"runtime": {"kind": "docker", "image": {"build": "vllm-cpu"}}})


def built(config: str = DIGEST, recipe_sha256: str = "1" * 64) -> LockedImage:
    recipe = LockedBuild(recipe="vllm-cpu", recipe_sha256=recipe_sha256, base=OTHER)
    return LockedImage(build=recipe, config_digest=config)


def locked(folder, image):
    return make_lock(manifest(folder, BUILD), model_files=files(), rendered=rendered(), built=image)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "either `repository`"),
        ({"repository": "a/b", "build": "vllm-cpu"}, "either `repository`"),
        ({"build": "vllm-cpu", "digest": DIGEST}, "`digest` belongs to an image of a registry"),
        ({"build": "vllm-cpu", "mirrors": ("a/b",)}, "`mirrors` belongs to an image of a registry"),
        ({"build": "../up"}, "pattern"),
        ({"repository": "a/b:latest"}, "a tag is refused"),
    ],
)
def test_an_image_is_pinned_or_built(value, message):
    with pytest.raises(ValidationError, match=message):
        Image(**value)


def test_a_built_image_stands_in_the_lock_with_its_digest(tmp_path):
    lock = locked(tmp_path, built())
    assert lock.runtime.image == built()
    assert parse_lock(lock.to_bytes(), where="lock") == lock
    assert locked(tmp_path, built(OTHER)).capture_digest != lock.capture_digest
    with pytest.raises(InvalidInput, match="is not known") as caught:
        locked(tmp_path, None)
    assert "suite image build vllm-cpu" in caught.value.hint


@pytest.mark.parametrize(
    "value",
    [
        {"build": built().build.model_dump()},
        {"build": built().build.model_dump(), "config_digest": DIGEST, "repository": "a/b"},
        {"repository": "a/b"},
    ],
)
def test_a_lock_identifies_its_image(value):
    with pytest.raises(ValidationError, match=r"an image (of a registry|that was built) has"):
        LockedImage(**value)


def test_two_builds_of_one_recipe_are_two_images(tmp_path):
    first, second = locked(tmp_path, built()), locked(tmp_path, built(OTHER))
    (factor,) = factors(first, second).factors
    assert (factor.name, factor.a, factor.b) == ("image", DIGEST, OTHER)
    assert factors(first, first).factors == ()


def test_a_manifest_finds_the_capture_of_its_recipe(tmp_path, monkeypatch):
    recipe = load_recipe("vllm-cpu", root=ROOT)
    loaded = manifest(tmp_path, BUILD)
    monkeypatch.setattr("suite.reference.store.load_recipe", lambda name, root: recipe)
    assert differences(loaded, locked(tmp_path, built(recipe_sha256=recipe.sha256))) == []
    (told,) = differences(loaded, locked(tmp_path, built()))
    assert told.startswith("runtime.image.build")


FACTS = ImageFacts(
    repository="a/b",
    platform="linux/amd64",
    index_digest=DIGEST,
    platform_digest=OTHER,
    config_digest="sha256:" + "c" * 64,
    diff_ids=("sha256:" + "d" * 64,),
)


def test_facts_fit_the_image_that_was_pinned():
    for good in (
        {"digest": DIGEST, "digest_kind": "index", "platform_digest": OTHER},
        {"digest": OTHER, "digest_kind": "platform", "config_digest": FACTS.config_digest},
        {"digest": DIGEST},
        {"digest": OTHER},
    ):
        require_pinned(Image(repository="a/b", **good), FACTS, where="image.json")
        require_pinned(LockedImage(repository="a/b", **good), FACTS, where="image.json")
    for wrong in (
        {"digest": OTHER, "digest_kind": "index"},
        {"digest": DIGEST, "digest_kind": "platform"},
        {"digest": DIGEST, "config_digest": OTHER},
        {"digest": "sha256:" + "9" * 64},
    ):
        with pytest.raises(VerificationFailed, match="found sha256:"):
            require_pinned(LockedImage(repository="a/b", **wrong), FACTS, where="image.json")


def test_facts_fit_the_image_that_was_built():
    facts = FACTS.model_copy(
        update={
            "repository": None,
            "index_digest": None,
            "platform_digest": None,
            "config_digest": DIGEST,
            "build": Build(recipe="vllm-cpu", recipe_sha256="1" * 64, base=OTHER),
        }
    )
    require_pinned(built(), facts, where="image.json")
    for wrong in (built(OTHER), built(recipe_sha256="2" * 64)):
        with pytest.raises(VerificationFailed):
            require_pinned(wrong, facts, where="image.json")
    assert parse_facts(facts.to_bytes(), where="facts") == facts


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "not facts about an image"),
        (b'{"schema_version": 2}', "newer"),
        (b"[]", "not facts"),
        (FACTS.to_bytes().replace(b'"a/b"', b'"a/b:tag"'), "repository"),
        (FACTS.model_copy(update={"repository": None}).to_bytes(), "from a repository or from a build"),
    ],
)
def test_facts_are_read_strictly(data, message):
    with pytest.raises(InvalidInput, match=message):
        parse_facts(data, where="image.json")


def test_an_image_is_named_by_its_digest_and_a_built_one_by_its_configuration():
    assert built().pinned_name == DIGEST
    assert LockedImage(repository="a/b", digest=OTHER, config_digest=DIGEST).pinned_name == f"a/b@{OTHER}"
    assert Image(build="vllm-cpu").pinned_name is None
