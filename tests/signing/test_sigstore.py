"""Sigstore's own client and verifier against a Sigstore on loopback. The public one is never asked by a test."""

import json

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, VerificationFailed
from suite.signing import SIGSTORE_NAME, sign_folder, verify_folder
from suite.signing import sigstore as module
from suite.signing.sigstore import (
    WARNING,
    identity_of,
    sign_folder_with_sigstore,
    verify_folder_with_sigstore,
)
from tests.signing.sigstore_world import IDENTITY, ISSUER, sigstore, token


@pytest.fixture(scope="module")
def shared():
    with sigstore() as found:
        yield found


@pytest.fixture
def world(shared):
    shared.refuse = ""
    shared.asked.clear()
    return shared


def sign(folder, world, **options):
    options = {"kind": "result", "token": token(), "trust": world.trust()} | options
    return sign_folder_with_sigstore(folder, **options)


def test_a_folder_is_signed_and_verified_without_a_key(folder, world):
    path = sign(folder, world)
    assert path == folder / SIGSTORE_NAME
    assert world.asked == ["/api/v2/signingCert", "/rekor/api/v1/log/entries"]
    signed = verify_folder_with_sigstore(folder, trusted_root=world.trusted_root())
    assert (signed.identity, signed.issuer) == (IDENTITY, ISSUER)
    assert set(signed.statement.subjects) == {"bundle.json", "below/ledger.parquet"}
    assert signed.statement.signer is None
    assert len(world.asked) == 2, "verifying asks nobody"


def test_a_keys_statement_and_sigstores_are_one(folder, key, world):
    sign_folder(folder, key, kind="result", about={"n": 1})
    sign(folder, world)
    signed = verify_folder_with_sigstore(folder, trusted_root=world.trusted_root())
    assert signed.statement == verify_folder(folder).statement


def test_a_folder_without_it_says_so(folder, world):
    assert verify_folder_with_sigstore(folder, trusted_root=world.trusted_root()) is None


def changed_file(folder, world):
    (folder / "bundle.json").write_text("[]")


def changed_payload(folder, world):
    value = json.loads((folder / SIGSTORE_NAME).read_bytes())
    payload = value["dsseEnvelope"]["payload"]
    value["dsseEnvelope"]["payload"] = ("A" if payload[0] != "A" else "B") + payload[1:]
    (folder / SIGSTORE_NAME).write_text(json.dumps(value))


def without_log_entry(folder, world):
    value = json.loads((folder / SIGSTORE_NAME).read_bytes())
    value["verificationMaterial"]["tlogEntries"] = []
    (folder / SIGSTORE_NAME).write_text(json.dumps(value))


def no_bundle(folder, world):
    (folder / SIGSTORE_NAME).write_bytes(b'{"mediaType":1}')


def no_json(folder, world):
    (folder / SIGSTORE_NAME).write_bytes(b"\xff")


def a_link(folder, world):
    (folder / SIGSTORE_NAME).rename(folder.parent / "elsewhere")
    (folder / SIGSTORE_NAME).symlink_to(folder.parent / "elsewhere")


def of_another_statement(folder, world):
    from suite.signing import new_key

    sign_folder(folder, new_key(folder.parent / "k"), kind="result")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (changed_file, "not the one that was signed"),
        (changed_payload, "does not hold"),
        (without_log_entry, "does not hold"),
        (no_bundle, "does not hold"),
        (no_json, "does not hold"),
        (a_link, "no regular file"),
        (of_another_statement, "another statement"),
    ],
)
def test_what_does_not_hold_is_refused(folder, world, spoil, message):
    sign(folder, world)
    spoil(folder, world)
    with pytest.raises(VerificationFailed, match=message):
        verify_folder_with_sigstore(folder, trusted_root=world.trusted_root())


def test_another_sigstore_is_not_trusted(folder, world):
    sign(folder, world)
    with sigstore() as other, pytest.raises(VerificationFailed, match="does not hold"):
        verify_folder_with_sigstore(folder, trusted_root=other.trusted_root())


@pytest.mark.parametrize("path", ["signingCert", "rekor"])
def test_a_service_that_refuses_ends_it_and_leaves_nothing(folder, world, path):
    world.refuse = path
    with pytest.raises(RunFailed, match="Sigstore refused"):
        sign(folder, world)
    assert not (folder / SIGSTORE_NAME).exists()


def test_a_service_that_does_not_answer_is_a_missing_prerequisite(folder, key):
    with sigstore() as gone:
        trust = gone.trust()
    with pytest.raises(MissingPrerequisite, match=r"cannot be reached(.|\n)*suite key new"):
        sign_folder_with_sigstore(folder, kind="result", token=token(), trust=trust)


@pytest.mark.parametrize("text", ["", "no token", "a.b.c"])
def test_what_is_no_token_is_refused(text):
    with pytest.raises(InvalidInput, match="no identity token"):
        identity_of(text)


def test_tokens_out_of_date_or_for_others_are_refused():
    assert identity_of(token()) == IDENTITY
    for wrong in (token(seconds=-60), token(audience="somebody")):
        with pytest.raises(InvalidInput, match="no identity token"):
            identity_of(wrong)


def test_it_is_not_signed_twice_or_as_something_else(folder, key, world):
    sign_folder(folder, key, kind="result")
    with pytest.raises(VerificationFailed, match="over a result"):
        sign(folder, world, kind="submission")
    sign(folder, world)
    with pytest.raises(InvalidInput, match="signed with Sigstore already"):
        sign(folder, world)


def test_without_the_extra_it_says_what_to_install(folder, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(module.importlib, "import_module", absent)
    with pytest.raises(MissingPrerequisite, match=r"suite\[sigstore\]"):
        sign_folder_with_sigstore(folder, kind="result", token="x")


class TestCommand:
    @pytest.fixture
    def command(self, folder, tmp_path, world, monkeypatch):
        from sigstore.models import ClientTrustConfig

        monkeypatch.setattr(ClientTrustConfig, "production", classmethod(lambda *_, **__: world.trust()))
        (tmp_path / "token").write_text(token() + "\n")

        def run(*more, answer=None):
            arguments = ["sign", str(folder), "--sigstore", "--token", str(tmp_path / "token"), *more]
            return CliRunner().invoke(cli, arguments, input=answer, standalone_mode=False)

        return run

    def test_nothing_is_sent_before_a_yes(self, command, world, folder):
        result = command(answer="n\n")
        assert result.exit_code != 0
        assert world.asked == []
        assert not (folder / SIGSTORE_NAME).exists()
        assert WARNING in result.stderr
        assert f"It will say: {IDENTITY}" in result.stderr
        assert "Publish this identity for ever?" in result.stderr

    @pytest.mark.parametrize(("more", "answer"), [((), "y\n"), (("--yes",), None)])
    def test_a_yes_signs_and_the_warning_stands_in_any_case(self, command, world, folder, more, answer):
        result = command(*more, answer=answer)
        assert result.exit_code == 0, (result.output, result.exception)
        assert WARNING in result.stderr
        assert result.stdout.strip().endswith(SIGSTORE_NAME)
        assert verify_folder_with_sigstore(folder, trusted_root=world.trusted_root()).identity == IDENTITY

    def test_key_or_sigstore(self, command, folder):
        for extra in (("--key", "x"),):
            assert isinstance(command(*extra).exception, InvalidInput)
        bare = CliRunner().invoke(cli, ["sign", str(folder)], standalone_mode=False)
        assert isinstance(bare.exception, InvalidInput)
