import pytest

from suite.stack.effective import KvCapacity, all_reduce_routes, kv_label


@pytest.mark.parametrize(
    ("dtype", "k", "v", "label"),
    [
        ("bfloat16", 1.0, 1.0, "bfloat16"),
        ("fp8_e4m3", 1.0, 1.0, "fp8_e4m3, unit scale, uncalibrated"),
        ("fp8_e4m3", 0.02, 0.03, "fp8_e4m3, scales of the checkpoint"),
        ("fp8_e4m3", 1.0, 0.03, "fp8_e4m3, scales of the checkpoint"),
        ("fp8_e5m2", None, None, "fp8_e5m2, scales not told"),
        ("int8_per_token_head", 1.0, 1.0, "int8_per_token_head, scales per token and head, made while running"),
        (None, None, None, "not told"),
    ],
)
def test_caches_of_one_dtype_are_told_apart_by_their_scales(dtype, k, v, label):
    assert kv_label(dtype, k_scale=k, v_scale=v) == label


@pytest.mark.parametrize(
    ("line", "length", "concurrency", "consistent"),
    [
        (93_184, 8_192, 11.38, True),
        (186_400, 8_192, 22.75, True),
        (33_000, 32_768, 1.01, True),
        (290_864, 32_768, 33.04, False),
        (290_864, None, None, None),
        (None, 32_768, 33.04, None),
    ],
)
def test_two_figures_agree_within_their_rounding(line, length, concurrency, consistent):
    capacity = KvCapacity(tokens_from_line=line, length_tokens=length, concurrency=concurrency)
    assert capacity.consistent is consistent
    assert ("disagree" in capacity.message) is (consistent is False)


def test_all_reduce_routes_stand_in_the_order_in_which_they_are_tried():
    parallel = {
        "tensor_parallel_size": 2,
        "communicator": "CudaCommunicator",
        "pynccl_comm": {"disabled": False},
        "ca_comm": {"disabled": False},
        "symm_mem_comm": {"disabled": True},
        "fi_ar_comm": None,
    }
    assert all_reduce_routes(parallel) == ["CUSTOM", "PYNCCL"]
    assert all_reduce_routes({"tensor_parallel_size": 2, "communicator": "CpuCommunicator"}) == ["CpuCommunicator"]
    assert all_reduce_routes({"tensor_parallel_size": 1, "pynccl_comm": {"disabled": False}}) is None
