import pytest

from suite.signing import new_key


@pytest.fixture
def key(tmp_path):
    return new_key(tmp_path / "keys" / "mine")


@pytest.fixture
def other(tmp_path):
    return new_key(tmp_path / "keys" / "other")


@pytest.fixture
def folder(tmp_path):
    """A folder with two files, one of them below another folder."""
    root = tmp_path / "bundle"
    (root / "below").mkdir(parents=True)
    (root / "bundle.json").write_text("{}")
    (root / "below" / "ledger.parquet").write_bytes(b"rows")
    return root
