from pathlib import Path

import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import sha256_file
from suite.model.ensure import ensure_model, find_model
from suite.model.source import LocalModel, PackagedModel, Wheel
from suite.observer import SilentObserver
from tests.model.wheels import GGUF, write_wheel


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Stands for the stack's interpreter: it writes a checkpoint that names its source, and counts its calls."""
    script = tmp_path / "bin" / "python"
    script.parent.mkdir()
    script.write_text(
        '#!/bin/sh\nfor last; do source=$folder; folder=$last; done\necho call >> "$0.calls"\n'
        'echo "{}" > "$folder/config.json"\nbasename "$source" > "$folder/model.safetensors"\n'
    )
    script.chmod(0o755)
    return script


def calls(python: Path) -> int:
    log = python.with_name("python.calls")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_packaged_model_is_derived_once_and_survives_the_loss_of_its_gguf_file(tmp_path, monkeypatch, python):
    wheel = write_wheel(tmp_path / "index" / "tiny-1.0-py3-none-any.whl", {"tiny/t.gguf": GGUF})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    home = tmp_path / "home"
    wheels = (Wheel(package="tiny", version="1.0", sha256=sha256_file(wheel)),)
    quantised = PackagedModel(wheels=wheels, derive="w8a8-int8")
    assert find_model(quantised, home=home) is None
    folder = ensure_model(quantised, home=home, python=python, observer=SilentObserver())
    assert calls(python) == 2
    assert folder.name.startswith("tiny-1.0-w8a8-int8-")
    for path in (home / "models" / "gguf").rglob("*.gguf"):
        path.unlink()
    wheel.unlink()
    assert ensure_model(quantised, home=home, python=python, observer=SilentObserver()) == folder
    assert find_model(quantised, home=home) == folder
    bf16 = find_model(PackagedModel(wheels=wheels), home=home)
    assert bf16 is not None
    assert (bf16 / "model.safetensors").read_text() == "t.gguf\n"
    assert calls(python) == 2


def test_a_changed_source_is_derived_anew(tmp_path, python):
    model = tmp_path / "m"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"one")
    source = LocalModel(path=model, derive="w4a16-g64")
    arguments = {"home": tmp_path / "home", "python": python, "observer": SilentObserver()}
    first = ensure_model(source, **arguments)
    (model / "model.safetensors").write_bytes(b"two")
    assert find_model(source, home=tmp_path / "home") is None
    assert ensure_model(source, **arguments) != first


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_a_local_model_that_is_not_there_is_a_missing_prerequisite(tmp_path, python, make):
    make(tmp_path / "m")
    with pytest.raises(MissingPrerequisite):
        ensure_model(LocalModel(path=tmp_path / "m"), home=tmp_path, python=python, observer=SilentObserver())


def test_a_local_model_stays_where_it_is(tmp_path, python):
    model = tmp_path / "m"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"x")
    source = LocalModel(path=model)
    assert ensure_model(source, home=tmp_path / "home", python=python, observer=SilentObserver()) == model
    assert not (tmp_path / "home").exists()
    assert calls(python) == 0


def test_an_unknown_scheme_never_reaches_the_interpreter(tmp_path, python):
    with pytest.raises(InvalidInput):
        LocalModel(path=tmp_path, derive="w1a1")
    assert calls(python) == 0
