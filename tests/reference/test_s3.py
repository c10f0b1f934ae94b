"""A pack, its statement and the checkpoint of its head in a bucket: the real client, and a server on loopback."""

import pytest
from s3fs import S3FileSystem

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.reference.pack import write_pack
from suite.reference.pull import pull, verify
from suite.reference.signature import sign_pack
from suite.signing import new_key
from tests.reference.checkpoint import capture_of, checkpoint, lock_of
from tests.reference.world import packed, stored_state

SHARD = "model-00002-of-00002.safetensors"


def test_a_signed_pack_comes_out_of_a_bucket(tmp_path, home, pack, bucket):
    key = new_key(tmp_path / "k")
    statement = sign_pack(str(pack), key)
    for path in (pack, statement):
        bucket.upload_file(str(path), "packs", f"references/{path.name}")
    source = f"s3://packs/references/{pack.name}"
    assert verify(source, home=home, signers=[key.key_id]).record.num_rows == 29
    done = pull(source, home=home, signers=[key.key_id])
    assert done.new
    assert done.signed.key_ids == (key.key_id,)


def test_an_unsigned_pack_of_a_bucket_is_told_from_a_signed_one(home, pack, bucket):
    bucket.upload_file(str(pack), "packs", "p.tar")
    with pytest.raises(VerificationFailed, match="signed by nobody"):
        pull("s3://packs/p.tar", home=home, signers=["ed25519:" + "0" * 64])
    assert pull("s3://packs/p.tar", home=home).signed is None


def test_the_head_comes_from_the_checkpoint_in_a_bucket(tmp_path, home, bucket):
    model = checkpoint(tmp_path / "model")
    maker = tmp_path / "maker"
    stored = capture_of(maker, lock_of(tmp_path, model))
    heads = maker / "captures" / "heads"
    write_pack(stored, heads=heads, out=tmp_path / "p.tar", checkpoint=model)
    bucket.upload_file(str(tmp_path / "p.tar"), "packs", "p.tar")
    bucket.upload_file(str(model / SHARD), "packs", f"models/m/{SHARD}")
    pull("s3://packs/p.tar", home=home, checkpoint="s3://packs/models/m")
    assert {p.name: p.read_bytes() for p in (home / "captures" / "heads").iterdir()} == {
        p.name: p.read_bytes() for p in heads.iterdir()
    }


@pytest.mark.parametrize("address", ["s3://packs/none.tar", "s3://nowhere/p.tar"])
def test_what_is_not_there_is_named(home, bucket, address):
    with pytest.raises(MissingPrerequisite, match=f"{address}: no such file"):
        pull(address, home=home)


def test_a_bucket_that_does_not_answer_is_a_missing_prerequisite(home, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    with pytest.raises(MissingPrerequisite, match="broke off"):
        pull("s3://packs/p.tar", home=home)


def test_without_credentials_it_says_so(home, bucket, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    S3FileSystem.clear_instance_cache()
    with pytest.raises(MissingPrerequisite, match=r"credentials|no such file"):
        pull("s3://packs/p.tar", home=home)


def test_a_transfer_that_breaks_off_goes_on(home, tmp_path, bucket, monkeypatch):
    """The client's own retries are spent; what arrived stays, and is not asked for again."""
    from s3fs.core import S3File

    out = packed(tmp_path, "large.tar")
    bucket.upload_file(str(out), "packs", "p.tar")
    original = S3File._fetch_range
    asked = []

    def fetch(self, start, end):
        asked.append(start)
        if start >= 6_000:
            raise TimeoutError("the line is dead")
        return original(self, start, min(end, start + 1_000))

    monkeypatch.setattr(S3File, "_fetch_range", fetch)
    with pytest.raises(MissingPrerequisite, match=r"broke off(.|\n)*run again: it resumes"):
        pull("s3://packs/p.tar", home=home)
    assert not list((home / "captures").glob("*/pack-*"))
    kept = [path for path in stored_state(home) if path.startswith("incoming/")]
    assert any(path.endswith("lock.json") for path in kept)
    monkeypatch.setattr(S3File, "_fetch_range", original)
    assert pull("s3://packs/p.tar", home=home).new
