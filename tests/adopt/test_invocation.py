import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.adopt.invocation import parse_command
from suite.errors import InvalidInput

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --seed 1",
        "/opt/venv/bin/vllm serve m --seed 1",
        "vllm serve m \\\n  --seed 1  # a comment\n",
        "FOO=1 vllm serve m --seed 1 > log 2>&1 &",
        "cd /srv && env FOO=1 vllm serve m --seed 1 | tee log",
        "sudo bash -lc 'exec vllm serve m --seed 1'",
        "python3 -m vllm.entrypoints.openai.api_server m --seed 1",
        "docker run -d --rm -it --gpus all img m --seed 1",
        "docker run --entrypoint vllm img serve m --seed 1",
        "docker run --entrypoint=vllm img serve m --seed 1",
        "podman run --device nvidia.com/gpu=all img vllm serve m --seed 1",
        "docker container run -p8000:8000 --name x img bash -c 'vllm serve m --seed 1'",
        "docker run --entrypoint python3 img -m vllm.entrypoints.openai.api_server m --seed 1",
        "sudo docker run --shm-size 16g --ulimit memlock=-1 img m --seed 1",
    ],
)
def test_the_arguments_of_the_server_are_found(text):
    assert parse_command(text).arguments == ("m", "--seed", "1")


def test_a_container_is_read_with_its_variables_and_mounts():
    found = parse_command(
        "docker run -eA=1 -e B=2 --env C -v /data/m:/model:ro --mount type=bind,source=/x,target=/y,readonly "
        f"-v cache:/cache --gpus '\"device=0,1\"' repo/img@{DIGEST} /model"
    )
    assert found.image == f"repo/img@{DIGEST}"
    assert dict(found.environment) == {"A": "1", "B": "2"}
    assert found.passed_on == ("C",)
    assert dict(found.mounts) == {"/model": "/data/m", "/y": "/x"}
    assert found.arguments == ("/model",)


def test_variables_before_the_command_are_those_that_are_passed_on():
    assert dict(parse_command("A=1 docker run -e A img m").environment) == {"A": "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a vLLM server"),
        ("ollama serve", "not a vLLM server"),
        ("docker run --rm", "names no image"),
        ("docker ps", "not a vLLM server"),
        ("vllm serve 'm", "close the quote"),
        ('docker run --entrypoint "it\'s" img m', "close the quote"),
        ("vllm chat", "not a vLLM server"),
    ],
)
def test_what_is_no_server_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_command(text)


@given(
    st.text()
    | st.lists(st.sampled_from(["docker", "run", "-e", "--gpus", "vllm", "serve", "m", "-v", "'", "\\", "="])).map(
        " ".join
    )
)
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidInput):
        parse_command(text)
