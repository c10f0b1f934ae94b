"""The real engine that `.ci/containers` starts, a registry on loopback, and a small Debian image that has Python."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.image.engine import Engine, connected
from suite.image.present import PresentImage
from suite.image.pull import ensure_pulled
from suite.manifest.schema import Image
from suite.observer import SilentObserver


@dataclass(frozen=True)
class World:
    """Where things are."""

    registry: str
    """`127.0.0.1:PORT`"""
    base: str
    """`127.0.0.1:PORT/NAME@sha256:…` of the Debian image."""

    @property
    def base_image(self) -> Image:
        repository, _, digest = self.base.partition("@")
        return Image(repository=repository, digest=digest)


@pytest.fixture(scope="session")
def world() -> World:
    """A test that asks for it fails where there is no engine; `-m "not container"` leaves such tests out."""
    missing = [name for name in ("DOCKER_HOST", "SUITE_TEST_REGISTRY", "SUITE_TEST_BASE") if name not in os.environ]
    assert not missing, (
        f"{', '.join(missing)} not set: run `.ci/containers start FOLDER`, and source FOLDER/environment"
    )
    return World(registry=os.environ["SUITE_TEST_REGISTRY"], base=os.environ["SUITE_TEST_BASE"])


@pytest.fixture
def engine(world: World):
    with connected() as connection:
        yield connection


@pytest.fixture
def base(world: World, engine: Engine, tmp_path: Path) -> PresentImage:
    """The Debian image, present."""
    return ensure_pulled(world.base_image, engine=engine, home=tmp_path / "pulled", observer=SilentObserver())


def containers_of(engine: Engine, home: Path) -> list[str]:
    """Containers that a state folder has in the engine, running or not."""
    from suite.runtime.leases import LABEL_HOME, _name

    return [c["Id"] for c in engine.api.containers(all=True, filters={"label": f"{LABEL_HOME}={_name(home)}"})]
