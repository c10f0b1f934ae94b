"""Statements beside packs: checked wherever the pack is read, required where a user says so."""

import json
import shutil

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_bytes
from suite.manifest.load import load_manifest
from suite.reference.pack import write_pack
from suite.reference.pull import peek, pull, verify
from suite.reference.signature import (
    KEPT_SIGNATURE_NAME,
    kept_signature,
    required_signers,
    sign_pack,
    signature_of,
)
from suite.reference.store import find_reference
from suite.run.reference import Packs
from suite.signing import new_key, sign_subjects
from tests.reference.checkpoint import capture_of, checkpoint, lock_of
from tests.reference.server import serve
from tests.reference.world import folder_of, packed, stored_state


@pytest.fixture
def key(tmp_path):
    return new_key(tmp_path / "keys" / "mine")


@pytest.fixture
def other(tmp_path):
    return new_key(tmp_path / "keys" / "other")


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("a/reference.tar", "a/reference.tar.dsse.json"),
        ("folder/", "folder.dsse.json"),
        ("https://h/p.tar", "https://h/p.tar.dsse.json"),
        ("https://h/p.tar?token=1", "https://h/p.tar.dsse.json?token=1"),
        ("s3://bucket/p.tar", "s3://bucket/p.tar.dsse.json"),
    ],
)
def test_a_statement_lies_beside_its_pack(source, place):
    assert signature_of(source) == place


def test_a_signed_pack_says_who_and_the_store_keeps_it(pack, home, key, other):
    assert sign_pack(str(pack), key).name == "reference.tar.dsse.json"
    sign_pack(str(pack), other)
    both = tuple(sorted([key.key_id, other.key_id]))
    assert peek(str(pack)).signed.key_ids == both
    assert verify(str(pack), home=home, signers=[key.key_id]).signed.key_ids == both
    done = pull(str(pack), home=home, signers=[other.key_id])
    assert done.signed.key_ids == both
    assert (done.stored.capture.folder / KEPT_SIGNATURE_NAME).read_bytes() == done.signed.to_bytes()


def test_a_folder_is_signed_beside_itself(pack, home, key, tmp_path):
    folder = folder_of(pack, tmp_path / "folder")
    assert sign_pack(f"{folder}/", key) == tmp_path / "folder.dsse.json"
    assert pull(str(folder), home=home, signers=[key.key_id]).signed.key_ids == (key.key_id,)


def test_over_http_the_statement_is_found_beside_the_pack(pack, home, key):
    statement = sign_pack(str(pack), key).read_bytes()
    with serve(pack.read_bytes(), others={".tar.dsse.json": statement}) as site:
        assert pull(site.url, home=home, signers=[key.key_id]).signed.key_ids == (key.key_id,)


def test_a_required_signature_that_is_absent_or_anothers_is_refused_before_the_pack_is_fetched(pack, home, key, other):
    data = pack.read_bytes()
    with serve(data) as site:
        with pytest.raises(VerificationFailed, match=f"signed by nobody, and not by {key.key_id}"):
            pull(site.url, home=home, signers=[key.key_id])
        assert not any(r and int(r[6:-1]) > 20_000 for r in site.requests)
    sign_pack(str(pack), other)
    with pytest.raises(VerificationFailed, match=f"signed by {other.key_id}, and not by {key.key_id}"):
        pull(str(pack), home=home, signers=[key.key_id])
    assert stored_state(home) == []


def test_what_the_store_has_is_held_to_the_requirement_too(pack, home, key):
    pull(str(pack), home=home)
    with pytest.raises(VerificationFailed, match="signed by nobody"):
        pull(str(pack), home=home, signers=[key.key_id])
    sign_pack(str(pack), key)
    done = pull(str(pack), home=home, signers=[key.key_id])
    assert not done.new
    assert (done.stored.capture.folder / KEPT_SIGNATURE_NAME).is_file()


def flip(path, key):
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def of_another_pack(path, key):
    path.write_bytes(sign_subjects({"pack.json": sha256_bytes(b"another")}, key, kind="reference-pack"))


def of_another_kind(path, key):
    digest = peek(str(path).removesuffix(".dsse.json")).digest
    path.write_bytes(sign_subjects({"pack.json": digest}, key, kind="result"))


def over_more(path, key):
    digest = peek(str(path).removesuffix(".dsse.json")).digest
    path.write_bytes(sign_subjects({"pack.json": digest, "more": digest}, key, kind="reference-pack"))


