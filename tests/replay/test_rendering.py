import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.replay.rendering import (
    end_token_ids,
    generation_config,
    prompt_leaves_reasoning_open,
    reasoning_is_open,
    text_of,
)
from suite.replay.served import load_prompts
from suite.workload.render import render_with
from suite.workload.tokenizer import Tokenizer, load_tokenizer
from tests.replay.sample import session
from tests.workload.conftest import LAB, make_sentencepiece, make_tokenizer

TEMPLATE = (LAB / "chatml-tools.jinja").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_tokenizer(
        tmp_path_factory.mktemp("chatml"), ["<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>"]
    )
    return load_tokenizer(folder)


@given(st.text(max_size=40), st.integers(0, 40))
def test_text_of_any_cut_is_the_rest_of_the_text(tokenizer: Tokenizer, text: str, cut: int) -> None:
    ids = tokenizer.encode(text)
    cut = min(cut, len(ids))
    head, tail = text_of(tokenizer, ids[:cut]), text_of(tokenizer, ids[cut:], after=ids[:cut])
    if "\ufffd" not in head + tail:  # a cut through a character
        assert head + tail == text_of(tokenizer, ids)


def test_the_space_before_a_word_stays(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(make_sentencepiece(tmp_path))
    ids = tokenizer.encode("show show")
    space = next(i for i in range(len(ids)) if text_of(tokenizer, ids[: i + 1]).endswith("show")) + 1
    assert text_of(tokenizer, ids[space:], after=ids[:space]) == " show"


def test_answers_end_with_the_tokens_of_checkpoint_and_template(tokenizer: Tokenizer, tmp_path: Path) -> None:
    rendered = render_with(session(), tokenizer, chat_template=TEMPLATE)
    turn_end = tokenizer.encode("<|im_end|>")[0]
    own = tokenizer.backend.eos_token_id
    assert end_token_ids(tmp_path, tokenizer, rendered) == tuple(sorted({turn_end, own}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9], "temperature": 0.6}))
    (tmp_path / "config.json").write_text("{not json")
    assert end_token_ids(tmp_path, tokenizer, rendered) == tuple(sorted({turn_end, own, 7, 9}))
    assert generation_config(tmp_path)["temperature"] == 0.6


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("assistant\n<think>\n", True), ("<think>\n\n</think>\n\n", False), ("assistant\n", False), ("<think> so", False)],
)
def test_whether_a_prompt_leaves_the_model_in_its_reasoning(prompt: str, expected: bool) -> None:
    assert reasoning_is_open(prompt) == expected


def test_the_same_of_a_prompt_as_ids(tokenizer: Tokenizer) -> None:
    for prompt, expected in (("<|im_start|>assistant\n<think>\n", True), ("<|im_start|>assistant\n", False)):
        assert prompt_leaves_reasoning_open(tokenizer, tokenizer.encode(prompt)) == expected


def test_raw_prompts_are_the_history_with_the_generation_prompt(tokenizer: Tokenizer) -> None:
    prompts = load_prompts(session(), (1, 3), tokenizer.folder, chat_template=TEMPLATE, as_text=False, format=None)
    assert prompts.format == "qwen_xml"
    for message in (1, 3):
        assert prompts.text[message].endswith("<|im_start|>assistant\n")
        assert prompts.decode(prompts.ids[message]) == prompts.text[message]
    assert prompts.text[3].startswith(prompts.text[1])
    named = load_prompts(session(), (1,), tokenizer.folder, chat_template=TEMPLATE, as_text=True, format="hermes")
    assert named.format == "hermes"


def test_a_template_without_calls_has_no_format_that_could_be_told(tokenizer: Tokenizer) -> None:
    plain = "{% for m in messages %}{{ m.role + ': ' + (m.content or '') + '\n' }}{% endfor %}"
    with pytest.raises(InvalidInput, match="cannot be told"):
        load_prompts(session(), (1, 3), tokenizer.folder, chat_template=plain, as_text=False, format=None)
