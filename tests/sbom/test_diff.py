from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from suite.sbom.diff import diff_components
from suite.sbom.interface import DPKG, MOUNTED_FILE, PACKAGE_KINDS, PYTHON, SHARED_OBJECT, Component

short = st.sampled_from(["a", "b", "c"])
components = st.lists(
    st.builds(
        Component,
        kind=st.sampled_from([DPKG, PYTHON]),
        name=short,
        version=short,
        content_sha256=st.sampled_from(["1", "2"]),
    ),
    max_size=8,
)


def package(name, version, sha256=None, kind=PYTHON, **more):
    return Component(kind=kind, name=name, version=version, content_sha256=sha256, **more)


def test_added_removed_changed_and_rebuilt():
    before = [package("kept", "1"), package("gone", "1"), package("moved", "1"), package("rebuilt", "1", "a" * 64)]
    after = [package("kept", "1"), package("moved", "2"), package("rebuilt", "1", "b" * 64), package("new", "1")]
    result = diff_components(before, after)
    assert [item.name for item in result.added] == ["new"]
    assert [item.name for item in result.removed] == ["gone"]
    assert [(change.after.name, change.what) for change in result.changed] == [
        ("moved", "version"),
        ("rebuilt", "content"),
    ]
    assert result.count(PACKAGE_KINDS) == 4
    assert result.sentence() == "4 packages differ (1 added, 1 removed, 2 changed)"


def test_sentences_count_files_apart():
    result = diff_components(
        [package("libx.so", None, "a" * 64, SHARED_OBJECT)],
        [package("libx.so", None, "b" * 64, SHARED_OBJECT), package("libcuda.so.1", "1", "c" * 64, MOUNTED_FILE)],
    )
    assert result.sentence() == "1 file differs (1 changed); 1 mounted file differs (1 added)"
    assert diff_components([], []).sentence() == "no component differs"


def test_one_architecture_is_not_the_other():
    result = diff_components(
        [package("libz", "1", kind=DPKG, architecture="amd64")], [package("libz", "1", kind=DPKG, architecture="i386")]
    )
    assert (len(result.added), len(result.removed), len(result.changed)) == (1, 1, 0)


def test_a_hash_that_one_side_lacks_is_not_a_difference():
    assert diff_components([package("a", "1", "f" * 64)], [package("a", "1")]).is_empty


def test_of_several_versions_only_the_odd_one_out_is_reported():
    result = diff_components([package("a", "1"), package("a", "2")], [package("a", "2"), package("a", "3")])
    assert [(change.before.version, change.after.version) for change in result.changed] == [("1", "3")]
    assert not result.added
    assert not result.removed


@given(components)
def test_nothing_differs_from_itself(items):
    assert diff_components(items, list(reversed(items))).is_empty


@given(components, components)
def test_the_way_back_swaps_added_and_removed(before, after):
    there, back = diff_components(before, after), diff_components(after, before)
    assert (there.added, there.removed) == (back.removed, back.added)
    assert len(there.changed) == len(back.changed)
    assert len(before) + len(there.added) - len(there.removed) == len(after)
