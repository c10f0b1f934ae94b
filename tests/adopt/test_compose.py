import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.adopt.compose import of_compose
from suite.errors import InvalidInput

TEXT = """\
x-common: &common
  restart: unless-stopped
services:
  vllm:
    <<: *common
    image: vllm/vllm-openai:${TAG:-v0.31.0}
    command: >
      --model owner/name
      --max-model-len ${LENGTH}
    environment:
      HF_TOKEN: ${HF_TOKEN:-}
      VLLM_A: true
      B:
    volumes:
      - ./models:/models:ro
      - cache:/cache
      - {type: bind, source: /x, target: /y}
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, device_ids: ["0"], capabilities: [gpu]}]
  webui:
    image: open-webui
"""


def read(text=TEXT, service=None, **environment):
    return of_compose(text.encode(), service=service, environment=environment, where="compose.yaml")


def test_a_service_is_read_as_compose_reads_it():
    found = read(LENGTH="32k")
    assert found.image == "vllm/vllm-openai:v0.31.0"
    assert found.arguments == ("--model", "owner/name", "--max-model-len", "32k")
    assert dict(found.environment) == {"HF_TOKEN": "", "VLLM_A": "true"}
    assert found.passed_on == ("B",)
    assert dict(found.mounts) == {"/models": "./models", "/y": "/x"}
    assert read(LENGTH="1", TAG="v9").image == "vllm/vllm-openai:v9"


def test_a_list_an_entrypoint_and_an_escaped_dollar():
    text = """
services:
  a:
    image: x/vllm
    entrypoint: [bash, -c]
    command: ["vllm serve m --seed 1 --name $$HOME"]
    environment: [A=1, C]
"""
    found = read(text, C="2")
    assert found.arguments == ("m", "--seed", "1", "--name", "$HOME")
    assert dict(found.environment) == {"A": "1", "C": "2"}


@pytest.mark.parametrize(
    ("text", "service", "message"),
    [
        (TEXT, "vllm", "LENGTH has no value"),
        (TEXT, "none", "no service 'none'"),
        ("services: {a: {image: vllm}, b: {image: vllm}}", None, "2 services look like vLLM"),
        ("services: {a: {build: vllm}}", None, "names no image"),
        ("services: []", None, "not a compose file"),
        ("a: [", None, "not YAML"),
        ("a: !!python/object/apply:os.system [x]", None, "not YAML"),
    ],
)
def test_what_cannot_be_read_is_told(text, service, message):
    with pytest.raises(InvalidInput, match=message):
        read(text, service)


@given(st.text() | st.text().map(lambda text: f"services: {{vllm: {{image: vllm, command: {text!r}}}}}"))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidInput):
        read(text)
