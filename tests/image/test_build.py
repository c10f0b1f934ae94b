"""Building from small recipes with a real engine's builder, without a network."""

import pytest

from suite.errors import InvalidInput, RunFailed
from suite.image.build import build_image
from suite.image.ensure import ensure_image, find_image, locked
from suite.image.present import built_image
from suite.image.recipe import load_recipe
from suite.observer import SilentObserver
from tests.image.test_pull import Seen
from tests.manifest.samples import CPU, changed, manifest

pytestmark = pytest.mark.container

RECIPE = """# python: 3.11
ARG BASE=nowhere.invalid/base@sha256:{zeros}
FROM ${{BASE}} AS packages
COPY requirements/one.txt /requirements/
COPY wheels /wheels
RUN cp /wheels/a-1-py3-none-any.whl /kept{extra}
LABEL suite.stage=small
FROM ${{BASE}}
COPY --from=packages /kept /kept
USER 1000:1000
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "dockerfiles" / "small").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "one.txt").write_text(f"a==1 --hash=sha256:{'1' * 64}\n# {tmp_path}\n")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    write_recipe(tmp_path)
    return tmp_path


def write_recipe(root, extra: str = "") -> None:
    text = RECIPE.format(zeros="0" * 64, extra=extra)
    (root / "dockerfiles" / "small" / "Dockerfile").write_text(text)


def build(root, world, engine, observer=None, **options):
    recipe = load_recipe("small", root=root)
    options = {"wheels": root / "wheels", "base": world.base, "network": "none"} | options
    return build_image(recipe, engine=engine, observer=observer or SilentObserver(), **options)


def test_an_image_is_built_once_and_found_by_its_recipe(root, world, engine):
    recipe = load_recipe("small", root=root)
    assert built_image(engine, recipe) is None
    loaded = manifest(root, changed(CPU, {"runtime": {"kind": "docker", "image": {"build": "small"}}}))
    assert not find_image(loaded, engine=engine)
    seen = Seen()
    dangling = {image["Id"] for image in engine.api.images(filters={"dangling": True})}
    built = build(root, world, engine, seen)
    try:
        assert built.facts.build is not None
        assert built.facts.build.recipe_sha256 == recipe.sha256
        assert world.base.endswith(built.facts.build.base)
        assert built.facts.config_digest == built.image_id
        assert "build step 9 of 12: USER" in " ".join(seen.notes)
        assert built_image(engine, recipe) == built
        assert find_image(loaded, engine=engine)
        assert ensure_image(loaded, engine=engine, home=root / "home", observer=SilentObserver()) == built
        image = locked(built.facts)
        assert image is not None
        assert (image.config_digest, image.repository) == (built.facts.config_digest, None)
        # Nothing of the stage stays: it holds all wheels.
        assert {image["Id"] for image in engine.api.images(filters={"dangling": True})} <= dangling
        write_recipe(root, extra=" && true")
        assert built_image(engine, load_recipe("small", root=root)) is None
    finally:
        engine.api.remove_image(built.image_id, force=True)


def test_a_step_that_fails_shows_what_it_said(root, world, engine):
    write_recipe(root, extra=" && echo the last words && exit 3")
    with pytest.raises(RunFailed, match=r"could not be built: .*returned a non-zero code: 3") as caught:
        build(root, world, engine)
    assert "the last words" in caught.value.hint
    engine.api.prune_images(filters={"dangling": True, "label": ["suite.stage=small"]})


def test_what_cannot_be_built_is_said_before(root, world, engine):
    with pytest.raises(InvalidInput, match="no wheel there"):
        build(root, world, engine, wheels=root / "requirements")
    with pytest.raises(InvalidInput, match="a tag is refused"):
        build(root, world, engine, base="debian:12")
