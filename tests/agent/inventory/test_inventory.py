from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import suite
from suite.agent.inventory import collect_inventory, inventory_bytes
from tests.sbom.roots import SITE, add_distribution, elf, make_root, put


def codes(inventory: dict) -> list[str]:
    return [finding["code"] for finding in inventory["findings"]]


def test_everything_of_a_small_root_is_listed(tmp_path):
    inventory = collect_inventory(make_root(tmp_path))
    assert inventory["operating_system"] == {
        "id": "debian",
        "version_id": "12",
        "pretty_name": "Debian GNU/Linux 12",
    }
    assert [(item["name"], item["version"], item["source"], item["source_version"]) for item in inventory["dpkg"]] == [
        ("libc6", "2.36-9", "glibc", "2.36-8"),
        ("python3-yaml", "6.0-3", "pyyaml", "6.0-3"),
    ]
    assert [(item["name"], item["version"], item["dpkg_owner"]) for item in inventory["python"]] == [
        ("PyYAML", "6.0", "python3-yaml"),
        ("torch", "2.13.0", None),
    ]
    assert [(item["path"], item["type"]) for item in inventory["files"]] == [
        ("usr/local/bin/server", "executable"),
        ("usr/local/cuda-13.0/lib64/libcudart.so.13.0.48", "shared_object"),
    ]
    assert inventory["findings"] == []


def test_no_path_of_this_machine_is_in_the_result(tmp_path):
    make_root(tmp_path)
    environment = tmp_path / "home/joe/venv/lib/python3.12/site-packages"
    add_distribution(tmp_path, "numpy", "2.0", site="home/joe/venv/lib/python3.12/site-packages")
    put(tmp_path, "home/joe/venv/lib/python3.12/site-packages/numpy/stray.so", elf())
    put(tmp_path, "home/joe/python/bin/python3.12", elf(2))
    (tmp_path / "home/joe/venv/bin").mkdir()
    (tmp_path / "home/joe/venv/bin/python3").symlink_to("../../python/bin/python3.12")
    (environment / "broken-1.dist-info").mkdir()
    inventory = collect_inventory(tmp_path, [environment])
    text = inventory_bytes(inventory).decode()
    assert "joe" not in text
    assert str(tmp_path) not in text
    assert [item["found_in"] for item in inventory["python"] if item["name"] == "numpy"] == [
        ["{prefix}/lib/python3.12/site-packages/numpy-2.0.dist-info"]
    ]
    assert {"{interpreter}/bin/python3.12", "{prefix}/lib/python3.12/site-packages/numpy/stray.so"} <= {
        item["path"] for item in inventory["files"]
    }


def test_given_folders_replace_those_found(tmp_path):
    make_root(tmp_path)
    add_distribution(tmp_path, "numpy", "2.0", site="opt/venv/lib/python3.12/site-packages")
    found = [item["name"] for item in collect_inventory(tmp_path)["python"]]
    given = collect_inventory(tmp_path, [tmp_path / "opt/venv/lib/python3.12/site-packages"])
    assert found == ["numpy", "PyYAML", "torch"]
    assert [item["name"] for item in given["python"]] == ["numpy"]
    # torch's RECORD was not read, so its library must not pass for unowned.
    assert not [item for item in given["files"] if "libtorch" in item["path"]]


def test_the_same_root_gives_the_same_bytes_in_another_process_and_place(tmp_path):
    one, two = make_root(tmp_path / "one"), make_root(tmp_path / "two")
    runs = []
    for root, seed in ((one, "1"), (two, "2")):
        runs.append(
            subprocess.run(
                [sys.executable, "-m", "suite.agent.inventory", "--root", str(root)],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            ).stdout
        )
    assert runs[0] == runs[1] == inventory_bytes(collect_inventory(one))


def test_it_needs_the_standard_library_only():
    source = str(Path(suite.__file__).parent.parent)
    # -I and -S leave out every installed package and every variable.
    program = (
        f"import sys; sys.path.insert(0, {source!r}); import suite.agent.inventory; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    foreign = set(result.stdout.split()) - sys.stdlib_module_names - {"suite", "__main__"}
    assert foreign == set()


def test_an_empty_and_an_absent_root_are_not_errors(tmp_path):
    for root in (tmp_path, tmp_path / "absent"):
        inventory = collect_inventory(root)
        assert (inventory["dpkg"], inventory["python"], inventory["files"]) == ([], [], [])


def test_an_absent_site_packages_folder_is_a_finding(tmp_path):
    assert codes(collect_inventory(tmp_path, [tmp_path / "nowhere"])) == ["no_folder"]


def test_this_machine_has_this_interpreters_distributions():
    site = Path(pytest.__file__).parent.parent
    inventory = collect_inventory(Path("/"), [site], include_unowned=False)
    names = {item["name"].lower() for item in inventory["python"]}
    assert {"pytest", "hypothesis"} <= names
    assert all(item["content_sha256"] for item in inventory["python"] if item["name"] == "pytest")
    installed = Path("/var/lib/dpkg/status")
    if installed.exists():
        expected = installed.read_text(errors="replace").count("\nStatus: install ok installed\n")
        assert len(inventory["dpkg"]) == expected


def test_hostile_links_neither_hang_nor_leave_the_root(tmp_path):
    make_root(tmp_path / "root")
    put(tmp_path, "secret/METADATA", "Name: secret\nVersion: 1\n\n")
    site = tmp_path / "root" / SITE
    (site / "loop-1.dist-info").symlink_to("loop-1.dist-info")
    (site / "away-1.dist-info").symlink_to(tmp_path / "secret")
    (tmp_path / "root/usr/local/lib/round").symlink_to("..")
    (tmp_path / "root/usr/local/lib/libpipe.so").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "root/usr/local/lib/libfifo.so")
    os.mkfifo(site / "pipe.egg-info")
    inventory = collect_inventory(tmp_path / "root")
    assert "secret" not in {item["name"] for item in inventory["python"]}
    assert {"torch", "loop", "away", "pipe"} <= {item["name"] for item in inventory["python"]}
    assert {"link_loop", "not_a_file", "no_metadata"} <= set(codes(inventory))
    assert len(inventory["files"]) == 2
