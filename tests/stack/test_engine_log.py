import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.files import read_json
from suite.stack.engine_log import read_log
from suite.stack.log_report import Backend, LinearKernel
from tests.manifest.samples import ROOT

LOGS = sorted((ROOT / "results").glob("*/*/engine.log"))

# As vLLM 0.11 printed them.
OLD = """\
(APIServer pid=1) INFO 09-30 10:00:00 [utils.py:328] non-default args: {'model': 'Qwen/Qwen3-32B-AWQ', 'max_model_len': 32768, 'kv_cache_dtype': 'fp8', 'tensor_parallel_size': 2}
(APIServer pid=1) INFO 09-30 10:00:01 [__init__.py:742] Resolved architecture: Qwen3ForCausalLM
(APIServer pid=1) INFO 09-30 10:00:01 [cache.py:161] Using fp8 data type to store kv cache. It reduces the GPU memory footprint and boosts the performance. Meanwhile, it may cause accuracy drop without a proper scaling factor.
(EngineCore_DP0 pid=9) INFO 09-30 10:00:09 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen3-32B-AWQ', speculative_config=None, tokenizer='Qwen/Qwen3-32B-AWQ', skip_tokenizer_init=False, dtype=torch.float16, max_seq_len=32768, tensor_parallel_size=2, pipeline_parallel_size=1, disable_custom_all_reduce=False, quantization=awq_marlin, enforce_eager=False, kv_cache_dtype=fp8, device_config=cuda, seed=0, enable_prefix_caching=True, compilation_config={"level":3,"cudagraph_mode":[2,1],"use_cudagraph":true}
(Worker_TP0 pid=21) INFO 09-30 10:00:12 [pynccl.py:103] vLLM is using nccl==2.27.3
(Worker_TP0 pid=21) WARNING 09-30 10:00:12 [custom_all_reduce.py:144] Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed. To silence this warning, specify disable_custom_all_reduce=True explicitly.
(Worker_TP0 pid=21) INFO 09-30 10:00:14 [cuda.py:366] Using Flash Attention backend on V1 engine.
(Worker_TP1 pid=22) INFO 09-30 10:00:14 [cuda.py:366] Using Flash Attention backend on V1 engine.
(Worker_TP0 pid=21) INFO 09-30 10:00:14 [awq_marlin.py:120] Using MarlinLinearKernel for AWQMarlinLinearMethod
(Worker_TP0 pid=21) WARNING 09-30 10:00:15 [kv_cache.py:86] Checkpoint does not provide a q scaling factor. Setting it to k_scale.
(Worker_TP0 pid=21) WARNING 09-30 10:00:15 [kv_cache.py:100] Using KV cache scaling factor 1.0 for fp8_e4m3. This may cause accuracy issues.
(EngineCore_DP0 pid=9) INFO 09-30 10:00:40 [kv_cache_utils.py:1087] GPU KV cache size: 290,864 tokens
(EngineCore_DP0 pid=9) INFO 09-30 10:00:40 [kv_cache_utils.py:1091] Maximum concurrency for 32,768 tokens per request: 8.88x
(Worker_TP0 pid=21) INFO 09-30 10:00:55 [gpu_model_runner.py:3480] Graph capturing finished in 11 secs, took 0.60 GiB
(APIServer pid=1) INFO 09-30 10:00:58 [serving_chat.py:134] Using default chat sampling params from model: {'temperature': 0.6, 'top_k': 20, 'top_p': 0.95}
"""  # noqa: E501

