import pytest

from suite.bundle.derive import contrast, device, effective
from suite.stack.engine_log import read_log
from tests.bundle.world import lock, receipt

XEON = {"kind": "cpu", "name": "Xeon", "architecture": "x86_64"}
EPYC = {"kind": "cpu", "name": "EPYC", "architecture": "x86_64"}


def on(found, kv_cache_dtype="bfloat16"):
    made = receipt(kv_cache_dtype)
    return made | {"ranks": [made["ranks"][0] | {"device": found}]}


def compared(reference, candidate, kv_cache_dtype="bfloat16", **changes):
    return contrast(
        lock("bf16", role="reference"),
        lock("other", kv_cache_dtype=kv_cache_dtype, **changes),
        reference_receipt=on(reference),
        candidate_receipt=on(candidate, kv_cache_dtype),
    )


def test_a_reference_made_on_other_hardware_is_a_factor_that_locks_do_not_show():
    found = compared(XEON, EPYC, "fp8_e4m3")
    assert [(f.key, f.reference, f.candidate) for f in found.factors] == [
        ("hardware", "Xeon (x86_64)", "EPYC (x86_64)"),
        ("kv_cache_dtype", "bfloat16", "fp8_e4m3"),
    ]
    assert not found.causal_claim


def test_on_the_same_hardware_one_factor_may_be_the_cause():
    found = compared(XEON, XEON, "fp8_e4m3")
    assert [f.key for f in found.factors] == ["kv_cache_dtype"]
    assert found.causal_claim


def test_hardware_alone_is_one_factor():
    found = compared(XEON, EPYC)
    assert [f.key for f in found.factors] == ["hardware"]
    assert found.causal_claim


def test_hardware_that_the_locks_name_is_not_named_twice():
    gpu = {"kind": "cuda", "architecture": "9.0", "gpu": "H200 SXM", "count": 1}
    found = compared(XEON, {"kind": "cuda", "name": "NVIDIA H200", "compute_capability": "9.0"}, hardware=gpu)
    assert [f.key for f in found.factors].count("hardware") == 1


@pytest.mark.parametrize(
    "receipt", [{}, {"ranks": []}, {"ranks": "x"}, {"ranks": [1]}, {"ranks": [{"device": 1}]}, on({"name": 7}), on({})]
)
def test_a_receipt_that_names_no_device_adds_nothing(receipt):
    assert device(receipt) is None


def test_a_device_is_told_with_its_architecture():
    assert device(on({"name": "NVIDIA H200", "compute_capability": "9.0"})) == "NVIDIA H200 (9.0)"
    assert device(on({"name": "NVIDIA H200"})) == "NVIDIA H200"


def differing(ours, theirs, **changes):
    """Contrast of two stacks whose receipts differ only in these effective settings."""
    base = receipt("bfloat16")
    return contrast(
        lock("bf16", role="reference"),
        lock("other", **changes),
        reference_receipt=base | {"effective": base["effective"] | ours},
        candidate_receipt=base | {"effective": base["effective"] | theirs},
    )


def test_kv_switches_backend():
    """club-3090#585: asking for another KV dtype silently changed the backend as well."""
    reference = ["Using TRITON_ATTN attention backend out of potential backends: ['TRITON_ATTN']"]
    candidate = ["Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN']"]
    found = contrast(
        lock("int8", role="reference", kv_cache_dtype="int8_per_token_head"),
        lock("fp8", kv_cache_dtype="fp8"),
        reference_receipt={"effective": read_log(reference).effective() | {"kv_cache_dtype": "int8_per_token_head"}},
        candidate_receipt={"effective": read_log(candidate).effective() | {"kv_cache_dtype": "fp8"}},
    )
    assert [f.key for f in found.factors] == ["attention_backend", "kv_cache_dtype"]
    assert found.consequent == ()
    assert not found.causal_claim


@pytest.mark.parametrize(
    ("changes", "setting", "values", "follows"),
    [
        ({"kv_cache_dtype": "fp8_e4m3"}, "attention_backend", ("A", "B"), False),
        ({"kv_cache_dtype": "fp8_e4m3"}, "flash_attn_version", (2, 3), False),
        ({"kv_cache_dtype": "fp8_e4m3"}, "model_runner", ("v1", "v2"), False),
        ({"runtime": {"kind": "process", "packages": {"vllm": "0.31.0"}}}, "attention_backend", ("A", "B"), True),
        ({"runtime": {"kind": "process", "packages": {"vllm": "0.31.0"}}}, "model_runner", ("v1", "v2"), True),
        ({"runtime": {"kind": "process", "packages": {"vllm": "0.31.0"}}}, "kv_cache_dtype", ("a", "b"), False),
    ],
)
def test_what_the_factor_entails_is_consequent_and_anything_else_voids_the_claim(changes, setting, values, follows):
    found = differing({setting: values[0]}, {setting: values[1]}, **changes)
    assert found.causal_claim is follows
    assert (setting in [f.key for f in found.factors]) is not follows
    assert (f"effective {setting}" in [f.key for f in found.consequent]) is follows


def test_scales_tell_two_caches_of_one_dtype_apart():
    def scaled(scale):
        layer = {"kv_cache_dtype": "fp8_e4m3", "k_scale": scale, "v_scale": scale}
        return receipt("fp8_e4m3") | {"ranks": [{"attention": [layer]}]}

    stacks = lock("a", role="reference", kv_cache_dtype="fp8_e4m3"), lock("b", kv_cache_dtype="fp8_e4m3")
    found = contrast(*stacks, reference_receipt=scaled(1.0), candidate_receipt=scaled(0.5))
    assert [f.key for f in found.factors] == ["kv_cache_scales"]
    assert contrast(*stacks, reference_receipt=scaled(1.0), candidate_receipt=scaled(1.0)).factors == ()


def test_another_all_reduce_follows_from_the_ranks_and_is_a_factor_by_itself():
    def ranks(size, **routes):
        parallel = {
            "tensor_parallel_size": size,
            "nccl": "2.28.9",
            **{k: {"disabled": not v} for k, v in routes.items()},
        }
        return receipt("bfloat16") | {"ranks": [{"parallel": parallel}]}

    one, two = ranks(1), ranks(2, ca_comm=True, pynccl_comm=True)
    stacks = lock("a", role="reference"), lock("b")
    engine = lock("b").to_json()["engine"] | {"tensor_parallel_size": 2}
    wider = lock("b", engine=engine)
    found = contrast(stacks[0], wider, reference_receipt=one, candidate_receipt=two)
    assert [f.key for f in found.factors] == ["tensor_parallel_size"]
    assert {"effective all_reduce", "effective nccl"} <= {f.key for f in found.consequent}
    other = ranks(2, ca_comm=False, pynccl_comm=True)
    found = contrast(wider, wider, reference_receipt=two, candidate_receipt=other)
    assert [f.key for f in found.factors] == ["all_reduce"]


@pytest.mark.parametrize("kernels", [5, None, "Marlin", {}])
def test_kernels_of_another_form_are_passed_over(kernels):
    assert effective({"ranks": [{"linear": [{"kernels": kernels, "quant_method": "fp8"}]}]}) == {
        "linear kernels": ["fp8"]
    }
