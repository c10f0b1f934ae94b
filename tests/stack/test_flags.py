import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.manifest.check import check
from suite.runtime.process import ProcessRuntime
from suite.stack.flags import flag_problems, help_of, known_flags
from suite.stack.launch import launch
from tests.manifest.samples import ROOT

FILLER = "".join(f"  --flag-{n} VALUE\n                        What it does: see --no-such.\n" for n in range(60))
HELP = f"""usage: vllm serve [model_tag] [options]

options:
  -h, --help            show this help message and exit
  --enforce-eager, --no-enforce-eager
                        Whether to use eager mode. (default: False)
  --seed SEED           Random seed.
  --kv-cache-dtype {{auto,bfloat16,fp8}}
                        Data type.
  --tool-call-parser {{hermes,mistral}} or name registered in --tool-parser-plugin
                        Select it.
  --many {{a,b}} [{{a,b}} ...]
  --attention-config ATTENTION_CONFIG, -ac ATTENTION_CONFIG
{FILLER}"""


def test_flags_and_their_values_are_read_from_the_help():
    flags = known_flags(HELP)
    assert flags["--kv-cache-dtype"] == ("auto", "bfloat16", "fp8")
    assert flags["--many"] == ("a", "b")
    assert flags["--tool-call-parser"] == flags["--seed"] == flags["-ac"] == flags["--no-enforce-eager"] == ()
    assert "--no-such" not in flags


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["vllm", "serve", "m", "--enforce-eager", "--seed", "-1", "--kv-cache-dtype", "fp8"], None),
        (["docker", "run", "--rm", "--gpus", "all", "image", "serve", "m", "--seed=1"], None),
        (["serve", "m", "--kv_cache_dtype=fp8", "-ac.backend", "FLASH_ATTN", "--tool-call-parser", "mine"], None),
        (["serve", "m", "--kv-cache-dtyp", "fp8"], "this vLLM has no --kv-cache-dtyp (nearest: --kv-cache-dtype)"),
        (["serve", "m", "--kv-cache-dtype", "int4"], "--kv-cache-dtype takes one of auto, bfloat16, fp8, not int4"),
        (["serve", "m", "--kv-cache-dtype"], "--kv-cache-dtype takes one of auto, bfloat16, fp8, not nothing"),
    ],
)
def test_what_the_stack_does_not_know_is_named(arguments, problem):
    assert flag_problems(arguments, known_flags(HELP)) == ([] if problem is None else [problem])


def test_half_a_help_text_is_no_help_text():
    with pytest.raises(InvalidInput, match="only 2 flags"):
        known_flags("usage\n  -h, --help  show\n")


@given(st.text())
def test_any_text_is_flags_or_an_error(text):
    with contextlib.suppress(InvalidInput):
        known_flags(text)


@pytest.mark.vllm
def test_every_shipped_manifest_is_launched_with_flags_that_the_real_vllm_knows(vllm_python, tmp_path):
    flags = known_flags(help_of(ProcessRuntime(vllm_python, home=tmp_path)))
    checked = 0
    for result in check([ROOT / "manifests"]):
        image = result.manifest and result.manifest.runtime.image
        if result.manifest is None or (image is not None and image.digest is None):
            continue  # a part, or a stack that has no launch command before its image is known
        assert flag_problems(launch(result.manifest, model_folder="/m").serve, flags) == [], result.manifest.name
        checked += 1
    assert checked > 20
    assert flag_problems(["serve", "m", "--no-such-flag"], flags)
    assert flag_problems(["serve", "m", "--kv-cache-dtype", "fp9"], flags)
