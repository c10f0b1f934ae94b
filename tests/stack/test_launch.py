"""Launch commands as they are printed; that the real vLLM starts by one is seen in `tests/record/test_real_server`."""

import itertools
import shlex
import subprocess

import pytest

from suite.errors import InvalidInput
from suite.manifest.load import load_manifest
from suite.stack.launch import MODEL_PLACEHOLDER, launch, shell_text
from tests.manifest.samples import CPU, CUDA, DIGEST, REVISION, ROOT, lock, manifest

SERVE = {
    "enforce_eager": False,
    "enable_prefix_caching": True,
    "max_num_seqs": 8,
    "enable_auto_tool_choice": True,
    "tool_call_parser": "qwen3_coder",
}


def test_a_container_is_launched_by_digest_and_commit_on_loopback_without_privileges(tmp_path):
    made = launch(lock(tmp_path, CUDA, serve=SERVE))
    assert made.docker is not None
    assert list(made.docker[:3]) == ["docker", "run", "--rm"]
    image = made.docker.index(f"vllm/vllm-openai@{DIGEST}")
    options, inside = made.docker[:image], made.docker[image + 1 :]
    assert list(inside) == [
        "serve", "owner/name", "--revision", REVISION, "--tensor-parallel-size", "1", "--enable-prefix-caching",
        "--max-num-batched-tokens", "2048", "--max-model-len", "8192", "--max-num-seqs", "8", "--dtype", "bfloat16",
        "--seed", "0", "--kv-cache-dtype", "bfloat16", "--attention-backend", "TRITON_ATTN",
        "--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder",
    ]  # fmt: skip
    pairs = list(itertools.pairwise(options))
    for pair in (
        ("--gpus", "device=0"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--publish", "127.0.0.1:8000:8000"),
        ("--entrypoint", "vllm"),
        ("--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        ("--env", "HF_HOME=/models"),
        ("--mount", "type=volume,src=suite-models,dst=/models"),
    ):
        assert pair in pairs
    assert "--privileged" not in options
    assert not [word for word in options if "docker.sock" in word]
    assert made.serve == ("vllm", *inside, "--host", "127.0.0.1", "--port", "8000")


def test_what_is_launched_is_told_from_what_was_measured(tmp_path):
    made = launch(lock(tmp_path, CUDA, serve=SERVE | {"extra": {"swap_space": 4}}))
    assert [(c.name, c.measured, c.served) for c in made.differences] == [
        ("enforce_eager", True, False),
        ("enable_prefix_caching", False, True),
        ("max_num_seqs", 1, 8),
        ("swap_space", None, 4),
    ]
    assert all(c.effect for c in made.differences[:3])
    assert launch(lock(tmp_path, CUDA)).differences == ()


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"engine__attention_backend": "FLASH_ATTN", "engine__flash_attn_version": 2},
         ["--attention-config", '{"backend":"FLASH_ATTN","flash_attn_version":2}']),
        ({"engine__gpu_memory_percent": 95}, ["--gpu-memory-utilization", "0.95"]),
        ({"engine__gpu_memory_percent": 95, "serve": {"kv_cache_memory_mib": 2}},
         ["--kv-cache-memory-bytes", "2097152"]),
        ({"engine__extra": {"enable_flashinfer_autotune": False}}, ["--no-enable-flashinfer-autotune"]),
        ({"serve": {"cudagraph_mode": "FULL", "enforce_eager": False}},
         ["--compilation-config", '{"cudagraph_mode":"FULL"}']),
        ({"serve": {"speculative": {"method": "mtp", "num_speculative_tokens": 2}}},
         ["--speculative-config", '{"method":"mtp","num_speculative_tokens":2}']),
        ({"serve": {"attention_backend": "FLASHINFER"}}, ["--attention-backend", "FLASHINFER"]),
        ({"engine__cpu_offload_gib": 30}, ["--cpu-offload-gb", "30"]),
    ],
)  # fmt: skip
def test_settings_become_flags(tmp_path, changes, flags):
    words = list(launch(lock(tmp_path, CUDA, **changes)).serve)
    at = words.index(flags[0])
    assert words[at : at + len(flags)] == flags


def test_a_cache_of_fixed_size_is_launched_without_the_share_that_lets_stacks_stand_side_by_side(tmp_path):
    made = launch(lock(tmp_path, CUDA, engine__kv_cache_memory_mib=512))
    assert "--gpu-memory-utilization" not in made.serve
    assert any("0.54 GB" in note for note in made.notes)


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (None, ["--gpus", '"device=0,1"']),
        (["3"], ["--gpus", "device=3"]),
        (["nvidia.com/gpu=0", "nvidia.com/gpu=1"], ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]),
    ],
)
def test_gpus_are_named_by_index_or_by_cdi(tmp_path, devices, words):
    two = {"engine__tensor_parallel_size": 2, "hardware__count": 2}
    made = launch(lock(tmp_path, CUDA, **two), devices=devices)
    assert made.docker is not None
    at = made.docker.index(words[0])
    assert list(made.docker[at : at + len(words)]) == words


