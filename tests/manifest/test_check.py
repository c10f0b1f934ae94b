from pathlib import Path

import pytest

from suite.errors import InvalidInput
from suite.manifest.check import Checked, check
from tests.manifest.samples import CPU, changed, write


def only(results: list[Checked]) -> Checked:
    [result] = results
    return result


def test_missing_fact_and_absent_session_are_warnings(tmp_path: Path) -> None:
    changes = {"model.revision": None, "missing": {"model.revision": "not found"}}
    value = changed(CPU, changes | {"environment": {"VLLM_CPU_KVCACHE_SPACE": "1"}})
    result = only(check([write(tmp_path, "m.yaml", value)]))
    assert not result.errors
    assert result.warnings == (
        "missing: model.revision: not found",
        "workload.session: no such file yet: workloads/s.json",
    )


def test_known_bad_combination_is_an_error(tmp_path: Path) -> None:
    result = only(check([write(tmp_path, "m.yaml", changed(CPU, {"engine.kv_cache_dtype": "int8_per_token_head"}))]))
    assert "garbage" in result.errors[0]


def test_folder_with_fragments_references_and_a_broken_file(tmp_path: Path) -> None:
    write(tmp_path, "set/_base.yaml", changed(CPU, {"name": None, "role": None}))
    write(tmp_path, "set/a.yaml", "extends: _base.yaml\nname: a\nrole: reference\n")
    write(
        tmp_path,
        "set/b.yaml",
        "extends: _base.yaml\nname: b\nrole: candidate\nreference: a.yaml\nengine: {kv_cache_dtype: fp8}\n",
    )
    write(tmp_path, "set/c.yaml", "extends: c.yaml\n")
    results = {result.file.name: result for result in check([tmp_path / "set"])}
    assert results["_base.yaml"].fragment
    assert not results["_base.yaml"].errors
    assert results["a.yaml"].comparison is None
    comparison = results["b.yaml"].comparison
    assert comparison is not None
    assert [factor.name for factor in comparison.factors] == ["kv_cache_dtype"]
    assert "circle" in results["c.yaml"].errors[0]
    assert results["b.yaml"].to_json()["factors"] == ["kv_cache_dtype"]


def test_unknown_key_in_a_fragment(tmp_path: Path) -> None:
    [result] = check([write(tmp_path, "_base.yaml", "engine: {sed: 1}\n")])
    assert "did you mean 'seed'?" in result.errors[0]


def test_reference_with_other_positions_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "r.yaml", changed(CPU, {"name": "r", "capture.stride": 8}))
    path = write(tmp_path, "m.yaml", changed(CPU, {"role": "candidate", "reference": "r.yaml"}))
    assert "not comparable: different strides" in only(check([path])).errors[0]


def test_reference_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "r.yaml", "name: r\n")
    path = write(tmp_path, "m.yaml", changed(CPU, {"role": "candidate", "reference": "r.yaml"}))
    assert only(check([path])).errors[0].startswith("reference: ")


def test_one_name_twice(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", CPU)
    write(tmp_path, "b.yaml", CPU)
    first, second = check([tmp_path])
    assert not first.errors
    assert "also the name of" in second.errors[0]
    # The same file given twice is not two manifests.
    assert not any(result.errors for result in check([tmp_path / "a.yaml", tmp_path / "a.yaml"]))


def test_paths_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file or folder"):
        check([tmp_path / "none"])
    with pytest.raises(InvalidInput, match=r"holds no \.yaml file"):
        check([tmp_path])


def test_an_arbiter_is_named_beside_the_reference_and_has_its_weights(tmp_path: Path) -> None:
    float32 = {"name": "fp32", "engine.dtype": "float32", "engine.kv_cache_dtype": "auto"}
    write(tmp_path, "r.yaml", changed(CPU, {"name": "r"}))
    write(tmp_path, "fp32.yaml", changed(CPU, float32))
    candidate = {"name": "m", "role": "candidate", "reference": "r.yaml", "arbiter": "fp32.yaml"}
    path = write(tmp_path, "m.yaml", changed(CPU, candidate | {"engine.kv_cache_dtype": "fp8"}))
    good = only(check([path]))
    assert not good.errors
    assert good.manifest is not None
    assert good.manifest.compared_files == (tmp_path / "r.yaml", tmp_path / "fp32.yaml")
    write(tmp_path, "fp32.yaml", changed(CPU, float32 | {"engine.dtype": "bfloat16"}))
    assert "must be float32" in only(check([path])).errors[0]
    write(tmp_path, "fp32.yaml", changed(CPU, float32 | {"capture.stride": 8}))
    assert "different strides" in only(check([path])).errors[0]
    write(tmp_path, "fp32.yaml", changed(CPU, float32))
    quantised = candidate | {"engine.quantization": "fp8"}
    path = write(tmp_path, "m.yaml", changed(CPU, quantised))
    assert "favours the reference by construction" in only(check([path])).errors[0]


def test_a_reference_has_no_arbiter(tmp_path: Path) -> None:
    write(tmp_path, "fp32.yaml", changed(CPU, {"name": "fp32"}))
    path = write(tmp_path, "m.yaml", changed(CPU, {"arbiter": "fp32.yaml"}))
    assert "has no `arbiter`" in only(check([path])).errors[0]
