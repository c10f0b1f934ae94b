from __future__ import annotations

import hashlib
from pathlib import Path

from suite.agent.inventory import collect_inventory, unowned
from suite.agent.inventory.tree import Findings, Tree
from tests.sbom.roots import SITE, add_distribution, add_package, elf, put


def paths(root):
    return [item["path"] for item in collect_inventory(root)["files"]]


def test_only_elf_files_that_nobody_owns(tmp_path):
    add_package(tmp_path, "a", "1", ["usr/lib/liba.so.1", "usr/bin/a"])
    add_distribution(tmp_path, "b", "1", {"b/b.so": elf()})
    for path in ("usr/lib/liba.so.1", "usr/bin/a", "usr/bin/stray", f"{SITE}/b/stray.cpython-312-x86_64-linux-gnu.so"):
        put(tmp_path, path, elf())
    put(tmp_path, "usr/lib/libscript.so", "INPUT(libm.so.6)")
    put(tmp_path, "usr/lib/object.so", elf(kind=1))
    put(tmp_path, "usr/lib/short.so", b"\x7fELF")
    put(tmp_path, "usr/share/lib.so", elf())
    put(tmp_path, "opt/rocm/lib/libbig.so", elf(big_endian=True))
    (tmp_path / "usr/lib/liblink.so").symlink_to("object.so")
    assert paths(tmp_path) == [
        "opt/rocm/lib/libbig.so",
        "usr/bin/stray",
        f"{SITE}/b/stray.cpython-312-x86_64-linux-gnu.so",
    ]


def test_size_and_hash_are_those_of_the_bytes(tmp_path):
    content = elf(content=b"x" * 3_000_000)
    put(tmp_path, "usr/lib/libx.so", content)
    (found,) = collect_inventory(tmp_path)["files"]
    assert (found["size_bytes"], found["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_beyond_the_budget_a_file_is_listed_without_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(unowned, "MAX_FILE_BYTES", 100)
    put(tmp_path, "usr/lib/libbig.so", elf(content=bytes(200)))
    put(tmp_path, "usr/lib/libsmall.so", elf())
    inventory = collect_inventory(tmp_path)
    assert [(item["path"], item["sha256"] is None) for item in inventory["files"]] == [
        ("usr/lib/libbig.so", True),
        ("usr/lib/libsmall.so", False),
    ]
    assert [item["code"] for item in inventory["findings"]] == ["not_hashed"]


def test_the_walk_is_bounded(tmp_path, monkeypatch):
    for number in range(20):
        put(tmp_path, f"usr/lib/lib{number:02}.so", elf())
    monkeypatch.setattr(unowned, "MAX_ENTRIES", 10)
    inventory = collect_inventory(tmp_path)
    assert len(inventory["files"]) == 10
    assert [item["code"] for item in inventory["findings"]] == ["walk_cut"]


def test_files_mounted_into_this_machine_are_known():
    mounted = unowned._mounted_files(Tree(Path("/"), Findings()))
    assert "proc" in mounted
    assert unowned._mounted_files(Tree(Path("/usr"), Findings())) == set()
