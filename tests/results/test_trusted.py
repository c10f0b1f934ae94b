import pytest

from suite.errors import InvalidInput
from suite.files import pretty_json
from suite.results.trusted import read_trusted

KEY = {"key_id": f"ed25519:{'a' * 64}", "name": "Lab A", "role": "reproducer", "since": "2026-01-01"}


def write(folder, value):
    (folder / "trusted-keys.json").write_bytes(pretty_json(value))


def test_no_file_trusts_nobody(tmp_path):
    assert read_trusted(tmp_path).key_ids == frozenset()


def test_listed_keys_are_trusted(tmp_path):
    write(tmp_path, {"schema_version": 1, "keys": [KEY]})
    assert read_trusted(tmp_path).key_ids == {KEY["key_id"]}


@pytest.mark.parametrize(
    "keys",
    [
        [KEY, KEY],
        [KEY | {"key_id": "ed25519:abc"}],
        [KEY | {"name": ""}],
        [KEY | {"name": "a\x07"}],
        [KEY | {"role": "owner"}],
        [KEY | {"since": "today"}],
        [KEY | {"level": 3}],
    ],
)
def test_a_list_with_a_fault_trusts_nobody_but_is_refused(tmp_path, keys):
    write(tmp_path, {"schema_version": 1, "keys": keys})
    with pytest.raises(InvalidInput, match="not a list of keys"):
        read_trusted(tmp_path)
