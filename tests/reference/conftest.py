import pytest

from tests.reference.world import packed


@pytest.fixture
def pack(tmp_path):
    return packed(tmp_path)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def bucket(monkeypatch):
    """The client of a bucket called `packs`, on a server of its own."""
    import boto3
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="packs")
    yield client
    client.close()
    S3FileSystem.clear_instance_cache()
    server.stop()
