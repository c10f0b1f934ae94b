import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.adopt.container import of_container
from suite.errors import InvalidInput

CONFIG = "sha256:" + "c" * 64
DIGEST = "sha256:" + "d" * 64
CONTAINER = {
    "Image": CONFIG,
    "Config": {
        "Image": "vllm/vllm-openai:v0.31.0",
        "Entrypoint": ["vllm", "serve"],
        "Cmd": ["/models/m", "--seed", "1"],
        "Env": ["PATH=/usr/bin", "VLLM_USAGE_SOURCE=production-docker-image", "VLLM_A=1"],
    },
    "Mounts": [
        {"Type": "bind", "Source": "/data/m", "Destination": "/models/m"},
        {"Type": "volume", "Source": "/var/lib/docker/x", "Destination": "/cache"},
    ],
}
IMAGE = {
    "RepoDigests": [f"other/name@{CONFIG}", f"docker.io/vllm/vllm-openai@{DIGEST}"],
    "Config": {"Env": ["PATH=/usr/bin", "VLLM_USAGE_SOURCE=production-docker-image"]},
}


def test_a_running_container_tells_its_digest_and_its_own_variables():
    found = of_container(CONTAINER, IMAGE)
    assert found.arguments == ("/models/m", "--seed", "1")
    assert dict(found.environment) == {"VLLM_A": "1"}
    assert dict(found.mounts) == {"/models/m": "/data/m"}
    assert dict(found.image_digests) == {"digest": DIGEST, "config_digest": CONFIG}


def test_without_the_image_only_the_configuration_is_known():
    assert dict(of_container(CONTAINER).image_digests) == {"config_digest": CONFIG}


NO_SERVERS = (
    {},
    {"Config": None},
    {"Config": {"Image": 1}},
    {"Config": {"Image": "redis", "Entrypoint": ["redis-server"]}},
)


@pytest.mark.parametrize("value", NO_SERVERS)
def test_what_is_no_server_is_refused(value):
    with pytest.raises(InvalidInput):
        of_container(value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda i: st.lists(i) | st.dictionaries(st.text(), i),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["Cmd", "Entrypoint", "Env", "Image"]), anything), anything, anything)
def test_any_object_is_read_or_refused(config, mounts, host):
    try:
        of_container(
            {"Config": config | {"Image": "i"}, "Mounts": mounts, "HostConfig": host if isinstance(host, dict) else {}}
        )
    except InvalidInput:
        return
