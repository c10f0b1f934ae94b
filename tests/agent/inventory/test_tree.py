from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.agent.inventory.tree import MAX_FINDINGS, Findings, Tree, clean

parts = st.sampled_from(["a", "b", "up", "top", "loop", "..", ".", "", "file"])


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/up").symlink_to("../..")
    (tmp_path / "root/a/b/top").symlink_to("/a")
    (tmp_path / "root/loop").symlink_to("a/../loop")
    (tmp_path / "root/file").write_bytes(b"inside")
    (tmp_path / "file").write_bytes(b"outside")
    return Tree(tmp_path / "root", Findings())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(parts, max_size=12))
def test_no_path_leaves_the_root(tree, path):
    for found in (tree.resolve("/".join(path)), tree.canonical("/".join(path))):
        assert found is None or not {"..", ".", ""} & set(found.split("/")) or found == ""
    data = tree.read("/".join(path), max_bytes=100)
    assert data in (None, b"inside")


@given(st.text())
def test_cleaned_text_is_short_printable_and_stays_so(text):
    once = clean(text)
    assert len(once) <= 512
    once.encode()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in once)
    assert clean(once) == once.strip(" ")


def test_links_are_followed_inside(tree):
    assert tree.resolve("a/b/top/up/file") == "file"
    assert tree.canonical("a/b/top/b") == "a/b"
    assert tree.resolve("loop") is None
    assert tree.resolve("a/" * 3000) is None
    assert [item["code"] for item in tree.findings.as_list()] == ["link_loop", "path_too_long"]


def test_aliases_hide_folders(tree):
    tree.alias("a", "{prefix}")
    tree.alias("a/b", "{inner}")
    assert [tree.show(path) for path in ("a", "a/x", "a/b/x", "ab/x")] == [
        "{prefix}",
        "{prefix}/x",
        "{inner}/x",
        "ab/x",
    ]


def test_findings_are_bounded_and_counted():
    findings = Findings()
    for number in range(MAX_FINDINGS + 7):
        findings.add("code", f"path {number:04}", "detail")
    assert len(findings.as_list()) == MAX_FINDINGS + 1
    assert findings.as_list()[-1]["detail"] == "7 further findings not kept"
