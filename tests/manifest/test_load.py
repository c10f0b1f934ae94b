from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.manifest.load import Loader, dump_for_others, dump_manifest, find_root, is_fragment, load_manifest
from suite.manifest.problems import InvalidManifest
from tests.manifest.samples import CPU, CUDA, DIGEST, changed, manifest, write


def refusal(folder: Path, value: dict[str, Any] | str, name: str = "m.yaml") -> InvalidManifest:
    path = write(folder, name, value)
    with pytest.raises(InvalidManifest) as caught:
        load_manifest(path)
    return caught.value


def test_whole_manifest(tmp_path: Path) -> None:
    loaded = manifest(tmp_path)
    assert loaded.engine.max_num_batched_tokens == 2048
    assert loaded.repeats == 3
    assert loaded.file == tmp_path / "sample.yaml"
    assert loaded.root == tmp_path
    assert loaded.workload_file == tmp_path / "workloads/s.json"
    assert loaded.reference_file is None


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"engine.enforce_eager": "no"}, "engine.enforce_eager", "must be true or false, not 'no'; write false"),
        ({"engine.enable_prefix_caching": "on"}, "engine.enable_prefix_caching", "write true"),
        ({"engine.max_num_seqs": "1_000"}, "engine.max_num_seqs", "whole number in decimal digits, not '1_000'"),
        ({"engine.max_num_seqs": "1.5"}, "engine.max_num_seqs", "whole number"),
        ({"engine.max_num_seqs": True}, "engine.max_num_seqs", "whole number"),
        ({"engine.enforce_eager": 1}, "engine.enforce_eager", "true or false"),
        ({"environment": {"VLLM_CPU_KVCACHE_SPACE": 1}}, "environment.VLLM_CPU_KVCACHE_SPACE", 'quote it: "1"'),
        ({"hardware.architecture": 12}, "hardware.architecture", 'quote it: "12"'),
        ({"engine.kv_cache_dtype": "fp8-e4m3"}, "engine.kv_cache_dtype", "did you mean fp8_e4m3?"),
        ({"engine.kv_cache_dtype": None}, "engine.kv_cache_dtype", "is required"),
        ({"model.revision": "main"}, "model.revision", "a branch or tag moves"),
        ({"model.revision": "1" * 39}, "model.revision", "40 lower-case hex"),
        ({"model.revision": "A" * 40}, "model.revision", "40 lower-case hex"),
        ({"model.tokenizer_sha256": DIGEST}, "model.tokenizer_sha256", "64 lower-case hex"),
        ({"capture.ranges": "everything"}, "capture.ranges", "must be one of"),
        ({"capture.ranges": {"kinds": ["tool_cal"]}}, "capture.ranges.kinds[0]", "did you mean tool_call?"),
        ({"capture.ranges": [[1, 2], [5]]}, "capture.ranges[1][1]", "is required"),
        ({"capture.ranges": [[5, 2]]}, "capture", "lies before the end"),
        ({"capture.ranges": [[1, 9], [5, 12]]}, "capture", "overlaps"),
        ({"capture.stride": None}, "capture", "captures nothing"),
        ({"capture.path": "decode"}, "capture", "belongs to path: prefill"),
        ({"capture.chunk_rows": 100}, "capture", "multiple of rows_per_gemm"),
        ({"capture.neighbours": 1}, "", "max_num_seqs of at least 2, not 1"),
        ({"role": "candidate"}, "", "needs `reference`"),
        ({"workload.session": "../x.json"}, "workload.session", "must not contain"),
        ({"workload.session": "/etc/passwd"}, "workload.session", "must be a path of"),
        ({"model.path": "here"}, "model", "exactly one of"),
        ({"runtime.packages": None}, "runtime", "needs `packages`"),
        ({"hardware.threads": None}, "hardware", "needs `threads`"),
        ({"hardware.isa": "avx9"}, "hardware.isa", "must be one of avx2, avx512, avx512_bf16, amx, not 'avx9'"),
        ({"hardware.isa": "avx2", "hardware.architecture": "aarch64"}, "hardware", "names kinds of x86_64"),
        ({"environment": {"LD_PRELOAD": "x.so"}}, "environment", "not an allowed variable"),
        ({"engine.cudagraph_mode": "FULL"}, "engine", "contradict"),
        ({"engine.extra": {"seed": 3}}, "engine", "has a key of its own"),
        ({"engine.extra": {"x": [1]}}, "engine.extra.x", "must be text"),
        ({"repeats": 0}, "repeats", "greater than or equal to 1"),
        ({"name": "No Capitals"}, "name", "lower-case letters"),
    ],
)
def test_faults_name_key_and_line(tmp_path: Path, changes: dict[str, Any], key: str, message: str) -> None:
    error = refusal(tmp_path, changed(CPU, changes))
    [problem] = error.problems
    assert problem.key == key
    assert message in problem.message
    text = (tmp_path / "m.yaml").read_text().splitlines()
    last = key.split(".")[-1].split("[")[0]
    if last and "required" not in message:
        assert last in text[problem.place.line - 1]
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runtime.image.digest": "v0.31.0"}, "64 lower-case hex characters (a tag is not a digest)"),
        ({"runtime.image.digest": None}, "runtime.image.digest is absent"),
        ({"runtime.image.repository": "vllm/vllm-openai:v0.31.0"}, "a tag is refused"),
        ({"runtime.image.repository": f"vllm/vllm-openai@{DIGEST}"}, "a tag is refused"),
        ({"runtime.image.repository": "localhost:5000/vllm:latest"}, "a tag is refused"),
        (
            {"runtime.image.digest_kind": "platform", "runtime.image.platform_digest": "sha256:" + "b" * 64},
            "another digest",
        ),
        ({"hardware.gpu": "RTX 9090"}, "no facts about the GPU"),
        ({"hardware.architecture": "9.0"}, "has compute capability 12.0"),
        ({"hardware.architecture": "sm120"}, "compute capability as `architecture`"),
        ({"hardware.count": 2}, "hardware.count is 2"),
        ({"engine.tensor_parallel_size": 2}, "hardware.count is 1"),
        ({"engine.flash_attn_version": 2}, "no meaning with attention_backend"),
        ({"engine.kv_cache_memory_mib": 5, "engine.gpu_memory_percent": 90}, "exclude each other"),
        ({"engine.speculative": {"method": "eagle3"}}, "engine.speculative.num_speculative_tokens: is required"),
    ],
)
def test_faults_of_gpu_stacks(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in str(refusal(tmp_path, changed(CUDA, changes)))


def test_registry_with_port_is_a_repository(tmp_path: Path) -> None:
    loaded = manifest(tmp_path, CUDA, runtime__image__repository="localhost:5000/vllm/vllm-openai")
    assert loaded.runtime.image is not None
    assert loaded.runtime.image.pinned_name == f"localhost:5000/vllm/vllm-openai@{DIGEST}"


def test_digests_are_told_apart(tmp_path: Path) -> None:
    image = manifest(tmp_path, CUDA, runtime__image__digest_kind="index").runtime.image
    assert image is not None
    assert (image.index, image.platform) == (DIGEST, None)
    image = manifest(tmp_path, CUDA, runtime__image__digest_kind="platform").runtime.image
    assert image is not None
    assert (image.index, image.platform) == (None, DIGEST)
    image = manifest(tmp_path, CUDA).runtime.image
    assert image is not None
    assert (image.index, image.platform) == (None, None)


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("engine.kv_cache_dtyp", "did you mean 'kv_cache_dtype'?"),
        ("kv_cache_dtype", "it belongs under 'engine'"),
        ("engine.threads", "it belongs under 'hardware'"),
        ("engine.repeats", "it belongs at the top level"),
        ("capture.strid", "did you mean 'stride'?"),
        ("extend", "did you mean 'extends'?"),
        ("runtime.zzz", "known here: kind, python, image, packages"),
    ],
)
def test_unknown_key_names_line_and_nearest_key(tmp_path: Path, key: str, advice: str) -> None:
    error = refusal(tmp_path, changed(CPU, {key: 1}))
    [problem] = error.problems
    assert advice in problem.message
    assert problem.key == key
    line = (tmp_path / "m.yaml").read_text().splitlines()[problem.place.line - 1]
    assert key.split(".")[-1] in line


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    error = refusal(tmp_path, changed(CPU, {"engine.enforce_eager": "no", "engine.max_num_seqs": "x", "repeats": 0}))
    assert {problem.key for problem in error.problems} == {"engine.enforce_eager", "engine.max_num_seqs", "repeats"}
    assert str(error).startswith("3 faults")


