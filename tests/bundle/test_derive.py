import pytest

from suite.bundle.derive import contrast, device
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
