from hypothesis import given
from hypothesis import strategies as st

from suite.files import read_json
from suite.stack.receipt_view import receipt_rows
from tests.manifest.samples import ROOT


def receipt_of(name):
    return read_json(next((ROOT / "results" / name).glob("*/receipt.json")))


def values(rows, name):
    return [text for key, text in rows if key == name]


def test_what_the_workers_of_an_h200_reported():
    rows = receipt_rows(receipt_of("h200-smollm2-flash-attn-3-kv-fp8"))
    assert values(rows, "attention") == ["30 x Attention: FLASH_ATTN 3, KV fp8_e4m3, unit scale, uncalibrated"]
    assert values(rows, "KV capacity") == ["372,816 tokens"]
    assert values(rows, "graphs") == ["none: eager"]
    assert values(rows, "NCCL") == ["2.28.9"]
    assert values(rows, "device") == ["NVIDIA H200"]
    assert values(rows, "compute capability") == ["9.0"]
    assert values(rows, "driver") == ["580.159.04"]
    assert values(rows, "CUDA") == ["13.0"]


def test_kernels_are_told_by_layer_group():
    rows = receipt_rows(receipt_of("h200-smollm2-w4a16-g64"))
    linear = values(rows, "linear layers")
    assert any("QKVParallelLinear" in text and "MarlinLinearKernel" in text for text in linear)
    assert any("MergedColumnParallelLinear" in text and "MacheteLinearKernel" in text for text in linear)


def test_a_capacity_on_which_the_two_figures_disagree_and_two_ranks():
    cache = {"capacity_tokens": 290_864, "max_concurrency": 33.04}
    parallel = {"tensor_parallel_size": 2, "pynccl_comm": {"disabled": False}, "nccl": "2.28.9"}
    device = {"name": "GPU", "power_limit_watts": 575.0, "max_sm_clock_mhz": 3090, "interconnect": "PCIe 5 x16"}
    rank = {"kv_cache": cache, "parallel": parallel, "max_model_len": 32_768, "device": device}
    rows = receipt_rows({"ranks": [rank, rank]})
    assert "disagree" in values(rows, "KV capacity")[0]
    assert values(rows, "all-reduce") == ["PYNCCL"]
    assert values(rows, "ranks") == ["2"]
    assert values(rows, "power limit") == ["575.0 W"]
    assert values(rows, "interconnect") == ["PCIe 5 x16"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
keys = st.sampled_from(["attention", "linear", "kv_cache", "parallel", "graphs", "device", "max_model_len"])


@given(st.lists(st.dictionaries(keys, anything)) | anything)
def test_a_hostile_receipt_harms_nothing(ranks):
    receipt_rows({"ranks": ranks})
