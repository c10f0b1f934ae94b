import os
import secrets
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.errors import InvalidInput, MissingPrerequisite, SuiteError, VerificationFailed
from suite.reference.pull import peek, pull, verify
from suite.reference.signature import sign_pack, signature_of
from suite.reference.store import open_stored, pack_folder
from suite.signing.keys import new_key
from tests.reference.server import serve
from tests.reference.world import Parts, folder_of, packed, reference_lock, stored_state


def test_a_pulled_pack_lies_beside_starts_with_its_own_lock(pack, home, tmp_path):
    done = pull(str(pack), home=home)
    lock = reference_lock(tmp_path)
    folder = pack_folder(
        home / "captures", capture_digest=lock.capture_digest, index_sha256=done.stored.capture.index_sha256
    )
    assert done.new
    assert done.stored.capture.folder == folder
    assert done.stored.lock == lock
    assert done.stored.missing_heads(home / "captures" / "heads") == ()
    assert not (folder / "heads").exists()
    assert not list((home / "incoming").glob("[!.]*"))


def test_a_second_pull_changes_nothing(pack, home):
    pull(str(pack), home=home)
    before = stored_state(home)
    done = pull(str(pack), home=home)
    assert not done.new
    assert stored_state(home) == before


def test_a_folder_is_a_pack_too(pack, home, tmp_path):
    done = pull(str(folder_of(pack, tmp_path / "folder")), home=home)
    assert done.digest == peek(str(pack)).digest
    assert done.stored.capture.index.num_rows == 29


def test_verify_imports_nothing(pack, home):
    head = verify(str(pack), home=home)
    assert head.record.num_rows == 29
    assert stored_state(home) == []


def test_two_packs_of_one_lock_lie_side_by_side(pack, home, tmp_path):
    other = packed(tmp_path / "other_maker", seed=9) if (tmp_path / "other_maker").mkdir() is None else None
    first, second = pull(str(pack), home=home).stored, pull(str(other), home=home).stored
    assert first.lock.capture_digest == second.lock.capture_digest
    assert first.capture.folder != second.capture.folder


def test_over_http_a_broken_transfer_goes_on_where_it_ended(pack, home):
    data = pack.read_bytes()
    with serve(data, break_at=len(data) // 2) as site:
        with pytest.raises(MissingPrerequisite, match=r"broke off.*\n.*run again: it resumes"):
            pull(site.url, home=home)
        assert not list((home / "captures").glob("*/pack-*"))
        site.break_at = None
        done = pull(site.url, home=home)
    assert done.new
    assert open_stored(done.stored.capture.folder).capture.index.num_rows == 29


def test_the_middle_of_a_chunk_is_not_fetched_again(pack, home, monkeypatch):
    monkeypatch.setattr("suite.reference.reader._SKIP_BYTES", 0)
    data = pack.read_bytes()
    with serve(data, break_at=len(data) - 3_000) as site:
        with pytest.raises(MissingPrerequisite):
            pull(site.url, home=home)
        [partial] = (home / "incoming").rglob("*.partial")
        kept = partial.stat().st_size
        assert kept
        site.break_at, site.requests[:] = None, []
        pull(site.url, home=home)
    starts = [int(r.removeprefix("bytes=").removesuffix("-")) for r in site.requests if r]
    chunk = len(Parts.of(pack).members["chunk-00002.safetensors"])
    header = len(data) - 1024 - (chunk + -chunk % 512) - 512
    # After record and lock: the header of the last chunk, and what is missing of it.
    assert starts == [header, len(data) - 3_000]
    assert header + 512 + kept == len(data) - 3_000


def test_a_server_without_ranges_still_resumes(pack, home):
    data = pack.read_bytes()
    with serve(data, ranges=False, break_at=len(data) // 2) as site:
        with pytest.raises(MissingPrerequisite):
            pull(site.url, home=home)
        site.break_at = None
        assert pull(site.url, home=home).new


def test_a_pack_that_changed_between_two_tries_is_fetched_anew(pack, home, tmp_path):
    (tmp_path / "b").mkdir()
    other = packed(tmp_path / "b", seed=5).read_bytes()
    with serve(pack.read_bytes(), break_at=8_000) as site:
        with pytest.raises(MissingPrerequisite):
            pull(site.url, home=home)
        site.data, site.break_at = other, None
        assert pull(site.url, home=home).digest == peek(site.url).digest


def test_heads_of_the_store_are_not_fetched(pack, home, tmp_path):
    (tmp_path / "b").mkdir()
    other = packed(tmp_path / "b", seed=5)
    pull(str(other), home=home)
    [head] = (home / "captures" / "heads").iterdir()
    seen = []

    class Watch:
        def phase(self, name, *, total=None, unit=""):
            seen.append((name, total))

        def advance(self, count): ...

        def note(self, text): ...

        def warn(self, text): ...

    pull(str(pack), home=home, observer=Watch())
    total = peek(str(pack)).record.total_bytes
    assert seen[0] == ("fetch pack", total - head.stat().st_size)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"status": 404}, MissingPrerequisite, "the server answers 404"),
        ({"status": 503}, MissingPrerequisite, "503.*\n.*run again later"),
        ({"encoding": "gzip"}, VerificationFailed, "the server sends it compressed"),
    ],
)
def test_a_server_that_does_not_give_it(pack, home, options, error, told):
    with serve(pack.read_bytes(), **options) as site, pytest.raises(error, match=told):
        pull(site.url, home=home)
    assert stored_state(home) == []