# As 0.32 prints them, with escapes of a terminal, beside the output of tools that people paste.
NEW = """\
\x1b[0;36m(Worker_TP0 pid=21)\x1b[0;0m INFO 11-29 20:00:32 [cuda.py:507] Using AttentionBackendEnum.FLASH_ATTN for MMEncoderAttention.
\x1b[0;36m(Worker_TP0 pid=21)\x1b[0;0m INFO 11-29 20:00:32 [cuda.py:507] Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].
(EngineCore pid=9) INFO 11-29 20:00:33 [qwen_gdn_linear_attn.py:221] Using Triton/FLA GDN prefill kernel (requested=auto, head_k_dim=128).
(EngineCore pid=9) INFO 11-29 20:00:33 [gpu_worker.py:518] Using V2 Model Runner
(EngineCore pid=9) INFO 11-29 20:00:33 [cuda_communicator.py:353] Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of potential backends: ['FLASHINFER', 'CUSTOM', 'PYNCCL'].
(EngineCore pid=9) INFO 11-29 20:00:33 [cuda_communicator.py:353] Using ['PYNCCL'] all-reduce backends (in dispatch order) for group 'pp:0' out of potential backends: ['CUSTOM', 'PYNCCL'].
(EngineCore pid=9) INFO 11-29 20:00:34 [__init__.py:1240] Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM
(EngineCore pid=9) WARNING 11-29 20:00:34 [compilation.py:1390] CUDAGraphMode.FULL_AND_PIECEWISE is not supported with X backend (support: 1); setting cudagraph_mode=PIECEWISE
(EngineCore pid=9) INFO 11-29 20:00:44 [kv_cache_utils.py:2327] GPU KV cache size: 93,184 tokens, Maximum concurrency for 8,192 tokens per request: 11.38x
(APIServer pid=1) WARNING 11-29 20:00:50 [model.py:1893] Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{'temperature': 0.7}`. If this is not intended, relaunch.
GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-1)
GPU 1: NVIDIA GeForce RTX 5090
Nvidia driver version        : 580.95.05
CUDA used to build PyTorch   : 13.0
| N/A   34C    P0             76W /  575W |     500MiB /  32607MiB |      0%      Default |
GPU0     X      NV18    0-31
"""  # noqa: E501


def test_the_wordings_of_0_11():
    report = read_log(OLD.splitlines())
    assert report.vllm_version == "0.11.0"
    assert report.attention == [Backend(name="FLASH_ATTN", candidates=())]
    assert report.kv_label == "fp8, unit scale, uncalibrated"
    assert report.linear == [LinearKernel(kernel="MarlinLinearKernel", layers="AWQMarlinLinearMethod")]
    assert report.cudagraph_mode == "FULL_AND_PIECEWISE"
    assert report.graphs_captured is True
    assert report.nccl == "2.27.3"
    assert report.all_reduce_disabled == [
        "custom: your platform lacks GPU P2P capability or P2P test failed",
    ]
    assert report.model_runner is None
    assert report.capacity.consistent is True
    assert report.greedy_by_default is False
    assert report.requested["kv_cache_dtype"] == "fp8"
    assert report.not_taken() == []
    assert report.effective()["quantization"] == "awq_marlin"


def test_the_wordings_of_0_32():
    report = read_log(NEW.splitlines())
    assert report.attention == [Backend(name="FLASHINFER", candidates=("FLASHINFER", "TRITON_ATTN"))]
    assert report.gdn_prefill_kernel == "Triton/FLA"
    assert report.effective()["gdn_prefill_backend"] == "triton"
    assert report.model_runner == "v2"
    assert report.all_reduce == ["CUSTOM", "PYNCCL"]
    assert report.linear == [LinearKernel(kernel="FlashInferCutlassNvFp4LinearKernel", layers="NVFP4 GEMM")]
    assert report.cudagraph_mode == "PIECEWISE"
    assert (report.capacity.tokens_from_line, report.capacity.concurrency) == (93_184, 11.38)
    assert report.sampling_defaults == {"temperature": 0.7}
    assert report.gpus == ["NVIDIA GeForce RTX 5090"] * 2
    assert (report.driver, report.cuda, report.power_limit_watts) == ("580.95.05", "13.0", 575)
    assert report.interconnect == "NVLink, 18 links"


def test_a_request_that_was_not_taken_is_told():
    lines = [
        "INFO 11-29 20:00:32 [a.py:286] non-default args: {'attention_backend': 'TRITON_ATTN', 'dtype': 'float32'}",
        "INFO 11-29 20:00:32 [a.py:50] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].",
    ]
    assert read_log(lines).not_taken() == ["attention_backend: requested 'TRITON_ATTN', effective 'FLASH_ATTN'"]


