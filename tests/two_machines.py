"""One repository and the state folders of two machines, for tests in which one makes what the other takes."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from suite.stack.home import suite_home
from tests.agent_stack import ROOT
from tests.run.world import write_session


@pytest.fixture
def repository(tmp_path: Path, smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The CPU reference, a candidate in float32 and a short session; the working directory.

    A hundred tokens in BF16: hidden states are replayed bit for bit in it alone, and it is slow on many processors.
    """
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    shutil.copytree(ROOT / "manifests" / "_base", folder / "manifests" / "_base")
    shutil.copy(ROOT / "manifests" / "cpu-bf16.yaml", folder / "manifests")
    (folder / "manifests" / "float32.yaml").write_text(
        "extends: cpu-bf16.yaml\nname: float32\nrole: candidate\nreference: cpu-bf16.yaml\n"
        "engine: {dtype: float32, kv_cache_dtype: auto}\ncapture: {codec: logits}\n"
    )
    for path in (folder / "manifests" / "_base").glob("cpu*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("stride: 4, rows_per_gemm: 256", "stride: 2, rows_per_gemm: 32"), encoding="utf-8")
    lab = folder / "workloads" / "netops-lab"
    lab.mkdir(parents=True)
    shutil.copy(ROOT / "workloads" / "netops-lab" / "chatml-tools.jinja", lab)
    write_session(lab / "session-7k.json", paragraphs=4)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def maker(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Path:
    """State folder of the machine that makes references: one for all tests, so that the reference is captured once."""
    base = tmp_path_factory.getbasetemp()
    # Each worker of xdist has a folder of its own below that of the whole run.
    return machine(base.parent / "maker" if "PYTEST_XDIST_WORKER" in os.environ else base / "maker")


@pytest.fixture
def user(tmp_path: Path, smollm2: Path) -> Path:
    """State folder of a machine that has captured nothing."""
    return machine(tmp_path / "user")


def machine(home: Path) -> Path:
    """A state folder that has what was fetched of models."""
    home.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home / "models").symlink_to(suite_home() / "models")
    return home
