from __future__ import annotations

import json

import pytest

from suite.agent.inventory import collect_inventory
from suite.errors import InvalidInput
from suite.sbom.schema import load_inventory
from tests.sbom.roots import make_root, read


def test_what_is_collected_is_what_is_loaded(tmp_path):
    inventory = read(make_root(tmp_path))
    assert json.loads(inventory.model_dump_json(exclude_unset=True)) == collect_inventory(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "update suite"),
        ({"schema_version": "1"}, "schema_version"),
        ({"more": 1}, "more"),
        ({"dpkg": [{"name": "a"}]}, r"dpkg\.0\."),
        (
            {"files": [{"path": "a", "size_bytes": -1, "sha256": None, "type": "executable", "mounted": False}]},
            "size_bytes",
        ),
    ],
)
def test_anything_else_is_refused(tmp_path, change, message):
    data = json.dumps(collect_inventory(make_root(tmp_path)) | change).encode()
    with pytest.raises(InvalidInput, match=message):
        load_inventory(data, where="inventory.json")


@pytest.mark.parametrize("data", [b"[]", b"{}", b"\xff", b"{", b'{"schema_version": 1, "schema_version": 1}'])
def test_what_is_no_inventory_is_refused(data):
    with pytest.raises(InvalidInput, match=r"inventory\.json"):
        load_inventory(data, where="inventory.json")