def test_a_cache_that_the_checkpoint_decides_is_not_guessed():
    line = (
        "Initializing a V1 LLM engine (v0.32.0) with config: model='m', dtype=torch.bfloat16, kv_cache_dtype=auto, x=1"
    )
    report = read_log([line])
    assert report.kv_label == "not told"
    assert "kv_cache_dtype" not in report.effective()


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.parent.parent.name)
def test_real_logs_of_an_h200_agree_with_what_its_workers_reported(log):
    with log.open(errors="replace") as stream:
        report = read_log(stream)
    receipt = read_json(log.parent / "receipt.json")
    told = report.effective()
    assert told.keys() >= {"attention_backend", "kv_cache_dtype", "dtype", "max_model_len", "model_runner"}
    assert {name: receipt["effective"][name] for name in told} == told
    assert report.vllm_version == receipt["vllm"]
    rank = receipt["ranks"][0]
    assert report.capacity.tokens_from_line == rank["kv_cache"]["capacity_tokens"]
    assert report.capacity.consistent is True
    kernels = {kernel for layer in rank["linear"] for kernel in layer["kernels"]}
    assert {item.kernel for item in report.linear} == kernels
    assert report.not_taken() == []
    json.dumps(report.to_json(), allow_nan=False)


# Field cases. Each names where it was met.


def test_kv_size_hybrid():
    """vllm#40691: on hybrid models the size line is wrong."""
    report = read_log(
        ["GPU KV cache size: 290,864 tokens", "Maximum concurrency for 32,768 tokens per request: 33.04x"]
    )
    assert report.capacity.consistent is False
    assert report.capacity.tokens_from_line == 290_864
    assert report.capacity.tokens_from_concurrency == 1_082_655
    assert "290,864" in report.capacity.message
    assert "1,082,655" in report.capacity.message
    assert "disagree" in report.capacity.message


def test_fp4_warning():
    """vllm#47749, vllm#56603: what the warning says of the hardware is false on SM120."""
    report = read_log(
        [
            "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. Weight-only "
            "FP4 compression will be used leveraging the Marlin kernel."
        ]
    )
    assert report.fp4 == "Marlin, weight-only FP4, on the layers named by read-back"
    text = json.dumps(report.to_json())
    assert "GPU lacks FP4" not in text
    assert "native" not in text


def test_fp8_kv_unit_scale():
    """club-3090#594: FP8 KV without calibrated scales is another thing than FP8 KV with them."""
    assert (
        read_log(["Using KV cache scaling factor 1.0 for fp8_e4m3."]).kv_label == "fp8_e4m3, unit scale, uncalibrated"
    )


def test_sampler_defaults():
    """vllm#15622: a request without a temperature is sampled."""
    line = "Using default chat sampling params from model: {'temperature': 0.7, 'top_k': 20, 'top_p': 0.8}"
    assert read_log([line]).greedy_by_default is False


@given(st.lists(st.text()))
def test_no_log_makes_it_fail(lines):
    json.dumps(read_log(lines).to_json())


STARTS = (
    "non-default args: {",
    "Initializing a V1 LLM engine (v1) with config: ",
    "GPU 0: NVIDIA ",
    "Using X attention backend out of potential backends: ",
    "KV cache size: ",
    "Using default chat sampling params from model: {",
)


@given(st.text(), st.sampled_from(STARTS))
def test_no_end_of_a_known_line_makes_it_fail(text, start):
    json.dumps(read_log([start + text]).to_json())


@pytest.mark.parametrize(
    "line",
    [
        f"GPU KV cache size: {'9' * 5000} tokens",
        f"Maximum concurrency for 100 tokens per request: {'9' * 400}x",
        "Maximum concurrency for 100 tokens per request: 1.2.3x",
        "Current Power Limit : 1..2 W",
        f"Using max model len {'9' * 5000}",
        f"non-default args: {{'seed': {'9' * 5000}, 'max_model_len': {'9' * 400}}}",
        f"GPU {'9' * 5000}: NVIDIA X",
    ],
)
def test_numbers_that_are_none_mean_nothing(line):
    report = read_log([line, "Using max model len 4096"])
    assert report.max_model_len == 4096
    assert json.dumps(report.to_json(), allow_nan=False)
