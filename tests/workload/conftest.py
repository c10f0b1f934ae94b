"""Small real tokenizers, made here, so that rendering is tested without downloading a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAB = ROOT / "workloads" / "netops-lab"

CORPUS = [
    "show interfaces GigabitEthernet0/0/1.201 description servers quay",
    "The database listens on port 5432; the API on 8080. Check the access VLAN of the switch port first.",
    "<tool_call>\n<function=device_show>\n<parameter=command>\nshow ip route\n</parameter>\n</function>\n</tool_call>",
    '{"name": "run", "parameters": {"type": "object", "properties": {}}}\n\n\n',
    "user assistant system tool model",
] * 3

CHATML = """\
{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


def make_tokenizer(folder: Path, specials: list[str], *, normalizer: str = "", added: tuple[str, ...] = ()) -> Path:
    """Train a byte-level tokenizer of about 700 tokens and save it as a model folder's."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer == "NFC":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(list(added))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=specials[0], eos_token=specials[1], clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHATML
    fast.save_pretrained(folder)
    return folder


def make_sentencepiece(folder: Path) -> Path:
    """A SentencePiece-like tokenizer: spaces as a mark, unknown characters as bytes."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    letters = [chr(code) for code in range(0x21, 0x7F)] + ["▁", "\n"]
    vocabulary = {"<bos>": 0, "<end_of_turn>": 1, "<start_of_turn>": 2, "<unk>": 3}
    for piece in [f"<0x{value:02X}>" for value in range(256)] + letters:
        vocabulary.setdefault(piece, len(vocabulary))
    merges = []
    for left, right in (("▁", "s"), ("s", "h"), ("o", "w"), ("\n", "\n")):
        merges.append((left, right))
        vocabulary.setdefault(left + right, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(Regex(" "), "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<bos>", "<end_of_turn>", "<start_of_turn>"])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<end_of_turn>", clean_up_tokenization_spaces=False
    )
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def chatml_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tokenizer(tmp_path_factory.mktemp("chatml"), ["<|im_start|>", "<|im_end|>", "<|endoftext|>"])


@pytest.fixture(scope="session")
def think_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ChatML where the markup of thinking and calls are tokens of their own, as in Qwen."""
    return make_tokenizer(
        tmp_path_factory.mktemp("think"),
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>"],
        added=("<think>", "</think>", "<tool_call>", "</tool_call>"),
    )


@pytest.fixture(scope="session")
def nfc_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tokenizer(tmp_path_factory.mktemp("nfc"), ["<|im_start|>", "<|im_end|>"], normalizer="NFC")


@pytest.fixture(scope="session")
def gemma_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sentencepiece(tmp_path_factory.mktemp("gemma"))


@pytest.fixture(scope="session")
def chatml_tools() -> str:
    return (LAB / "chatml-tools.jinja").read_text()


@pytest.fixture(scope="session")
def gemma_tools() -> str:
    return (LAB / "gemma-tools.jinja").read_text()


def call(number: int, tool: str, **arguments: object) -> dict[str, object]:
    """One tool call as the OpenAI API has it."""
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call{number:05d}", "type": "function", "function": function}


def example() -> dict[str, object]:
    """A small valid session with everything in it."""
    return {
        "schema_version": 1,
        "name": "example",
        "licence": "Apache-2.0",
        "provenance": {"kind": "synthetic", "generator": "test", "note": "for tests"},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "run",
                    "description": "Run a command",
                    "parameters": {"type": "object", "properties": {"cmd": {"type": "string", "default": None}}},
                },
            }
        ],
        "sampling": {"temperature": 0.0, "top_p": 0.95},
        "messages": [
            {"role": "system", "content": "You are a network agent."},
            {"role": "user", "content": "Check port 5432 and GigabitEthernet0/0/1.201"},
            {
                "role": "assistant",
                "content": "Two checks.",
                "reasoning_content": "Look at both.",
                "tool_calls": [
                    call(1, "run", cmd="ss -ltn"),
                    call(2, "run", cmd="show int GigabitEthernet0/0/1.201", n=3),
                ],
            },
            {"role": "tool", "tool_call_id": "call00001", "content": "LISTEN *:5432"},
            {"role": "tool", "tool_call_id": "call00002", "content": ""},
            {"role": "assistant", "reasoning_content": "Once more.", "tool_calls": [call(3, "run", cmd="uptime")]},
            {"role": "tool", "tool_call_id": "call00003", "content": "up 3 days"},
            {"role": "assistant", "content": "Port 5432 is open, GigabitEthernet0/0/1.201 is up."},
            {"role": "user", "content": "Thanks."},
            {"role": "assistant", "content": "Welcome."},
        ],
        "marks": [
            {
                "message": 2,
                "must_survive": ["GigabitEthernet0/0/1.201"],
                "right_commands": [{"name": "run", "arguments": {"cmd": "ss -ltn"}}],
            },
            {"message": 7, "must_survive": ["5432", "GigabitEthernet0/0/1.201"]},
        ],
    }  # fmt: skip
