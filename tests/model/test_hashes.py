import hashlib
from pathlib import Path

import pytest

from suite.errors import MissingPrerequisite
from suite.model.hashes import PROVENANCE_NAME, hash_files


def checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_bytes(b"{}")
    (folder / "chat_template.jinja").write_bytes(b"{{ x }}")
    return folder


def test_files_come_sorted_with_size_and_sha256(tmp_path):
    found = hash_files(checkpoint(tmp_path / "m"))
    assert [file.path for file in found] == ["chat_template.jinja", "config.json", "model.safetensors"]
    assert found[2].size_bytes == 7
    assert found[2].sha256 == hashlib.sha256(b"weights").hexdigest()


def test_what_no_engine_reads_does_not_change_the_answer(tmp_path):
    folder = checkpoint(tmp_path / "m")
    before = hash_files(folder)
    (folder / "README.md").write_text("card")
    (folder / PROVENANCE_NAME).write_text("{}")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "state.json").write_text("{}")
    (folder / "model.gguf").write_bytes(b"GGUF")
    assert hash_files(folder) == before


def test_one_changed_byte_changes_the_answer(tmp_path):
    folder = checkpoint(tmp_path / "m")
    before = hash_files(folder)
    (folder / "model.safetensors").write_bytes(b"Weights")
    assert hash_files(folder) != before


def test_links_are_followed(tmp_path):
    folder = checkpoint(tmp_path / "blobs")
    links = tmp_path / "snapshot"
    links.mkdir()
    for path in folder.iterdir():
        (links / path.name).symlink_to(path)
    assert hash_files(links) == hash_files(folder)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("x")])
def test_a_folder_without_model_files_is_a_missing_prerequisite(tmp_path, make):
    make(tmp_path / "m")
    with pytest.raises(MissingPrerequisite, match="no model files"):
        hash_files(tmp_path / "m")
