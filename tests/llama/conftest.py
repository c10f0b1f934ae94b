"""The two real base files, unpacked once."""

import lzma
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent.parent / "fixtures" / "llama_kld"


def _unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((FIXTURES / f"{name}.xz").read_bytes()))
    return path


@pytest.fixture(scope="session")
def base_kld(tmp_path_factory) -> Path:
    """SmolLM2-135M-Instruct Q4_1, written by llama-perplexity: 127 rows of 49,152 ids."""
    return _unpacked("base.kld", tmp_path_factory.mktemp("kld"))


@pytest.fixture(scope="session")
def q4_0_kld(tmp_path_factory) -> Path:
    """The same text and model, re-quantised to Q4_0."""
    return _unpacked("q4_0.kld", tmp_path_factory.mktemp("kld"))


@pytest.fixture(scope="session")
def printed_text() -> str:
    """What llama-perplexity printed when it ran Q4_0 against the base file."""
    return (FIXTURES / "printed_stats.txt").read_text(encoding="utf-8")
