"""The real rules of the real vLLM, under a compute capability that this machine has not."""

import json

import pytest

from suite.stack.capabilities import parse_capabilities

pytestmark = pytest.mark.vllm

# The CPU build has vLLM's rules and none of the compiled kernels: what those would say of themselves is put in here, as
# they say it: FlashAttention 2 from SM80 on, 3 on SM90 alone, 4 on SM100 alone.
# A process finds its platform once, so each capability has one of its own; all begin with the same imports.
CODE = """
import json, os, sys, types
heads = json.loads(sys.argv[1])
import vllm, torch

def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    made.__getattr__ = lambda attribute: (lambda *a, **k: None) if not attribute.startswith("__") else None
    vars(made).update(members)
    sys.modules[name] = made
    return made

def answer(capability):
    from suite.agent.capabilities import evaluate
    from suite.agent.events import AgentFailure
    if capability is None:  # as it is
        try:
            return evaluate("12.0", head_sizes=[128], dtype="bfloat16")
        except AgentFailure as failure:
            return failure.message
    major = int(capability.split(".")[0])
    versions = {2: major >= 8, 3: major == 9, 4: major == 10}
    interface = {
        "is_fa_version_supported": lambda version, device=None: versions[version],
        "fa_version_unsupported_reason": lambda version, device=None: None if versions[version] else "not built for it",
    }
    module("vllm._C_stable_libtorch")
    module("vllm.vllm_flash_attn", **interface)
    module("vllm.vllm_flash_attn.flash_attn_interface", **interface)
    return evaluate(capability, head_sizes=heads, dtype="bfloat16")

found = []
for capability in ("9.0", "12.0", None):
    back, there = os.pipe()
    if (child := os.fork()) == 0:
        os.close(back)
        with os.fdopen(there, "w") as stream:
            json.dump(answer(capability), stream)
        os._exit(0)
    os.close(there)
    with os.fdopen(back) as stream:
        found.append(json.load(stream))
    os.waitpid(child, 0)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(in_stack):
    """Of SM90, of SM120, and of this build as it is."""
    return in_stack(CODE, json.dumps([64, 128, 256]))


def test_flash_attention_takes_an_fp8_cache_on_sm90_and_not_on_sm120(answers):
    old, new = (parse_capabilities(json.dumps(answer).encode(), where="test") for answer in answers[:2])
    assert (old.flash_attention_version(), new.flash_attention_version()) == (3, 2)
    assert old.reasons("FLASH_ATTN", "fp8_e4m3", head_size=128) == ()
    reasons = new.reasons("FLASH_ATTN", "fp8_e4m3", head_size=128)
    assert reasons[0] == "kv_cache_dtype not supported"
    assert "FA3 on SM90" in reasons[1]
    assert new.reasons("FLASH_ATTN", "bfloat16", head_size=128) == ()
    assert new.nearest("FLASH_ATTN", "fp8_e4m3", head_size=128) == ("TRITON_ATTN", "fp8_e4m3")
    assert "vLLM 0.32.0 on SM120 refuses FLASH_ATTN 2 with a fp8_e4m3 cache" in str(
        new.refusal("FLASH_ATTN", "fp8_e4m3", head_size=128)
    )
    for kv in ("int8_per_token_head", "int4_per_token_head"):
        assert new.reasons("TRITON_ATTN", kv, head_size=128) == ()
        assert new.reasons("FLASH_ATTN", kv, head_size=128)
    # What is not installed there is told by the error that its import gives.
    assert "flashinfer" in new.reasons("FLASHINFER", "fp8_e4m3")[0]


def test_a_build_without_cuda_says_so(answers):
    assert "not built for CUDA" in answers[2]
