import copy

import pytest

from suite.agent.settings import effective_settings, mismatches

RANK = {
    "model_runner": "vllm.v1.worker.gpu_model_runner.GPUModelRunner",
    "attention": [
        {"backend": "FLASH_ATTN", "flash_attention_version": 3, "kv_cache_dtype": "auto", "gdn_prefill_backend": None},
        {"backend": "GDN_ATTN", "kv_cache_dtype": None, "gdn_prefill_backend": "triton"},
    ],
    "dtype": "bfloat16",
    "quantization": None,
    "parallel": {"tensor_parallel_size": 2},
    "graphs": {"enforce_eager": True},
    "kv_cache": {"prefix_caching": False},
    "scheduler": {"max_num_batched_tokens": 2048, "max_num_seqs": 1},
    "max_model_len": 8192,
    "torch": {"threads": 8},
    "device": {"kind": "cuda", "compute_capability": "12.0"},
}


def rank(**changes):
    value = copy.deepcopy(RANK)
    for path, new in changes.items():
        *parents, last = path.split("__")
        node = value
        for parent in parents:
            node = node[int(parent) if isinstance(node, list) else parent]
        node[last] = new
    return value


def test_one_rank():
    assert effective_settings([rank()]) == {
        "attention_backend": "FLASH_ATTN",
        "kv_cache_dtype": "bfloat16",  # `auto` is the model's own
        "flash_attn_version": 3,
        "gdn_prefill_backend": "triton",
        "dtype": "bfloat16",
        "quantization": None,
        "tensor_parallel_size": 2,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 1,
        "max_model_len": 8192,
        "model_runner": "v1",
        "threads": None,  # of the host; they change nothing on a GPU
        "device_kind": "cuda",
        "architecture": "12.0",
        "isa": None,
    }


@pytest.mark.parametrize(
    ("runner", "version"),
    [
        ("vllm.v1.worker.gpu_model_runner.GPUModelRunner", "v1"),
        ("vllm.v1.worker.cpu_model_runner.CPUModelRunner", "v1"),
        ("vllm.v1.worker.gpu.model_runner.GPUModelRunner", "v2"),
        ("vllm.v1.worker.cpu.model_runner.CPUModelRunner", "v2"),
    ],
)
def test_which_model_runner(runner, version):
    assert effective_settings([rank(model_runner=runner)])["model_runner"] == version


def test_a_cpu_has_threads_and_a_machine_architecture():
    seen = effective_settings([rank(device={"kind": "cpu", "architecture": "x86_64"})])
    assert (seen["threads"], seen["architecture"]) == (8, "x86_64")


def test_layers_that_differ_equal_no_request():
    layers = [
        {"backend": "FLASH_ATTN", "kv_cache_dtype": "fp8_e4m3", "gdn_prefill_backend": None},
        {"backend": "FLASHINFER", "kv_cache_dtype": "fp8_e4m3", "gdn_prefill_backend": None},
    ]
    seen = effective_settings([rank(attention=layers)])
    assert seen["attention_backend"] == ["FLASHINFER", "FLASH_ATTN"]
    assert seen["kv_cache_dtype"] == "fp8_e4m3"
    assert mismatches({"attention_backend": "FLASH_ATTN"}, seen) == [
        "attention_backend: requested 'FLASH_ATTN', effective ['FLASHINFER', 'FLASH_ATTN']"
    ]


def test_ranks_that_differ_equal_no_request():
    cpu = {"kind": "cpu", "architecture": "x86_64"}
    seen = effective_settings([rank(device=cpu), rank(device=cpu, torch__threads=4)])
    assert seen["threads"] == ["4", "8"]
    assert mismatches({"threads": 8}, seen) == ["threads: requested 8, effective ['4', '8']"]


def test_mismatches_are_sorted_and_what_was_not_asked_for_is_free():
    seen = {"b": 2, "a": 1, "c": 3}
    assert mismatches({"c": 4, "a": 0, "b": 2, "d": None}, seen) == [
        "a: requested 0, effective 1",
        "c: requested 4, effective 3",
    ]
    assert mismatches({"missing": True}, seen) == ["missing: requested True, effective None"]
