import pytest

from suite.stack.engine_arguments import GIB, MIB, SHARED_CARD, engine_arguments, expected_settings, stack_environment
from tests.manifest.samples import CUDA, lock

CPU_ARGUMENTS = {
    "attention_backend": "CPU_ATTN",
    "kv_cache_dtype": "bfloat16",
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "max_num_batched_tokens": 2048,
    "max_model_len": 8192,
    "max_num_seqs": 1,
    "dtype": "bfloat16",
    "seed": 0,
}


def test_settings_go_to_the_engine_under_its_own_names(tmp_path):
    assert engine_arguments(lock(tmp_path)) == CPU_ARGUMENTS


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({"engine__cudagraph_mode": "NONE"}, {"compilation_config": {"cudagraph_mode": "NONE"}}),
        # A cache of fixed size must not be refused because another process holds some of the card.
        (
            {"engine__kv_cache_memory_mib": 512},
            {"kv_cache_memory_bytes": 512 * MIB, "gpu_memory_utilization": SHARED_CARD},
        ),
        ({"engine__gpu_memory_percent": 92}, {"gpu_memory_utilization": 0.92}),
        ({"engine__cpu_offload_gib": 30}, {"cpu_offload_gb": 30}),
        ({"engine__quantization": "awq_marlin"}, {"quantization": "awq_marlin"}),
        ({"engine__gdn_prefill_backend": "triton"}, {"gdn_prefill_backend": "triton"}),
        ({"engine__block_size": 32}, {"block_size": 32}),
        ({"engine__language_model_only": True}, {"language_model_only": True}),
        ({"engine__extra": {"enable_flashinfer_autotune": False}}, {"enable_flashinfer_autotune": False}),
        (
            {"engine__speculative": {"method": "mtp", "num_speculative_tokens": 2}},
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}},
        ),
        (
            {
                "engine__speculative": {
                    "method": "eagle3",
                    "num_speculative_tokens": 3,
                    "repository": "owner/draft",
                    "revision": "2" * 40,
                }
            },
            {
                "speculative_config": {
                    "method": "eagle3",
                    "num_speculative_tokens": 3,
                    "model": "owner/draft",
                    "revision": "2" * 40,
                }
            },
        ),
    ],
)
def test_each_setting_that_has_another_name_or_unit(tmp_path, changes, arguments):
    plain = engine_arguments(lock(tmp_path, CUDA))
    assert engine_arguments(lock(tmp_path, CUDA, **changes)) == plain | arguments


def test_a_flash_attention_version_travels_with_its_backend(tmp_path):
    changes = {"engine__attention_backend": "FLASH_ATTN", "engine__flash_attn_version": 2}
    arguments = engine_arguments(lock(tmp_path, CUDA, **changes))
    assert arguments["attention_config"] == {"backend": "FLASH_ATTN", "flash_attn_version": 2}
    assert "attention_backend" not in arguments


def test_a_cpu_stack_is_told_its_threads_and_bound_to_no_core(tmp_path):
    environment = stack_environment(lock(tmp_path, hardware__threads=3, environment__VLLM_CPU_KVCACHE_SPACE="1"))
    assert environment == {
        "OMP_NUM_THREADS": "3",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


@pytest.mark.parametrize(("runner", "value"), [("v1", "0"), ("v2", "1")])
def test_a_gpu_stack_and_its_model_runner(tmp_path, runner, value):
    assert stack_environment(lock(tmp_path, CUDA)) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    environment = stack_environment(lock(tmp_path, CUDA, engine__model_runner=runner))
    assert environment["VLLM_USE_V2_MODEL_RUNNER"] == value


def test_what_must_be_read_back(tmp_path):
    assert expected_settings(lock(tmp_path)) == {
        "attention_backend": "CPU_ATTN",
        "kv_cache_dtype": "bfloat16",
        "tensor_parallel_size": 1,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 2048,
        "max_model_len": 8192,
        "max_num_seqs": 1,
        "dtype": "bfloat16",
        "device_kind": "cpu",
        "architecture": "x86_64",
        "threads": 1,
    }
    gpu = expected_settings(lock(tmp_path, CUDA, engine__kv_cache_dtype="auto", engine__model_runner="v2"))
    assert (gpu["kv_cache_dtype"], gpu["model_runner"], gpu["architecture"]) == ("bfloat16", "v2", "12.0")
    assert "threads" not in gpu


def test_every_expected_setting_is_one_that_a_receipt_has(tmp_path):
    from suite.agent.settings import effective_settings
    from tests.agent.test_settings import RANK

    changes = {"engine__model_runner": "v2", "engine__gdn_prefill_backend": "triton"}
    assert set(expected_settings(lock(tmp_path, **changes))) <= set(effective_settings([RANK]))


def test_units():
    assert (MIB, GIB) == (1 << 20, 1 << 30)
