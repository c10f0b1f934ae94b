import json
from pathlib import Path
from typing import Any

import pytest

from suite.agent.processor import this_processor
from suite.errors import InvalidInput
from suite.manifest.resolve import resolve
from suite.observer import SilentObserver
from suite.workload.rendered import Rendered
from tests.manifest.samples import CPU, CUDA, changed, manifest, rendered

SESSION = {
    "schema_version": 1,
    "name": "tiny",
    "licence": "CC0-1.0",
    "provenance": {"kind": "synthetic", "generator": "test"},
    "messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads/s.json").write_text(json.dumps(SESSION))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def run(folder: Path, base: dict[str, Any] = CPU, /, **changes: Any) -> Any:
    asked: dict[str, Any] = {}

    def ensure(source: Any, **_: Any) -> Path:
        asked["source"] = source
        return folder / "model"

    def render(session: Any, tokenizer_dir: Path, *, chat_template: str | None) -> Rendered:
        asked.update(session=session.name, folder=tokenizer_dir, template=chat_template)
        return rendered()

    loaded = manifest(folder, base, **changes)
    made = resolve(loaded, home=folder, python=Path("python"), observer=SilentObserver(), ensure=ensure, render=render)
    return made, asked


def test_resolves_through_the_owners_of_models_and_workloads(folder: Path) -> None:
    made, asked = run(folder)
    assert asked["source"].repository == "owner/name"
    assert asked["folder"] == folder / "model"
    assert asked["template"] is None
    assert made.lock.workload.name == "tiny"
    assert [file.path for file in made.lock.model.files] == ["config.json", "model.safetensors"]
    assert made.model_folder == folder / "model"


def test_chat_template_of_the_workload_is_handed_on(folder: Path) -> None:
    (folder / "workloads/t.jinja").write_text("{{ x }}")
    _, asked = run(folder, workload__chat_template="workloads/t.jinja")
    assert asked["template"] == "{{ x }}"
    with pytest.raises(InvalidInput, match="cannot be read"):
        run(folder, workload__chat_template="workloads/none.jinja")


def test_a_cpu_lock_names_this_machines_kind_of_processor(folder: Path) -> None:
    made, _ = run(folder)
    assert made.lock.hardware.isa == this_processor().isa
    made, _ = run(folder, CUDA)
    assert made.lock.hardware.isa is None


def test_packaged_model(folder: Path) -> None:
    pypi = {"package": "llm-x", "version": "1.0", "wheel_sha256": "0" * 64}
    _, asked = run(folder, model={"pypi": pypi, "derive": "w8a8-int8"})
    assert asked["source"].derive == "w8a8-int8"
    assert asked["source"].wheels[0].sha256 == "0" * 64


def test_absent_session(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no such session: workloads/none\.json"):
        run(folder, workload__session="workloads/none.json")


def test_missing_fact_is_refused_before_anything_is_fetched(folder: Path) -> None:
    base = changed(CUDA, {"runtime.image.digest": None})
    with pytest.raises(InvalidInput, match=r"missing: runtime\.image\.digest"):
        run(folder, base, missing={"runtime.image.digest": "no source"})
