import math

import numpy as np
import pytest

from suite.capture.rows import open_rows
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.llama import importing
from suite.llama.file import open_kld
from suite.llama.importing import import_kld
from suite.llama.rows import open_llama_rows
from suite.llama.sidecar import SIDECAR_NAME, is_import, read_sidecar
from tests.capture.synthetic import write_capture
from tests.llama.files import write_kld


@pytest.mark.parametrize("vocab", [10, 11])
def test_an_import_is_a_sound_capture_with_the_files_rows(tmp_path, vocab):
    path = write_kld(tmp_path / "a.kld", vocab=vocab)
    capture = import_kld(path, home=tmp_path / "home")
    capture.verify()
    assert is_import(capture.index)
    direct, stored = open_llama_rows(path), open_rows(capture)
    assert capture.index.model_copy(update={"chunks": (), "receipt_sha256": ""}) == direct.index.model_copy(
        update={"chunks": (), "receipt_sha256": ""}
    )
    for name in ("positions", "target_ids", "row_sha256", "rows"):
        ours, theirs = (
            np.concatenate([getattr(block, name) for block in source.blocks()]) for source in (stored, direct)
        )
        assert np.array_equal(ours, theirs), name


def test_what_rows_do_not_hold_lies_beside_them(tmp_path):
    path = write_kld(tmp_path / "a.kld", clip=24, vocab=200)
    capture = import_kld(path, home=tmp_path)
    sidecar = read_sidecar(capture.folder, capture.index)
    assert sidecar.receipt.clip_nats == 24
    assert np.array_equal(sidecar.tokens, open_kld(path).tokens)
    raw = np.concatenate([block.encoded.log_p() for block in open_kld(path).blocks()])
    rows = np.concatenate([block.rows for block in open_rows(capture).blocks()])
    assert np.array_equal(rows + sidecar.floors[:, None], raw)
    assert sidecar.labels.turns.tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_many_chunk_files_give_the_same_rows(tmp_path, monkeypatch):
    path = write_kld(tmp_path / "a.kld", chunks=5)
    monkeypatch.setattr(importing, "_CHUNK_BYTES", 4 * 11 * 4)
    capture = import_kld(path, home=tmp_path)
    assert len(capture.index.chunks) == 5
    capture.verify()


def test_a_second_import_changes_nothing(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    first = import_kld(path, home=tmp_path)
    stamp = (first.folder / "index.json").stat().st_mtime_ns
    assert import_kld(path, home=tmp_path).folder == first.folder
    assert (first.folder / "index.json").stat().st_mtime_ns == stamp


def test_another_clip_than_that_of_the_import_is_refused(tmp_path, base_kld):
    import_kld(base_kld, home=tmp_path)
    assert import_kld(base_kld, home=tmp_path, clip="16")
    with pytest.raises(InvalidInput, match=r"another clip \(max-16, inferred\)"):
        import_kld(base_kld, home=tmp_path, clip="24")


def test_rows_that_are_not_finite_are_kept_and_counted(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    header = open_kld(path).header
    data = bytearray(path.read_bytes())
    at = header.rows_offset_bytes + header.row_bytes
    data[at : at + 4] = np.float32(math.nan).tobytes()
    path.write_bytes(data)
    capture = import_kld(path, home=tmp_path)
    assert capture.index.non_finite_rows == 1
    capture.verify()


def test_a_failed_import_leaves_nothing(tmp_path, monkeypatch):
    path = write_kld(tmp_path / "a.kld")
    monkeypatch.setattr(importing, "write_sidecar", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        import_kld(path, home=tmp_path)
    assert [p for p in (tmp_path / "captures").rglob("*") if p.is_file()] == []


def test_a_full_disk_is_seen_before_anything_is_written(tmp_path, monkeypatch):
    path = write_kld(tmp_path / "a.kld")
    monkeypatch.setattr(importing, "_HEADROOM", 1e15)
    with pytest.raises(MissingPrerequisite, match="of disk"):
        import_kld(path, home=tmp_path)


def test_a_sidecar_that_was_changed_is_refused(tmp_path):
    capture = import_kld(write_kld(tmp_path / "a.kld"), home=tmp_path)
    sidecar = capture.folder / SIDECAR_NAME
    data = bytearray(sidecar.read_bytes())
    data[-1] ^= 1
    sidecar.write_bytes(data)
    with pytest.raises(VerificationFailed, match="receipt names"):
        read_sidecar(capture.folder, capture.index)
    (capture.folder / "receipt.json").write_bytes(b"{}")
    with pytest.raises(VerificationFailed, match="index names"):
        read_sidecar(capture.folder, capture.index)


def test_a_capture_of_an_engine_has_no_sidecar(tmp_path):
    from suite.capture.store import open_capture

    capture = open_capture(write_capture(tmp_path / "c", np.eye(3, dtype=np.float32), [0, 1, 2, 0]))
    with pytest.raises(InvalidInput, match="not imported"):
        read_sidecar(capture.folder, capture.index)
