from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from suite.sbom.components import components_of, count_by_kind, merge, references
from suite.sbom.interface import KINDS, Component
from tests.sbom.roots import add_distribution, elf, make_root, put, read

few = st.sampled_from(["a", "b", "a#2"])
some = st.builds(
    Component,
    kind=st.sampled_from(KINDS),
    name=few,
    version=st.none() | few,
    purl=st.none() | few,
    content_sha256=st.none() | few,
    places=st.lists(few, max_size=2).map(lambda items: tuple(sorted(set(items)))),
)


def test_kinds_and_counts_of_a_small_root(tmp_path):
    components = components_of(read(make_root(tmp_path)))
    assert count_by_kind(components) == {
        "operating_system": 1,
        "dpkg": 2,
        "python": 1,
        "cuda_library": 1,
        "executable": 1,
    }
    assert [component.purl for component in components[:4]] == [
        None,
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
        "pkg:deb/debian/python3-yaml@6.0-3?arch=amd64&distro=debian-12",
        "pkg:pypi/torch@2.13.0",
    ]
    cuda = components[4]
    assert (cuda.name, cuda.version) == ("libcudart.so.13.0.48", "13.0.48")
    assert cuda.purl == f"pkg:generic/libcudart.so.13.0.48?checksum=sha256:{cuda.content_sha256}"


def test_debians_python_package_is_reported_once_with_both_places(tmp_path):
    components = components_of(read(make_root(tmp_path)))
    (yaml,) = [item for item in components if "yaml" in item.name.lower()]
    assert yaml.places == ("usr/lib/python3/dist-packages/PyYAML-6.0.dist-info", "var/lib/dpkg/status")
    assert ("python_distribution", "PyYAML 6.0") in yaml.properties


def test_the_same_distribution_in_two_environments_is_one_unless_its_content_differs(tmp_path):
    sites = [f"opt/{name}/lib/python3.12/site-packages" for name in ("one", "two", "three")]
    for site in sites:
        add_distribution(tmp_path, "My_Tool", "1", {"t.py": b"3" if "three" in site else b"1"}, site=site)
    found = components_of(read(tmp_path))
    assert sorted((item.name, len(item.places)) for item in found) == [("my-tool", 1), ("my-tool", 2)]
    assert len(set(references(found))) == 2


def test_the_same_file_at_two_places_is_one(tmp_path):
    put(tmp_path, "usr/lib/libx.so", elf())
    put(tmp_path, "opt/x/libx.so", elf())
    put(tmp_path, "opt/y/libx.so", elf(content=b"other"))
    assert [item.places for item in components_of(read(tmp_path))] in (
        [("opt/x/libx.so", "usr/lib/libx.so"), ("opt/y/libx.so",)],
        [("opt/y/libx.so",), ("opt/x/libx.so", "usr/lib/libx.so")],
    )


@given(st.lists(some, max_size=12), st.randoms())
def test_merging_is_independent_of_order_and_done_once(components, random):
    shuffled = list(components)
    random.shuffle(shuffled)
    merged = merge(components)
    assert merged == merge(shuffled) == merge(merged)
    assert {place for item in merged for place in item.places} == {
        place for item in components for place in item.places
    }
    names = references(merged)
    assert len(set(names)) == len(merged)