def test_a_machine_that_is_not_there(home):
    with pytest.raises(MissingPrerequisite, match="broke off"):
        pull("http://127.0.0.1:9/pack.tar", home=home)


def test_other_file_systems_of_fsspec(pack, home):
    import fsspec

    with fsspec.open("memory://packs/reference.tar", "wb") as out:
        out.write(pack.read_bytes())
    assert pull("memory://packs/reference.tar", home=home).new
    assert not pull(f"file://{pack}", home=home).new


def test_errors_show_no_credentials_of_a_url(home):
    with pytest.raises(MissingPrerequisite) as caught:
        pull("http://user:secret@127.0.0.1:9/pack.tar?sig=hidden", home=home)
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "error", "told"),
    [
        ("absent.tar", InvalidInput, "no such file"),
        ("nowhere://x/pack.tar", InvalidInput, "not an address"),
        ("memory://absent.tar", MissingPrerequisite, "no such file"),
    ],
)
def test_sources_that_are_not_there(home, source, error, told):
    with pytest.raises(error, match=told):
        pull(source, home=home)


def test_a_full_disk_is_told_before_anything_is_fetched(pack, home, monkeypatch):
    monkeypatch.setattr("suite.reference.pull.free_bytes", lambda _: 100)
    with pytest.raises(MissingPrerequisite, match=r"needs [0-9,]+ bytes of disk, 100 are free"):
        pull(str(pack), home=home)


def test_a_disk_that_fills_up_is_told_and_resumed(pack, home, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("suite.reference.pull.os.fsync", full)
        with pytest.raises(MissingPrerequisite, match="no space left"):
            pull(str(pack), home=home)
    assert not list(home.glob("captures/*/pack-*"))
    assert pull(str(pack), home=home).new


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused_and_nothing_is_imported(pack, share, bit):
    # Signed: licence and time in a pack's record are its maker's own words, which nothing else in it could contradict.
    statement = sign_pack(str(pack), new_key(pack.with_name(f"key-{secrets.token_hex(4)}")))
    data = bytearray(pack.read_bytes())
    data[int(share * len(data))] ^= 1 << bit
    changed = pack.with_name("changed.tar")
    changed.write_bytes(data)
    statement.rename(signature_of(str(changed)))
    # A home of its own for each example: a pull goes on from members that an earlier one had verified.
    with tempfile.TemporaryDirectory(dir=pack.parent) as folder:
        with pytest.raises(SuiteError):
            pull(str(changed), home=Path(folder))
        assert stored_state(Path(folder)) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_any_cut_is_refused_and_nothing_is_imported(pack, home, share):
    cut = pack.with_name("cut.tar")
    cut.write_bytes(pack.read_bytes()[: int(share * pack.stat().st_size)])
    with pytest.raises(VerificationFailed):
        pull(str(cut), home=home)
    assert stored_state(home) == []


def test_a_link_in_a_folder_is_not_followed(pack, home, tmp_path):
    folder = folder_of(pack, tmp_path / "folder")
    (folder / "receipt.json").rename(tmp_path / "elsewhere.json")
    (folder / "receipt.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(VerificationFailed, match=r"receipt\.json is no regular file"):
        pull(str(folder), home=home)
    assert stored_state(home) == []


def _pipe(folder: Path) -> None:
    (folder / "receipt.json").unlink()
    os.mkfifo(folder / "receipt.json")


def _linked_heads(folder: Path) -> None:
    (folder / "heads").rename(folder.parent / "heads-elsewhere")
    (folder / "heads").symlink_to(folder.parent / "heads-elsewhere")


def _longer(folder: Path) -> None:
    with (folder / "chunk-00000.safetensors").open("ab") as out:
        out.write(b"x")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_pipe, "receipt.json is no regular file"),
        (_linked_heads, "heads is a symbolic link"),
        (_longer, "chunk-00000.safetensors is longer than pack.json says"),
        (lambda f: (f / "chunk-00001.safetensors").unlink(), "chunk-00001.safetensors is missing"),
        (lambda f: (f / "run.py").write_text(""), "'run.py' is a file that pack.json does not list"),
        (lambda f: (f / "heads" / "x").write_text(""), "'heads/x' is a file that pack.json does not list"),
        (lambda f: (f / "pack.json").unlink(), "pack.json is missing"),
    ],
)
def test_hostile_folders(pack, home, tmp_path, spoil, told):
    folder = folder_of(pack, tmp_path / "folder")
    spoil(folder)
    with pytest.raises(VerificationFailed, match=told):
        pull(str(folder), home=home)
    assert stored_state(home) == []


def test_two_pulls_side_by_side_import_it_once(pack, home):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: pull(str(pack), home=home), range(4)))
    assert [d.new for d in done].count(True) == 1
    assert len(list((home / "captures").glob("*/pack-*"))) == 1
