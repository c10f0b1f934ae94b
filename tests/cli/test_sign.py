import pytest
from click.testing import CliRunner

from suite.cli.sign import sign
from suite.errors import InvalidInput, VerificationFailed
from suite.signing import new_key, verify_folder


def run(*arguments):
    return CliRunner().invoke(sign, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (("bundle.json",), "result"),
        (("submission.json",), "submission"),
        (("attestation.json", "bundle.json"), "attestation"),
    ],
)
def test_a_folder_is_signed_as_what_it_is(tmp_path, files, kind):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in files:
        (folder / name).write_text("{}")
    keys = [new_key(tmp_path / name) for name in ("a", "b")]
    for name, one in zip("ab", keys, strict=True):
        result = run(folder, "--key", tmp_path / name)
        assert result.stdout == f"signed by {one.key_id}\n{folder / 'statement.dsse.json'}\n"
    signed = verify_folder(folder)
    assert signed.statement.kind == kind
    assert set(signed.key_ids) == {one.key_id for one in keys}


def test_what_is_nothing_of_the_kind_is_refused(tmp_path):
    new_key(tmp_path / "k")
    (tmp_path / "folder").mkdir()
    assert isinstance(run(tmp_path / "folder", "--key", tmp_path / "k").exception, InvalidInput)
    (tmp_path / "file").write_text("no pack")
    assert isinstance(run(tmp_path / "file", "--key", tmp_path / "k").exception, VerificationFailed)
    assert not list(tmp_path.rglob("*.dsse.json"))


def test_a_pack_is_not_signed_with_sigstore(tmp_path):
    (tmp_path / "pack.tar").write_text("")
    assert isinstance(run(tmp_path / "pack.tar", "--sigstore").exception, InvalidInput)


def test_a_token_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "bundle.json").write_text("{}")
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    result = run(tmp_path / "folder", "--sigstore", "--token", tmp_path / "token", "--yes")
    assert isinstance(result.exception, InvalidInput)
