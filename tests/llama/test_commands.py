import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.llama.commands import parse_commands


def test_options_are_read_under_their_long_names():
    (command,) = parse_commands(
        "./build/bin/llama-perplexity -m a.gguf -ctk q8_0 -fa on -ngl 99 --chunks=4 --kl-divergence"
    )
    assert command.options == {
        "--model": "a.gguf",
        "--cache-type-k": "q8_0",
        "--flash-attn": "on",
        "--gpu-layers": "99",
        "--chunks": "4",
        "--kl-divergence": "",
    }


def test_continued_lines_are_one_command_and_comments_are_none():
    text = "# base\n$ CUDA_VISIBLE_DEVICES=0 llama-perplexity \\\n  -m a.gguf \\\n  -c 512\necho done\n"
    text += "perplexity.exe -m b.gguf\n"
    first, second = parse_commands(text)
    assert first.options == {"--model": "a.gguf", "--ctx-size": "512"}
    assert first.lost == ()
    assert second.model == "b.gguf"


@pytest.mark.parametrize("end", ["\\", "^", "`"])
def test_each_shell_has_its_own_continuation(end):
    (command,) = parse_commands(f"llama-perplexity -m a.gguf {end}\r\n  -ngl 99\r\n")
    assert command.options == {"--model": "a.gguf", "--gpu-layers": "99"}
    assert command.lost == ()


@pytest.mark.parametrize("end", ["", "\\ ", " # note"])
def test_a_line_that_the_shell_would_not_join_is_lost(end):
    (command,) = parse_commands(f"llama-perplexity -m a.gguf {end}\n  -ngl 99 \\\n  -c 512\n")
    assert command.model == "a.gguf"
    assert not command.has("--gpu-layers")
    assert command.lost[0].startswith("-ngl 99")


def test_two_commands_of_one_line_are_two():
    first, second = parse_commands("llama-perplexity -m a.gguf && llama-perplexity -m 'b c.gguf' | tee log")
    assert (first.model, second.model) == ("a.gguf", "b c.gguf")


@pytest.mark.parametrize("text", ["", "ls -l", "llama-server -m a.gguf"])
def test_text_without_such_a_command_is_refused(text):
    with pytest.raises(InvalidInput, match="no llama-perplexity command"):
        parse_commands(text)


def test_an_open_quote_is_refused():
    with pytest.raises(InvalidInput, match="not shell text"):
        parse_commands("llama-perplexity -m 'a.gguf")


@given(st.text(max_size=300))
def test_any_text_gives_commands_or_a_clean_error(text):
    try:
        commands = parse_commands(f"llama-perplexity {text}")
    except InvalidInput:
        return
    assert commands
