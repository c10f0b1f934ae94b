import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.image.reference import ImageReference, parse_reference, pinned_reference

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("text", "repository", "tag", "digest", "registry", "path"),
    [
        ("debian", "debian", None, None, "docker.io", "library/debian"),
        ("vllm/vllm-openai:v0.31.0", "vllm/vllm-openai", "v0.31.0", None, "docker.io", "vllm/vllm-openai"),
        (f"vllm/vllm-openai@{DIGEST}", "vllm/vllm-openai", None, DIGEST, "docker.io", "vllm/vllm-openai"),
        ("docker.io/debian", "docker.io/debian", None, None, "docker.io", "library/debian"),
        ("127.0.0.1:5000/a/b:c", "127.0.0.1:5000/a/b", "c", None, "127.0.0.1:5000", "a/b"),
        ("host.example/a", "host.example/a", None, None, "host.example", "a"),
        ("localhost/a", "localhost/a", None, None, "localhost", "a"),
        ("name:tag", "name", "tag", None, "docker.io", "library/name"),
    ],
)
def test_names_are_taken_apart(text, repository, tag, digest, registry, path):
    reference = parse_reference(text)
    assert reference == ImageReference(repository=repository, tag=tag, digest=digest)
    assert (reference.registry, reference.path) == (registry, path)
    assert str(reference) == text


@pytest.mark.parametrize(
    "text",
    ["", "UPPER", "a b", "a@sha256:12", "a:", ":a", "a//b", "-a", "a@" + DIGEST[:-1] + "G", "a;b", "$(a)", "../a"],
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(InvalidInput, match="not the name of an image"):
        parse_reference(text)


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_refused(text):
    try:
        reference = parse_reference(text)
    except InvalidInput:
        return
    assert str(reference) == text


def test_a_tag_is_no_identity():
    with pytest.raises(InvalidInput, match="a tag is refused") as caught:
        pinned_reference("vllm/vllm-openai:latest")
    assert "suite image resolve vllm/vllm-openai:latest" in caught.value.hint
    assert pinned_reference(f"a@{DIGEST}").digest == DIGEST


def test_plain_http_is_spoken_to_this_machine_only():
    assert parse_reference("127.0.0.1:5000/a").is_loopback
    assert parse_reference("localhost:5000/a").is_loopback
    assert not parse_reference("10.0.0.1:5000/a").is_loopback
    assert not parse_reference("debian").is_loopback
