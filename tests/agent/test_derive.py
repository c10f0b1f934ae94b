import pytest

from suite.agent.derive import PROBE, VOLATILE_KEYS, require_same_tokens, rewrite_json, stable_config


class Tokenizer:
    """Cuts text into pieces of `size` characters."""

    def __init__(self, size, *, lost=""):
        self.size, self.lost = size, lost

    def encode(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return [text[i : i + self.size] for i in range(0, len(text), self.size)]

    def decode(self, ids, *, clean_up_tokenization_spaces):
        assert not clean_up_tokenization_spaces
        return "".join(ids).replace(self.lost, "") if self.lost else "".join(ids)


def test_a_saved_tokenizer_that_cuts_otherwise_is_an_error():
    require_same_tokens(Tokenizer(3), Tokenizer(3), library="transformers 5")
    count = -(-len(PROBE) // 3)
    with pytest.raises(ValueError, match=f"transformers 5 .*of {count} tokens has {len(PROBE)} afterwards.*another"):
        require_same_tokens(Tokenizer(3), Tokenizer(1), library="transformers 5")


def test_a_saved_tokenizer_that_loses_text_is_an_error():
    with pytest.raises(ValueError, match="does not save the tokenizer"):
        require_same_tokens(Tokenizer(3), Tokenizer(3, lost="é"), library="transformers 5")


def test_what_names_library_or_machine_is_taken_out():
    config = dict.fromkeys(VOLATILE_KEYS, "x") | {"vocab_size": 10, "tokenizer_class": "TokenizersBackend"}
    assert stable_config(config) == {"vocab_size": 10, "tokenizer_class": "PreTrainedTokenizerFast"}


def test_a_stable_config_is_left_alone():
    config = {"hidden_size": 4, "tokenizer_class": "GPT2Tokenizer"}
    assert stable_config(config) == config


def test_the_order_of_keys_does_not_reach_the_file(tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text('{"b": 1, "a": "é", "transformers_version": "1"}')
    two.write_text('{"a": "é", "transformers_version": "2", "b": 1}')
    rewrite_json(one)
    rewrite_json(two)
    assert one.read_bytes() == two.read_bytes() == '{\n  "a": "é",\n  "b": 1\n}\n'.encode()
