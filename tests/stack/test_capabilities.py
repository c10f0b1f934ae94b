import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.manifest.schema import Runtime
from suite.stack.capabilities import ask, identities, keep, kept, package_identity, parse_capabilities
from suite.stack.known_bad import findings
from tests.manifest.samples import CUDA, DIGEST, lock

NOT_SUPPORTED = ["kv_cache_dtype not supported"]


def answer(**changes):
    def refused(*kinds, sizes=(64, 128), reasons=NOT_SUPPORTED):
        return [{"kv_cache_dtype": kv, "head_size": size, "reasons": reasons} for kv in kinds for size in sizes]

    kinds = ["auto", "bfloat16", "fp8_e4m3", "int8_per_token_head", "nvfp4"]
    return {
        "schema_version": 1,
        "vllm": "0.31.0",
        "compute_capability": "12.0",
        "dtype": "bfloat16",
        "head_sizes": [64, 128],
        "kv_cache_dtypes": kinds,
        "backends": [
            {"name": "FLASH_ATTN", "unavailable": None, "flash_attention_version": 2, "refused": refused(*kinds[2:])},
            {"name": "FLASHINFER", "unavailable": "ImportError: no flashinfer", "refused": []},
            {
                "name": "TRITON_ATTN",
                "unavailable": None,
                "refused": [*refused("nvfp4"), *refused("int8_per_token_head", sizes=(64,), reasons=["head_size"])],
            },
            {"name": "ODD", "unavailable": None, "refused": []},
        ],
        "choices": [
            {"kv_cache_dtype": kv, "head_size": size, "backends": [] if kv == "nvfp4" else ["TRITON_ATTN"]}
            for kv in kinds
            for size in (64, 128)
        ],
    } | changes


def rules(**changes):
    return parse_capabilities(json.dumps(answer(**changes)).encode(), where="x")


def test_a_combination_is_refused_with_the_engines_reason_and_what_would_work():
    found = rules()
    assert found.refusal("FLASH_ATTN", "bfloat16") is None
    assert found.refusal("FLASH_ATTN", "fp8_e4m3") == (
        "vLLM 0.31.0 on SM120 refuses FLASH_ATTN 2 with a fp8_e4m3 cache: kv_cache_dtype not supported "
        "(nearest that works: TRITON_ATTN with fp8_e4m3)"
    )
    assert found.reasons("FLASHINFER", "bfloat16") == ("ImportError: no flashinfer",)
    assert found.reasons("NONE", "bfloat16") == ("this vLLM has no backend NONE",)
    assert found.reasons("TRITON_ATTN", "fp9") == ("this vLLM has no KV cache fp9",)


def test_the_head_size_decides_where_it_is_known():
    found = rules()
    assert found.reasons("TRITON_ATTN", "int8_per_token_head") == ()
    assert found.reasons("TRITON_ATTN", "int8_per_token_head", head_size=64) == ("head_size",)
    assert found.reasons("TRITON_ATTN", "int8_per_token_head", head_size=128) == ()


def test_where_no_backend_takes_a_cache_the_nearest_cache_is_named():
    found = rules()
    assert found.nearest("TRITON_ATTN", "nvfp4") == ("TRITON_ATTN", "fp8_e4m3")
    assert found.nearest("FLASH_ATTN", "nvfp4") == ("FLASH_ATTN", "bfloat16")
    assert found.nearest("FLASHINFER", "nvfp4") is None


def test_the_image_is_believed_before_the_list(tmp_path):
    flash = {"engine__attention_backend": "FLASH_ATTN"}
    fp8 = lock(tmp_path, CUDA, **flash, engine__kv_cache_dtype="fp8_e4m3")
    assert "FlashAttention 3 on SM90" in findings(fp8)[0].message
    assert "nearest that works: TRITON_ATTN" in findings(fp8, rules=rules())[0].message
    # An image that can: the list would have been wrong.
    able = rules(backends=[{"name": "FLASH_ATTN", "unavailable": None, "flash_attention_version": 4, "refused": []}])
    assert [f for f in findings(fp8, rules=able) if f.severity == "refuse"] == []
    pinned = lock(tmp_path, CUDA, **flash, engine__kv_cache_dtype="fp8_e4m3", engine__flash_attn_version=2)
    assert findings(pinned, rules=able)[0].severity == "refuse"


def test_an_answer_is_kept_under_every_digest_of_the_image(tmp_path):
    runtime = Runtime.model_validate(
        {"kind": "docker", "image": {"repository": "a/b", "digest": DIGEST, "config_digest": "sha256:" + "c" * 64}}
    )
    assert kept(runtime, compute_capability="12.0", home=tmp_path) is None
    keep(rules(), identities(runtime)[1], home=tmp_path)
    found = kept(runtime, compute_capability="12.0", home=tmp_path)
    assert found is not None
    assert found.answer == rules().answer
    assert kept(runtime, compute_capability="9.0", home=tmp_path) is None


def test_the_answer_of_a_process_goes_by_its_vllm():
    runtime = Runtime.model_validate({"kind": "process", "packages": {"vllm": "0.31.0", "torch": "2.11.0"}})
    assert identities(runtime) == (package_identity({"vllm": "0.31.0", "torch": "2.12.0"}),)


def test_what_is_asked_and_where_the_answer_is_read():
    class Fake:
        def call(self, call, observer):
            assert call.command == "capabilities"
            request = call.request({"out": "/inside"})
            assert request["out"] == "/inside"
            assert request["compute_capability"] == "12.0"
            (call.folders["out"].host / "capabilities.json").write_text(json.dumps(answer()))

    assert ask(Fake(), compute_capability="12.0", observer=None).answer == rules().answer


@pytest.mark.parametrize(
    "changes", [{"schema_version": 2}, {"vllm": 1}, {"more": 1}, {"head_sizes": []}, {"backends": [{"name": "A"}]}]
)
def test_what_the_agent_does_not_write_is_refused(changes):
    with pytest.raises(InvalidInput):
        rules(**changes)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data):
    with pytest.raises(InvalidInput):
        parse_capabilities(data, where="x")
