from __future__ import annotations

import json
from dataclasses import replace

import pytest

from suite.agent.inventory import collect_inventory, inventory_bytes
from suite.errors import InvalidInput
from suite.sbom import read as reader
from suite.sbom.components import components_of
from suite.sbom.cyclonedx import render_cyclonedx
from suite.sbom.read import parse_components, read_components
from suite.sbom.spdx import render_spdx
from tests.sbom.roots import add_distribution, make_root, read


@pytest.fixture
def root(tmp_path):
    root = make_root(tmp_path / "root")
    add_distribution(root, "odd", "1", metadata="Name: odd\nVersion: 1\nLicense: Some licence\n\n")
    add_distribution(root, "dual", "1", metadata="Name: dual\nVersion: 1\nLicense-Expression: MIT OR BSD-3-Clause\n\n")
    return root


def test_all_three_formats_read_back_as_the_same_components(root):
    inventory = read(root)
    expected = components_of(inventory)
    assert parse_components(render_cyclonedx(inventory), where="x") == expected
    assert parse_components(render_spdx(inventory), where="x") == expected
    assert parse_components(inventory_bytes(collect_inventory(root)), where="x") == expected


def test_a_bundle_folder_stands_for_its_sbom(tmp_path, root):
    (tmp_path / "sbom.cdx.json").write_bytes(render_cyclonedx(read(root)))
    assert read_components(tmp_path) == components_of(read(root))


def test_foreign_files_are_read_as_far_as_they_say():
    foreign = {
        "bomFormat": "CycloneDX",
        "components": [
            {"type": "library", "name": "libc6", "version": "2", "purl": "pkg:deb/debian/libc6@2", "properties": 3},
            {
                "type": "library",
                "name": "torch",
                "version": "2",
                "purl": "pkg:pypi/torch@2",
                "licenses": [{"license": 1}],
            },
            {"type": "operating-system", "name": "debian", "evidence": []},
            {"type": "library", "name": "thing", "hashes": [{"alg": "SHA-256", "content": ["x"]}]},
        ],
    }
    found = parse_components(json.dumps(foreign).encode(), where="x")
    assert [(item.kind, item.name) for item in found] == [
        ("operating_system", "debian"),
        ("dpkg", "libc6"),
        ("python", "torch"),
        ("other", "thing"),
    ]
    assert {replace(item, kind="", name="", version=None, purl=None).content_sha256 for item in found} == {None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "neither"),
        ({"bomFormat": "CycloneDX", "components": {}}, "not a list"),
        ({"bomFormat": "CycloneDX", "components": [{"name": 1}]}, r"components\[0\]"),
        ({"spdxVersion": "SPDX-2.3", "packages": ["x"]}, r"packages\[0\]"),
        ({"spdxVersion": "SPDX-3.0"}, "neither"),
    ],
)
def test_what_is_no_sbom_is_refused(value, message):
    with pytest.raises(InvalidInput, match=message):
        parse_components(json.dumps(value).encode(), where="x")


def test_absent_and_oversized_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_components(tmp_path / "absent.json")
    with pytest.raises(InvalidInput, match=r"sbom\.cdx\.json"):
        read_components(tmp_path)
    monkeypatch.setattr(reader, "MAX_BYTES", 4)
    (tmp_path / "big.json").write_bytes(b"[1,2]")
    with pytest.raises(InvalidInput, match="larger than 4 bytes"):
        read_components(tmp_path / "big.json")