def test_newer_schema_is_refused_before_its_keys(tmp_path: Path) -> None:
    [problem] = refusal(tmp_path, changed(CPU, {"schema_version": 2})).problems
    assert "newer than 1" in problem.message
    assert "update suite" in problem.message


def test_extends_merges_replaces_and_removes(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", changed(CPU, {"environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}}))
    write(
        tmp_path,
        "top/m.yaml",
        """
extends: ../base.yaml
name: top
engine: {kv_cache_dtype: fp8_e4m3, attention_backend: null}
environment: {NCCL_PROTO: null, NCCL_DEBUG: INFO}
model: {path: some/folder}
""",
    )
    loaded = load_manifest(tmp_path / "top/m.yaml")
    assert loaded.name == "top"
    assert loaded.engine.kv_cache_dtype == "fp8_e4m3"
    assert loaded.engine.attention_backend is None
    assert loaded.engine.max_num_batched_tokens == 2048
    assert loaded.environment == {"NCCL_ALGO": "Ring", "NCCL_DEBUG": "INFO"}
    # The revision of one repository never becomes another source's.
    assert loaded.model.repository is None
    assert loaded.model.base is None


def test_later_file_of_a_list_is_stronger(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", CPU)
    write(tmp_path, "b.yaml", "repeats: 7\nengine: {seed: 5}\n")
    write(tmp_path, "c.yaml", "repeats: 9\n")
    loaded = load_manifest(write(tmp_path, "m.yaml", "extends: [a.yaml, b.yaml, c.yaml]\n"))
    assert (loaded.repeats, loaded.engine.seed) == (9, 5)


def test_fault_in_a_base_names_the_base(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", changed(CPU, {"engine.enforce_eager": "no"}))
    [problem] = refusal(tmp_path, "extends: base.yaml\nname: x\n").problems
    assert problem.place.file.name == "base.yaml"


def test_one_file_through_two_ways_is_no_circle(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", CPU)
    write(tmp_path, "a.yaml", "extends: base.yaml\nrepeats: 4\n")
    write(tmp_path, "b.yaml", "extends: base.yaml\n")
    assert load_manifest(write(tmp_path, "m.yaml", "extends: [a.yaml, b.yaml]\n")).repeats == 4


@pytest.mark.parametrize("length", [1, 2, 5])
def test_circle(tmp_path: Path, length: int) -> None:
    for i in range(length):
        write(tmp_path, f"m{i}.yaml", f"extends: m{(i + 1) % length}.yaml\n")
    with pytest.raises(InvalidManifest, match=r"leads in a circle: m0\.yaml -> "):
        load_manifest(tmp_path / "m0.yaml")


def test_circle_through_a_link(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "extends: b.yaml\n")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "a.yaml")
    with pytest.raises(InvalidManifest, match="circle"):
        load_manifest(tmp_path / "a.yaml")


def test_wide_extends_is_bounded(tmp_path: Path) -> None:
    write(tmp_path, "l0.yaml", "repeats: 3\n")
    for i in range(1, 12):
        write(tmp_path, f"l{i}.yaml", f"extends: [l{i - 1}.yaml, l{i - 1}.yaml]\n")
    with pytest.raises(InvalidManifest, match="more than 32 files"):
        load_manifest(tmp_path / "l11.yaml")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("../outside.yaml", "leads out of"),
        ("a/../../outside.yaml", "leads out of"),
        ("link.yaml", "leads out of"),
        ("folder/outside.yaml", "leads out of"),
        ("/etc/hosts.yaml", "not a path relative"),
        ("~/m.yaml", "not a path relative"),
        ("a\\\\b.yaml", "not a path relative"),
        ("passwd", "not a .yaml file"),
        ("none.yaml", "no such file"),
    ],
)
def test_extends_stays_inside(tmp_path: Path, target: str, message: str) -> None:
    inside = tmp_path / "repository"
    inside.mkdir()
    (tmp_path / "outside.yaml").write_text("repeats: 1\n")
    (inside / "a").mkdir()
    (inside / "passwd").write_text("x: 1\n")
    (inside / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    (inside / "folder").symlink_to(tmp_path)
    [problem] = refusal(inside, f'extends: "{target}"\n').problems
    assert problem.key == "extends"
    assert message in problem.message


@pytest.mark.parametrize("value", ["1", "[]", "[1]", "{a: b}", '""'])
def test_extends_must_be_paths(tmp_path: Path, value: str) -> None:
    assert "must be a relative path" in str(refusal(tmp_path, f"extends: {value}\n"))


def test_reference_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    write(tmp_path, "sets/reference.yaml", CPU)
    write(tmp_path, "sets/base.yaml", changed(CPU, {"role": "candidate", "reference": "reference.yaml"}))
    loaded = load_manifest(write(tmp_path, "deep/er/m.yaml", "extends: ../../sets/base.yaml\n"))
    assert loaded.reference_file == tmp_path / "sets/reference.yaml"


@pytest.mark.parametrize("chain", [["m.yaml"], ["a.yaml", "m.yaml"], ["a.yaml", "b.yaml", "a.yaml"]])
def test_references_may_not_lead_in_a_circle(tmp_path: Path, chain: list[str]) -> None:
    for name, following in pairwise(chain):
        write(tmp_path, name, changed(CPU, {"name": name[0], "role": "candidate", "reference": following}))
    error = refusal(tmp_path, changed(CPU, {"role": "candidate", "reference": chain[0]}))
    assert f"reference: leads in a circle: {' -> '.join(['m.yaml', *chain])}" in str(error)


def test_faults_of_a_reference_are_told_when_it_is_loaded_itself(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "reference: none.yaml\n")
    assert load_manifest(write(tmp_path, "m.yaml", changed(CPU, {"role": "candidate", "reference": "a.yaml"})))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "My Stack"}, "lower-case letters, digits"),
        ({"workload.session": "ä b.json"}, "from the repository"),
        ({"role": "candidate", "reference": "a.yml.txt"}, "must be the path of a .yaml file"),
        ({"engine.attention_backend": "cpu-attn"}, "must match ^[A-Z]"),
    ],
)
def test_text_of_another_form_is_told_the_form(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in str(refusal(tmp_path, changed(CPU, changes)))


def test_missing_facts(tmp_path: Path) -> None:
    loaded = manifest(tmp_path, model__revision=None, missing={"model.revision": "no source states it"})
    assert loaded.missing == {"model.revision": "no source states it"}
    assert "remove the entry" in str(refusal(tmp_path, changed(CPU, {"missing": {"model.revision": "why"}})))
    assert "say under `missing` why" in str(refusal(tmp_path, changed(CPU, {"model.revision": None})))
    assert "must be one of" in str(refusal(tmp_path, changed(CPU, {"missing": {"engine.seed": "why"}})))


def test_root(tmp_path: Path) -> None:
    (tmp_path / "a/manifests/x").mkdir(parents=True)
    (tmp_path / "a/workloads").mkdir()
    assert find_root(tmp_path / "a/manifests/x/m.yaml") == tmp_path / "a"
    (tmp_path / "a/manifests/.git").mkdir()
    assert find_root(tmp_path / "a/manifests/x/m.yaml") == tmp_path / "a/manifests"


def test_a_lone_file_is_its_own_root(tmp_path: Path) -> None:
    # Whatever lies above the temporary folder must not be a repository.
    assert not any((folder / ".git").exists() for folder in tmp_path.parents)
    assert find_root(tmp_path / "m.yaml") == tmp_path


def test_fragments(tmp_path: Path) -> None:
    assert is_fragment(tmp_path / "_base/cpu.yaml", tmp_path)
    assert is_fragment(tmp_path / "_base.yaml", tmp_path)
    assert not is_fragment(tmp_path / "base.yaml", tmp_path)
    # A folder above the one that is checked says nothing.
    assert not is_fragment(Path("/a/_x/m.yaml"), Path("/a/_x"))


def test_shared_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "base.yaml", CPU)
    loader = Loader()
    assert loader.load(write(tmp_path, "a.yaml", "extends: base.yaml\n")).repeats == 3
    (tmp_path / "base.yaml").unlink()
    (tmp_path / "base.yaml").write_text("not: used\n")
    assert loader.load(write(tmp_path, "b.yaml", "extends: base.yaml\nrepeats: 5\n")).repeats == 5


