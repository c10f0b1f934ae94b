"""What replay needs of tokenizer and template: text of ids, tokens that end a turn, prompts inside the reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.untyped import json_object
from suite.workload.rendered import Rendered
from suite.workload.tokenizer import Tokenizer

_BEFORE = 4
_PROMPT_END = 16
_OPEN, _CLOSE = "<think>", "</think>"


def text_of(tokenizer: Tokenizer, token_ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
    """Text of ids with special tokens kept; what is not UTF-8 becomes U+FFFD.

    Args:
        tokenizer: Any.
        token_ids: To be spelled.
        after: The ids before them. Some tokenizers write the first of all tokens without its space.
    """

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.backend.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    before = list(after[-_BEFORE:])
    return decode([*before, *token_ids])[len(decode(before)) :]


def end_token_ids(model_folder: Path, tokenizer: Tokenizer, rendered: Rendered) -> tuple[int, ...]:
    """Tokens that end an answer: those of the checkpoint, and the one that ends the assistant's turns in the template.

    Args:
        model_folder: Its `generation_config.json` and `config.json` name the end tokens.
        tokenizer: Of the same folder.
        rendered: The session, whose outputs end with the end-of-turn token.

    Raises:
        InvalidInput: no end token is known, so that no answer would ever end.
    """
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = json_object(model_folder / name).get("eos_token_id")
        found |= {item for item in (value if isinstance(value, list) else [value]) if type(item) is int}
    own = tokenizer.backend.eos_token_id
    if type(own) is int:
        found.add(own)
    for span in rendered.spans:
        last = rendered.token_ids[span.end - 1] if span.kind == "assistant_output" else None
        if last is not None and last in tokenizer.added and tokenizer.added[last].special:
            found.add(last)
    if not found:
        raise InvalidInput("the checkpoint names no token that ends an answer", where=str(model_folder))
    return tuple(sorted(found))


def generation_config(model_folder: Path) -> dict[str, Any]:
    """The model's `generation_config.json`; empty where there is none."""
    return json_object(model_folder / "generation_config.json")


def reasoning_is_open(prompt_end: str) -> bool:
    """Whether the end of a prompt leaves the model inside its reasoning."""
    opened = prompt_end.rfind(_OPEN)
    return opened >= 0 and opened > prompt_end.rfind(_CLOSE) and not prompt_end[opened + len(_OPEN) :].strip()


def prompt_leaves_reasoning_open(tokenizer: Tokenizer, token_ids: Sequence[int]) -> bool:
    """The same of a prompt's ids."""
    return reasoning_is_open(text_of(tokenizer, token_ids[-_PROMPT_END:]))