def test_an_amd_gpu_is_given_by_its_devices(tmp_path):
    rocm = {"kind": "rocm", "architecture": "gfx942", "count": 1}
    made = launch(lock(tmp_path, CUDA, hardware=rocm), devices=["1"])
    text = shell_text(made.docker or ())
    assert "--device /dev/kfd --device /dev/dri --group-add video --env HIP_VISIBLE_DEVICES=1" in text
    assert "--gpus" not in text


def test_a_checkpoint_made_here_is_mounted_read_only_under_a_name_of_its_own(tmp_path):
    local = {"model": {"repository": "owner/name", "revision": REVISION, "derive": "w8a8-int8"}}
    stack = lock(tmp_path, CUDA, **local)
    made = launch(stack)
    assert MODEL_PLACEHOLDER in made.serve
    assert any(MODEL_PLACEHOLDER in note for note in made.notes)
    assert "--revision" not in made.serve
    made = launch(stack, model_folder="/data/a,b")
    assert made.docker is not None
    assert 'type=bind,"src=/data/a,b",dst=/model,readonly' in made.docker
    assert made.docker[made.docker.index("serve") + 1] == "/model"
    assert made.docker[-2:] == ("--served-model-name", "sample")
    assert not made.notes


def test_a_process_has_its_variables_before_the_command(tmp_path):
    made = launch(lock(tmp_path, CPU, environment={"VLLM_CPU_KVCACHE_SPACE": "1"}))
    assert made.docker is None
    assert made.plain[:4] == (
        "env",
        "OMP_NUM_THREADS=1",
        "VLLM_CPU_KVCACHE_SPACE=1",
        "VLLM_CPU_OMP_THREADS_BIND=nobind",
    )
    assert made.plain[4:] == made.serve


def test_a_vllm_without_a_working_command_is_launched_by_its_module(tmp_path):
    start = ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "owner/name")
    assert launch(lock(tmp_path, CPU)).serve[:5] == start
    image = {"kind": "docker", "image": CUDA["runtime"]["image"], "packages": {"vllm-cpu": "0.32.0"}}
    made = launch(lock(tmp_path, CPU, runtime=image))
    assert made.docker is not None
    at = made.docker.index("--entrypoint")
    assert made.docker[at + 1] == "python3"
    assert made.docker[at + 3 : at + 7] == start[1:]
    assert "--gpus" not in made.docker


@pytest.mark.parametrize("variables", [{"LD_PRELOAD": "evil.so"}, {"VLLM_PLUGINS": "x"}, {"VLLM_A": "x\ny"}])
def test_a_strangers_lock_sets_no_variable_that_a_manifest_may_not(tmp_path, variables):
    stack = lock(tmp_path, CUDA).model_copy(update={"environment": variables})
    with pytest.raises(InvalidInput, match="do not launch"):
        launch(stack)


def test_code_that_comes_with_a_checkpoint_is_told(tmp_path):
    made = launch(lock(tmp_path, CUDA, serve={"extra": {"trust_remote_code": True}}))
    assert "--trust-remote-code" in made.serve
    assert any("--trust-remote-code runs code" in note for note in made.notes)


def test_an_image_without_digest_is_not_launched(tmp_path):
    image = {"repository": "vllm/vllm-openai"}
    stack = manifest(tmp_path, CUDA, runtime__image=image, missing={"runtime.image.digest": "unknown"})
    with pytest.raises(InvalidInput, match="no digest"):
        launch(stack)


def test_serve_settings_that_contradict_one_another_are_refused(tmp_path):
    stack = lock(tmp_path, CUDA, serve={"flash_attn_version": 2})
    with pytest.raises(InvalidInput, match="flash_attn_version has no meaning"):
        launch(stack)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "manifests").glob("*/*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_shell_text_is_the_same_list_again(path):
    if path.parent.name.startswith("_") or path.name.startswith("_"):
        return
    stack = load_manifest(path)
    if "runtime.image.digest" in stack.missing:
        with pytest.raises(InvalidInput):
            launch(stack)
        return
    made = launch(stack, model_folder="/data/it's a $HOME `x`")
    for arguments in (made.docker or (), made.plain):
        assert tuple(shlex.split(shell_text(arguments))) == arguments
    wrapped = shell_text(made.docker or made.plain, wrapped=True)
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {wrapped}"], capture_output=True, text=True, check=True)
    assert tuple(printed.stdout.split("\0")[:-1]) == (made.docker or made.plain)