@pytest.mark.parametrize("base", [CPU, CUDA])
def test_dump_loads_as_the_same_manifest(tmp_path: Path, base: dict[str, Any]) -> None:
    loaded = manifest(tmp_path, base, description="no: 12:30 # 'x' \"y\"", capture__ranges=[[1, 4], [6, 9]])
    again = load_manifest(write(tmp_path, "again.yaml", dump_manifest(loaded)))
    assert again.model_dump() == loaded.model_dump()
    assert dump_manifest(again) == dump_manifest(loaded)
    assert dump_for_others(loaded) == dump_manifest(loaded)


def test_what_is_published_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    home = "/home/someone"
    loaded = manifest(tmp_path, CPU, model={"path": f"{home}/small"}, runtime__python=f"{home}/bin/python3")
    assert home in dump_manifest(loaded)
    text = dump_for_others(loaded)
    assert "someone" not in text
    again = load_manifest(write(tmp_path, "again.yaml", text))
    assert (again.model.path, again.runtime.python) == ("small", "python3")


PATHS = [(), ("engine",), ("runtime",), ("hardware",), ("capture",), ("model",), ("workload",)]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["no", "x", "fp8", DIGEST, "a/b", ""]),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["a", "kinds", "digest"]), x, max_size=3),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_at_any_key_loads_or_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(PATHS))
    node: Any = CPU
    for part in path:
        node = node[part]
    key = data.draw(
        st.sampled_from(sorted(node)) | st.sampled_from(["serve", "ranges", "image", "extra", "speculative"])
    )
    value = changed(CPU, {})
    target: Any = value
    for part in path:
        target = target[part]
    target[key] = data.draw(VALUES)
    file = write(tmp_path, "m.yaml", value)
    try:
        loaded = load_manifest(file)
    except InvalidManifest as error:
        assert all(problem.place.line >= 1 for problem in error.problems)  # noqa: PT017
    else:
        again = load_manifest(write(tmp_path, "again.yaml", dump_manifest(loaded)))
        assert again.model_dump() == loaded.model_dump()
