from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from suite.errors import InvalidInput
from suite.sbom.cyclonedx import check_cyclonedx, render_cyclonedx
from suite.sbom.schema import Inventory
from tests.sbom.roots import SITE, add_distribution, make_root, put, read


def test_it_says_what_was_found(tmp_path):
    document = json.loads(render_cyclonedx(read(make_root(tmp_path))))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert "timestamp" not in document["metadata"]
    assert "dependencies" not in document
    facts = {fact["name"]: fact["value"] for fact in document["metadata"]["properties"]}
    assert (facts["suite:count:dpkg"], facts["suite:count:python"]) == ("2", "1")
    (torch,) = [item for item in document["components"] if item["name"] == "torch"]
    assert torch["licenses"] == [{"license": {"id": "MIT"}}]
    assert torch["purl"] == "pkg:pypi/torch@2.13.0"
    assert torch["evidence"]["occurrences"] == [{"location": f"{SITE}/torch-2.13.0.dist-info"}]
    (cudart,) = [item for item in document["components"] if item["name"].startswith("libcudart")]
    assert (cudart["type"], cudart["hashes"][0]["alg"]) == ("file", "SHA-256")


def test_every_process_writes_the_same_bytes(tmp_path):
    make_root(tmp_path)
    runs = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from suite.cli.main import main; main()",
                *("sbom", "collect", "--root", str(tmp_path)),
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {render_cyclonedx(read(tmp_path))}


def test_the_serial_number_follows_from_the_content(tmp_path):
    make_root(tmp_path)
    one = json.loads(render_cyclonedx(read(tmp_path)))
    two = json.loads(render_cyclonedx(read(tmp_path), timestamp=datetime(2026, 1, 2, tzinfo=UTC)))
    assert two["metadata"]["timestamp"].startswith("2026-01-02T00:00:00")
    assert one["serialNumber"] == two["serialNumber"]
    add_distribution(tmp_path, "more", "1")
    assert json.loads(render_cyclonedx(read(tmp_path)))["serialNumber"] != one["serialNumber"]


def test_an_empty_stack_is_valid(tmp_path):
    assert json.loads(render_cyclonedx(read(tmp_path))).get("components", []) == []


def test_hostile_names_still_make_a_valid_file(tmp_path):
    make_root(tmp_path)
    put(
        tmp_path,
        "var/lib/dpkg/status",
        b"Package: ../../x?a=b#c@d\nVersion: \x00\x1b\xff 1:2%/\nArchitecture: <b>\n\n"
        b"Package: //\nVersion: 1\n\nPackage: " + b"a" * 5000 + b"\nVersion: 1\n\nPackage: \xe2\x80\xae\nVersion: 2\n",
    )
    for number, licence in enumerate(
        ["MIT AND", "(" * 200, "LicenseRef-x", "GPL-2.0+ WITH nothing", "<script>", "NONE"]
    ):
        text = f"Name: p{number}\nVersion: \u202e1 {number}\nLicense-Expression: {licence}\n\n"
        add_distribution(tmp_path, f"p{number}", "1", metadata=text)
    inventory = read(tmp_path)
    document = json.loads(render_cyclonedx(inventory))
    assert len([item for item in document["components"] if item["name"].startswith("p")]) == 6 + 1  # PyYAML
    assert "\u202e" not in json.dumps(document, ensure_ascii=False)
    assert any(fact["name"] == "suite:finding" for fact in document["metadata"]["properties"])


def test_the_check_refuses_what_does_not_conform(tmp_path):
    document = json.loads(render_cyclonedx(read(make_root(tmp_path))))
    for change in ({"unknown": 1}, {"components": [{"type": "library"}]}, {"specVersion": "9"}):
        with pytest.raises(InvalidInput, match="not valid CycloneDX"):
            check_cyclonedx(json.dumps(document | change).encode(), where="x")
    with pytest.raises(InvalidInput, match="not JSON"):
        check_cyclonedx(b"{", where="x")


def test_a_forged_hash_is_refused(tmp_path):
    inventory = read(make_root(tmp_path)).model_dump()
    inventory["files"][0]["sha256"] = "not a hash"
    with pytest.raises(InvalidInput, match="not valid CycloneDX"):
        render_cyclonedx(Inventory.model_validate(inventory))
