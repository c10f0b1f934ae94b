"""Digests from a registry on loopback that serves a few documents, wrong ones among them."""

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.image.facts import parse_facts
from suite.image.reference import ImageReference, parse_reference
from suite.image.registry import NotInRegistry
from suite.image.resolve import resolve_image, this_platform
from tests.image.stub import MANIFEST, digest_of, serving


@pytest.fixture
def stub():
    with serving() as served:
        yield served


def resolve(stub, *, tag=None, digest=None, platform="linux/amd64"):
    return resolve_image(ImageReference(repository=stub.repository, tag=tag, digest=digest), platform=platform)


def test_index_platform_and_configuration_are_kept_apart(stub):
    amd = stub.add_image(labels={"ai.vllm.build.commit": "abc"})
    arm = stub.add_image(architecture="arm64", layers=(b"other",))
    index = stub.add_index("v1", amd64=amd, arm64=arm)
    facts = resolve(stub, tag="v1")
    assert (facts.index_digest, facts.platform_digest) == (index, amd)
    assert facts.config_digest not in (index, amd)
    assert facts.labels == {"ai.vllm.build.commit": "abc"}
    assert [layer.size_bytes for layer in facts.layers] == [3, 3]
    assert facts.diff_ids == (digest_of(b"one"), digest_of(b"two"))
    assert facts.size_bytes == 6
    assert resolve(stub, digest=index, platform="linux/arm64").platform_digest == arm
    assert resolve(stub, digest=amd).index_digest is None
    assert parse_facts(facts.to_bytes(), where="facts") == facts


def test_a_tag_that_moved_has_another_digest(stub):
    first = stub.add_image("v1")
    assert resolve(stub, tag="v1").platform_digest == first
    second = stub.add_image("v1", layers=(b"new",))
    assert resolve(stub, tag="v1").platform_digest == second != first
    assert resolve(stub, digest=first).platform_digest == first


def test_platforms_that_are_absent_are_named(stub):
    index = stub.add_index(amd64=stub.add_image())
    with pytest.raises(InvalidInput, match=r"no image for linux/s390x; there are images for linux/amd64$"):
        resolve(stub, digest=index, platform="linux/s390x")
    arm = stub.add_image(architecture="arm64")
    with pytest.raises(InvalidInput, match="is for linux/arm64, not for linux/amd64"):
        resolve(stub, digest=arm)


@pytest.mark.parametrize("what", ["manifest", "config"])
def test_a_registry_that_sends_something_else_is_found_out(stub, what):
    digest = stub.add_image()
    for key, (media_type, data) in list(stub.documents.items()):
        if key.startswith("manifests/" if what == "manifest" else "blobs/"):
            stub.documents[key] = (media_type, data + b" ")
    with pytest.raises(VerificationFailed, match="something else than this digest names"):
        resolve(stub, digest=digest)


def test_what_is_not_there_or_no_image_is_said(stub):
    with pytest.raises(NotInRegistry, match="does not have it"):
        resolve(stub, digest=digest_of(b"absent"))
    stub.add("manifests", "text/html", b"<html>", "page")
    with pytest.raises(InvalidInput, match="'text/html', not an image"):
        resolve(stub, tag="page")
    stub.add("manifests", MANIFEST, b"[]", "list")
    with pytest.raises(InvalidInput, match="not a JSON object"):
        resolve(stub, tag="list")
    stub.add("manifests", MANIFEST, {"layers": []}, "bare")
    with pytest.raises(InvalidInput, match="has no digest"):
        resolve(stub, tag="bare")


def test_a_registry_that_cannot_be_reached_or_refuses(stub):
    with pytest.raises(MissingPrerequisite, match=r"cannot be reached: .*refused"):
        resolve_image(parse_reference("127.0.0.1:1/some/image:v1"), platform="linux/amd64")
    stub.challenge = 'Bearer realm="ftp://elsewhere/token"'
    with pytest.raises(MissingPrerequisite, match="answers 401") as caught:
        resolve(stub, tag="v1")
    assert "docker login" in caught.value.hint


def test_a_token_is_fetched_where_the_registry_asks_for_one(stub):
    stub.add_image("v1")
    stub.challenge = f'Bearer realm="http://127.0.0.1:{stub.port}/token",service="here",scope="repository:a:pull"'
    assert resolve(stub, tag="v1").platform == "linux/amd64"
    assert "/token?service=here&scope=repository%3Aa%3Apull" in stub.asked


def test_this_machine_has_a_platform():
    assert this_platform().startswith("linux/")
