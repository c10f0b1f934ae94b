from __future__ import annotations

import hashlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.agent.inventory import dpkg
from suite.agent.inventory.tree import Findings, Tree
from tests.sbom.roots import add_package, put


def collect(root):
    findings = Findings()
    packages, owners = dpkg.collect(Tree(root, findings))
    return packages, owners, [item["code"] for item in findings.as_list()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_damage_in_the_status_file_never_loses_the_other_packages(tmp_path, damage):
    good = b"Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"
    put(tmp_path, "var/lib/dpkg/status", good % b"first-one" + damage + b"\n\n" + good % b"last-one")
    packages, _, _ = collect(tmp_path)
    assert {"first-one", "last-one"} <= {package["name"] for package in packages}


def test_removed_packages_are_left_out_and_half_installed_ones_named(tmp_path):
    add_package(tmp_path, "kept", "1", [])
    status = tmp_path / "var/lib/dpkg/status"
    status.write_text(
        status.read_text()
        + "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        + "Package: half\nStatus: install ok half-configured\nVersion: 2\n\n"
        + "Package: bare\nStatus: install ok installed\n\n"
        + "Version: 7\n\n"
    )
    packages, _, codes = collect(tmp_path)
    assert [(item["name"], item["version"], item["state"]) for item in packages] == [
        ("bare", None, "installed"),
        ("half", "2", "half-configured"),
        ("kept", "1", "installed"),
    ]
    assert set(codes) == {"half_installed", "no_version", "no_name", "no_file_list"}


def test_a_package_listed_twice_is_one(tmp_path):
    block = "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"
    put(tmp_path, "var/lib/dpkg/status", block + block)
    put(tmp_path, "var/lib/dpkg/status.d/a", block)
    packages, _, codes = collect(tmp_path)
    assert [item["found_in"] for item in packages] == [["var/lib/dpkg/status", "var/lib/dpkg/status.d/a"]]
    assert "package_twice" in codes


def test_two_architectures_are_two_packages_with_their_own_lists(tmp_path):
    for architecture in ("amd64", "i386"):
        path = tmp_path / "var/lib/dpkg/status"
        before = path.read_text() if path.exists() else ""
        block = f"Package: libz\nStatus: install ok installed\nArchitecture: {architecture}\nVersion: 1\n\n"
        put(tmp_path, "var/lib/dpkg/status", before + block)
        put(tmp_path, f"var/lib/dpkg/info/libz:{architecture}.list", f"/usr/lib/{architecture}/libz.so.1\n")
    packages, owners, codes = collect(tmp_path)
    assert [item["architecture"] for item in packages] == ["amd64", "i386"]
    assert set(owners) == {"usr/lib/amd64/libz.so.1", "usr/lib/i386/libz.so.1"}
    assert codes == []


def test_distroless_status_folder(tmp_path):
    put(tmp_path, "var/lib/dpkg/status.d/tzdata", "Package: tzdata\nVersion: 2025b\nArchitecture: all\n")
    put(tmp_path, "var/lib/dpkg/status.d/tzdata.md5sums", "00  usr/share/zoneinfo/UTC\n")
    packages, owners, codes = collect(tmp_path)
    assert [(item["name"], item["found_in"]) for item in packages] == [("tzdata", ["var/lib/dpkg/status.d/tzdata"])]
    assert packages[0]["md5sums_sha256"] == hashlib.sha256(b"00  usr/share/zoneinfo/UTC\n").hexdigest()
    assert owners == {"usr/share/zoneinfo/UTC": "tzdata"}
    assert codes == []


def test_files_are_owned_through_merged_folders_and_diversions(tmp_path):
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("/usr/lib")
    add_package(tmp_path, "libc6", "2", ["lib/libc.so.6", "usr/bin/tool"])
    put(tmp_path, "var/lib/dpkg/diversions", "/usr/bin/tool\n/usr/bin/tool.real\nother\n")
    _, owners, _ = collect(tmp_path)
    assert {"usr/lib/libc.so.6", "usr/bin/tool", "usr/bin/tool.real"} <= set(owners)


def test_text_that_is_not_utf8_is_kept_as_escapes(tmp_path):
    put(tmp_path, "var/lib/dpkg/status", b"Package: caf\xe9\nVersion: 1\xff\n\n")
    packages, _, codes = collect(tmp_path)
    assert [(item["name"], item["version"]) for item in packages] == [("caf\\xe9", "1\\xff")]
    assert "not_utf8" in codes


def test_an_unreadable_list_is_a_finding(tmp_path, monkeypatch):
    add_package(tmp_path, "a", "1", ["usr/bin/a"])
    add_package(tmp_path, "b", "1", ["usr/bin/b"])
    real = dpkg.Tree._open

    def refuse(self, path):
        if path.endswith("a.list"):
            self._trouble(PermissionError(13, "Permission denied"), path)
            return None
        return real(self, path)

    monkeypatch.setattr(dpkg.Tree, "_open", refuse)
    packages, owners, codes = collect(tmp_path)
    assert [item["name"] for item in packages] == ["a", "b"]
    assert owners == {"usr/bin/b": "b"}
    assert codes == ["unreadable"]


@pytest.mark.parametrize("limit", ["MAX_STATUS_BYTES"])
def test_a_huge_status_file_is_cut_and_said_so(tmp_path, monkeypatch, limit):
    add_package(tmp_path, "a", "1", [])
    put(tmp_path, "var/lib/dpkg/status", (tmp_path / "var/lib/dpkg/status").read_text() * 50)
    monkeypatch.setattr(dpkg, limit, 200)
    packages, _, codes = collect(tmp_path)
    assert packages[0]["name"] == "a"
    assert "file_cut" in codes


def test_no_os_release_is_none(tmp_path):
    assert dpkg.operating_system(Tree(tmp_path, Findings())) is None
