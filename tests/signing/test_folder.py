import os

import pytest

from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_bytes
from suite.signing import STATEMENT_NAME, read_folder_statement, sign_folder, verify_folder
from suite.signing import folder as folder_module


def test_every_file_is_named_and_a_second_key_adds_its_signature(folder, key, other):
    path = sign_folder(folder, key, kind="result", about={"bundle_id": "a/b"})
    assert path == folder / STATEMENT_NAME
    signed = verify_folder(folder)
    assert dict(signed.statement.subjects) == {
        "below/ledger.parquet": sha256_bytes(b"rows"),
        "bundle.json": sha256_bytes(b"{}"),
    }
    sign_folder(folder, other, kind="result")
    assert verify_folder(folder).key_ids == tuple(sorted([key.key_id, other.key_id]))
    assert verify_folder(folder).statement == signed.statement


def test_an_unsigned_folder_says_so(folder):
    assert read_folder_statement(folder) is None
    with pytest.raises(VerificationFailed, match="nobody signed it"):
        verify_folder(folder)


def add(folder):
    (folder / "more").write_text("")


def remove(folder):
    (folder / "bundle.json").unlink()


def change(folder):
    (folder / "below" / "ledger.parquet").write_bytes(b"Rows")


def rename(folder):
    (folder / "bundle.json").rename(folder / "Bundle.json")


def link(folder):
    target = folder.parent / "same"
    target.write_text("{}")
    (folder / "bundle.json").unlink()
    (folder / "bundle.json").symlink_to(target)


def pipe(folder):
    os.mkfifo(folder / "pipe")


def linked_folder(folder):
    (folder / "below").rename(folder.parent / "elsewhere")
    (folder / "below").symlink_to(folder.parent / "elsewhere")


def unprintable(folder):
    (folder / "a\u202eb").write_text("")


def deep(folder):
    (folder / "/".join("abcdefghij")).mkdir(parents=True)


def nested_statement(folder):
    """Only the folder's own statement is not named."""
    (folder / "below" / STATEMENT_NAME).write_text("")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (add, "does not name this file"),
        (remove, "it is missing"),
        (change, "not the one that was signed"),
        (rename, "does not name this file"),
        (link, "neither a regular file nor a folder"),
        (pipe, "neither a regular file nor a folder"),
        (linked_folder, "neither a regular file nor a folder"),
        (unprintable, "not printable ASCII"),
        (deep, "nested deeper"),
        (nested_statement, "does not name this file"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_folder_that_is_not_the_signed_one_is_refused(folder, key, other, spoil, message):
    sign_folder(folder, key, kind="result")
    spoil(folder)
    with pytest.raises(VerificationFailed, match=message):
        verify_folder(folder)
    with pytest.raises(VerificationFailed, match=message):
        sign_folder(folder, other, kind="result")


@pytest.mark.parametrize("spoil", [pipe, link, unprintable, deep])
def test_such_a_folder_cannot_be_signed(folder, key, spoil):
    spoil(folder)
    with pytest.raises(InvalidInput):
        sign_folder(folder, key, kind="result")
    assert not (folder / STATEMENT_NAME).exists()


def test_too_many_files_are_not_signed(folder, key, monkeypatch):
    monkeypatch.setattr(folder_module, "SUBJECT_LIMIT", 1)
    with pytest.raises(InvalidInput, match="more than 1 files"):
        sign_folder(folder, key, kind="result")


def test_a_statement_is_not_turned_into_another(folder, key, other):
    sign_folder(folder, key, kind="result", about={"n": 1})
    for changes in ({"kind": "submission"}, {"kind": "result", "about": {"n": 2}}):
        with pytest.raises(VerificationFailed, match="another one"):
            sign_folder(folder, other, **changes)


def test_a_statement_that_is_a_link_or_too_large_is_refused(folder, key, monkeypatch):
    path = sign_folder(folder, key, kind="result")
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "ENVELOPE_LIMIT_BYTES", 10)
        with pytest.raises(VerificationFailed, match="more than 10 bytes"):
            verify_folder(folder)
    path.rename(folder.parent / "statement")
    path.symlink_to(folder.parent / "statement")
    with pytest.raises(VerificationFailed, match="no regular file"):
        verify_folder(folder)


def test_a_folder_that_is_none_is_refused(tmp_path, key):
    with pytest.raises(InvalidInput, match="no such folder"):
        sign_folder(tmp_path / "none", key, kind="result")
