import shutil
from pathlib import Path

import pytest

from suite.signing import new_key
from tests.intake.forger import Forger

RESULTS = Path(__file__).parent.parent.parent / "results"


@pytest.fixture
def results(tmp_path):
    """A results folder with three real bundles: a reference's own kind, another kernel, other weights."""
    target = tmp_path / "results"
    for name in ("h200-smollm2-flash-attn-3", "h200-smollm2-chunk512", "h200-smollm2-w8a8-int8"):
        shutil.copytree(RESULTS / name, target / name)
    return target


@pytest.fixture
def bundle(tmp_path):
    """A real bundle of quantised weights, of which the results folder has none."""
    name = "h200-smollm2-w8a8-fp8"
    shutil.copytree(RESULTS / name, tmp_path / "sent" / name)
    return next((tmp_path / "sent" / name).iterdir())


@pytest.fixture
def forger(bundle):
    return Forger(bundle)


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """Two people's signing keys."""
    folder = tmp_path_factory.mktemp("keys")
    return new_key(folder / "mine"), new_key(folder / "theirs")