def a_link(path, key):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def too_large(path, key):
    path.write_bytes(bytes(13 << 20))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (flip, "."),
        (of_another_pack, "not over this pack"),
        (of_another_kind, "not over this pack"),
        (over_more, "not over this pack"),
        (a_link, "no regular file"),
        (too_large, "more than"),
    ],
)
def test_a_statement_that_does_not_hold_is_refused_though_none_was_required(pack, home, key, spoil, message):
    spoil(sign_pack(str(pack), key), key)
    with pytest.raises(VerificationFailed, match=message):
        pull(str(pack), home=home)
    assert stored_state(home) == []


def test_keys_are_named_by_id_or_by_file(key, tmp_path):
    assert required_signers([key.key_id, str(tmp_path / "keys" / "mine.pub")]) == (key.key_id, key.key_id)
    with pytest.raises(InvalidInput, match="not a key id"):
        required_signers(["ed25519:abc"])
    with pytest.raises(InvalidInput, match="cannot be read"):
        required_signers([str(tmp_path / "none.pub")])


def test_the_commands_sign_require_and_list(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    pack = packed(tmp_path)

    def run(*arguments, code=0):
        result = CliRunner().invoke(cli, [*map(str, arguments)], standalone_mode=False)
        if code:
            assert result.exception.exit_code == code, result.exception
        else:
            assert result.exit_code == 0, (result.output, result.exception)
        return result

    run("reference", "pull", pack, "-q", "--require-signature", "ed25519:" + "0" * 64, code=5)
    key_id = run("key", "new", tmp_path / "k").stdout.strip()
    assert json.loads(run("key", "show", tmp_path / "k.pub", "--json").stdout)["key_id"] == key_id
    assert run("key", "show", tmp_path / "k").stdout == run("key", "show", tmp_path / "k.pub").stdout
    assert run("sign", pack, "--key", tmp_path / "k").stdout.splitlines()[-1] == f"{pack}.dsse.json"
    seen = json.loads(run("reference", "verify", pack, "-q", "--json").stdout)
    assert seen["signers"] == [key_id]
    taken = run("reference", "pull", pack, "-q", "--require-signature", tmp_path / "k.pub")
    assert f"signed by {key_id}" in taken.stdout
    assert json.loads(run("reference", "list", "--json").stdout)["references"][0]["signers"] == [key_id]
    assert "pack, ed25519:" in run("reference", "list").stdout


def test_two_packs_of_one_capture_share_a_place_and_no_signature(tmp_path, home, key):
    model = checkpoint(tmp_path / "model")
    stored = capture_of(tmp_path / "maker", lock_of(tmp_path, model))
    heads = tmp_path / "maker" / "captures" / "heads"
    whole, small = tmp_path / "whole.tar", tmp_path / "small.tar"
    write_pack(stored, heads=heads, out=whole)
    write_pack(stored, heads=heads, out=small, checkpoint=model)
    sign_pack(str(small), key)
    first = pull(str(whole), home=home)
    again = pull(str(small), home=home)
    assert (again.new, again.digest, again.signed) == (False, first.digest, None)
    assert kept_signature(first.stored.capture.folder) is None
    with pytest.raises(VerificationFailed, match=r"signed by nobody(.|\n)*came with another pack"):
        pull(str(small), home=home, signers=[key.key_id])
    shutil.rmtree(first.stored.capture.folder)
    assert pull(str(small), home=home, signers=[key.key_id], checkpoint=str(model)).new


def test_a_run_that_requires_a_signature_takes_no_unsigned_capture_of_the_store(pack, home, key, tmp_path):
    unsigned = pull(str(pack), home=home).stored
    assert Packs(home=home).accepts(unsigned)
    assert not Packs(home=home, signers=[key.key_id]).accepts(unsigned)
    sign_pack(str(pack), key)
    pull(str(pack), home=home)
    assert Packs(home=home, signers=[key.key_id]).accepts(unsigned)
    assert not Packs(home=home, signers=["ed25519:" + "0" * 64]).accepts(unsigned)
    manifest = load_manifest(tmp_path / "manifests" / "sample.yaml")
    found = find_reference(home / "captures", manifest, unsigned.lock)
    assert found.capture.folder == unsigned.capture.folder
    others = Packs(home=home, signers=["ed25519:" + "0" * 64])
    assert find_reference(home / "captures", manifest, unsigned.lock, accepts=others.accepts) is None
