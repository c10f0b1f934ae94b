from __future__ import annotations

import json

import pytest

from suite.agent.inventory import collect_inventory, inventory_bytes
from tests.sbom.roots import SITE, add_distribution, elf, put


def one(root, name):
    inventory = collect_inventory(root)
    (found,) = [item for item in inventory["python"] if item["name"] == name]
    return found, [item["code"] for item in inventory["findings"]]


def test_a_distribution_without_version_takes_it_from_its_folder(tmp_path):
    add_distribution(tmp_path, "lost", "1.2", metadata="Name: lost\n\nVersion: 9 is only in the description\n")
    found, codes = one(tmp_path, "lost")
    assert found["version"] == "1.2"
    assert codes == ["no_version"]


def test_a_folder_without_metadata_is_listed(tmp_path):
    (tmp_path / SITE / "ghost-3.dist-info").mkdir(parents=True)
    found, codes = one(tmp_path, "ghost")
    assert found["version"] == "3"
    assert codes == ["no_metadata", "no_name", "no_version"]


@pytest.mark.parametrize(
    ("header", "licence", "kind"),
    [
        ("License-Expression: MIT OR Apache-2.0", "MIT OR Apache-2.0", "expression"),
        ("License: BSD", "BSD", "text"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License", "MIT License", "classifier"),
        ("License: long\n text\nClassifier: Topic :: X", None, None),
        ("Classifier: License :: OSI Approved", None, None),
    ],
)
def test_licences(tmp_path, header, licence, kind):
    add_distribution(tmp_path, "a", "1", metadata=f"Name: a\nVersion: 1\n{header}\n\n")
    found, _ = one(tmp_path, "a")
    assert (found["licence"], found["licence_kind"]) == (licence, kind)


def test_the_content_hash_ignores_how_it_was_installed(tmp_path):
    scripts = {"one": "../../../bin/a,sha256=one,10", "two": "../../../bin/a,sha256=two,11"}
    for name, row in scripts.items():
        folder = add_distribution(tmp_path / name, "a", "1", {"a/x.py": b"x"}, rows=[row, "a/__pycache__/x.pyc,,"])
        if name == "two":
            (folder / "INSTALLER").write_text("uv\n")
            record = folder / "RECORD"
            record.write_text(
                "".join(reversed(record.read_text().replace("sha256=pip,4", "sha256=uv,3").splitlines(True)))
            )
    first, second = (one(tmp_path / name, "a")[0] for name in scripts)
    assert first["record_sha256"] != second["record_sha256"]
    assert first["content_sha256"] == second["content_sha256"]
    assert (first["installer"], second["installer"]) == ("pip", "uv")
    add_distribution(tmp_path / "three", "a", "1", {"a/x.py": b"changed"})
    assert one(tmp_path / "three", "a")[0]["content_sha256"] != first["content_sha256"]


def test_duplicate_and_damaged_record_rows_are_findings(tmp_path):
    rows = ["a/x.py,sha256=other,1", "a/x.py,sha256=other,1", "only-a-path", '"quoted, path.so",sha256=q,1', '"open']
    add_distribution(tmp_path, "a", "1", {"a/x.py": b"x"}, rows=rows)
    put(tmp_path, f"{SITE}/quoted, path.so", elf())
    inventory = collect_inventory(tmp_path)
    assert [item["code"] for item in inventory["findings"]] == ["record_row_damaged", "record_row_twice"]
    assert inventory["files"] == []


@pytest.mark.parametrize(
    ("text", "expected", "editable"),
    [
        (
            {"url": "https://user:secret@host.example/a.whl?token=1", "archive_info": {"hash": "sha256=ab"}},
            {"url": "https://host.example/a.whl", "sha256": "ab"},
            False,
        ),
        ({"url": "file:///home/joe/src/a", "dir_info": {"editable": True}}, {"url": "file:a"}, True),
        (
            {"url": "ssh://git@host.example/a", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            {"url": "ssh://host.example/a", "commit": "c0ffee"},
            False,
        ),
    ],
)
def test_direct_urls_lose_what_is_private(tmp_path, text, expected, editable):
    folder = add_distribution(tmp_path, "a", "1")
    put(folder, "direct_url.json", json.dumps(text))
    put(folder, "REQUESTED")
    found, codes = one(tmp_path, "a")
    assert (found["direct_url"], found["editable"], found["requested"]) == (expected, editable, True)
    assert codes == []


@pytest.mark.parametrize("text", ["", "[]", '{"url": 3}', "{" * 5000, '{"url": "https://[", "a": 1}', '"\\ud800"'])
def test_a_bad_direct_url_is_a_finding(tmp_path, text):
    put(add_distribution(tmp_path, "a", "1"), "direct_url.json", text)
    found, codes = one(tmp_path, "a")
    assert found["direct_url"] is None
    assert codes == ["bad_direct_url"]


def test_egg_infos_of_both_shapes(tmp_path):
    put(tmp_path, f"{SITE}/single-1.0-py3.12.egg-info", "Name: single\nVersion: 1.0\n")
    put(tmp_path, f"{SITE}/folder.egg-info/PKG-INFO", "Name: folder\nVersion: 2\n")
    put(tmp_path, f"{SITE}/folder.egg-info/installed-files.txt", "../folder/x.so\n")
    put(tmp_path, f"{SITE}/folder/x.so", elf())
    inventory = collect_inventory(tmp_path)
    assert [(item["name"], item["version"]) for item in inventory["python"]] == [("folder", "2"), ("single", "1.0")]
    assert inventory["files"] == []


def test_control_characters_and_broken_unicode_become_escapes(tmp_path):
    add_distribution(tmp_path, "a", "1", metadata="x")
    put(tmp_path, f"{SITE}/a-1.dist-info/METADATA", b"Name: a\x1b[31m\xff\nVersion: 1\x00\n\n")
    data = inventory_bytes(collect_inventory(tmp_path))
    (found,) = json.loads(data)["python"]
    assert (found["name"], found["version"]) == ("a\\x1b[31m\\xff", "1\\x00")
