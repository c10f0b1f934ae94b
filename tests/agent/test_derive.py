from suite.agent.derive import VOLATILE_KEYS, rewrite_json, stable_config


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
