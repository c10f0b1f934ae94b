import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.adopt.flags import parse_flags, whole_number
from suite.errors import InvalidInput


def test_every_spelling_of_a_flag():
    found = parse_flags(
        ["-tp", "2", "--max_model_len=32k", "--enforce-eager", "m", "--no-enable-prefix-caching", "-cc.mode", "3",
         "-cc.pass_config.fuse", "true", "--attention-config", '{"backend":"FLASH_ATTN"}',
         "--allowed-origins", "a", "b", "--seed", "-1"]
    )  # fmt: skip
    assert found.model == "m"
    assert found.values == {
        "tensor_parallel_size": "2",
        "max_model_len": "32k",
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "compilation_config": {"mode": 3, "pass_config": {"fuse": True}},
        "attention_config": {"backend": "FLASH_ATTN"},
        "allowed_origins": ("a", "b"),
        "seed": "-1",
    }


def test_the_model_may_be_a_flag():
    assert parse_flags(["--model", "a/b", "--seed", "1"]).model == "a/b"
    assert parse_flags(["--model=a/b"]).model == "a/b"
    assert parse_flags(["--seed", "1"]).model is None


@pytest.mark.parametrize(
    ("text", "number"), [("8192", 8192), ("32k", 32_000), ("32K", 32_768), ("1.5k", 1500), ("x", None), ("auto", None)]
)
def test_counts_are_read_as_vllm_reads_them(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["{", "[1]", "FULL", "[" * 100_000])
def test_json_that_is_none_is_refused(text):
    with pytest.raises(InvalidInput, match="JSON"):
        parse_flags(["m", "--speculative-config", text])


def test_a_value_that_is_nested_too_deeply_stays_text():
    deep = "[" * 100_000
    assert parse_flags(["m", "--compilation-config.mode", deep]).values == {"compilation_config": {"mode": deep}}


@given(st.lists(st.text() | st.sampled_from(["--a", "--a.b", "-cc.x.y", "-cc", "--no-a", "--a.b.c=1", "{}"])))
def test_any_words_are_read_or_refused(words):
    with contextlib.suppress(InvalidInput):
        parse_flags(words)
