import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.model.hashes import hash_files
from suite.model.hub import fetch_snapshot, find_snapshot, missing_files, mount_root, require_unchanged
from suite.model.source import HubModel
from suite.observer import SilentObserver
from tests.model.fake_hub import FILES, REPOSITORY, REVISION, Hub, running_hub

# The client library reads its settings when it is imported, so each fetch is a process of its own.
FETCH = """
import json, sys
from pathlib import Path
from suite.errors import SuiteError
from suite.model.hub import fetch_snapshot
from suite.model.source import HubModel
from suite.observer import SilentObserver
try:
    model = HubModel(repository=sys.argv[1], revision=sys.argv[2])
    folder = fetch_snapshot(model, home=Path(sys.argv[3]), observer=SilentObserver())
    print(json.dumps({"folder": str(folder)}))
except SuiteError as error:
    print(json.dumps({"error": str(error), "code": error.exit_code}))
"""
MODEL = HubModel(repository=REPOSITORY, revision=REVISION)


@pytest.fixture
def hub():
    with running_hub() as running:
        yield running


def fetch(tmp_path: Path, url: str, *, repository: str = REPOSITORY, revision: str = REVISION, **more: str) -> dict:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", **more}
    done = subprocess.run(
        [sys.executable, "-c", FETCH, repository, revision, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_only_safetensors_and_what_belongs_to_them_is_fetched(tmp_path, hub: Hub):
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "tokenizer.json"}
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert [file.path for file in hash_files(folder)] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert mount_root(folder) == folder.parent.parent, "its links point into the repository's blobs"


def test_a_second_fetch_needs_no_network(tmp_path, hub: Hub):
    first = fetch(tmp_path, hub.url)
    hub.fetched.clear()
    assert fetch(tmp_path, "http://127.0.0.1:9", HF_HUB_OFFLINE="1") == first
    assert hub.fetched == []


def test_a_fetch_that_was_cut_off_is_told_and_the_next_one_completes_it(tmp_path, hub: Hub):
    hub.cut_after_bytes = 12_000_000  # the client keeps what it has in steps of 10 MiB
    broken = fetch(tmp_path, hub.url, HF_HUB_DOWNLOAD_TIMEOUT="2")
    assert broken["code"] == 3
    assert "broke off" in broken["error"]
    assert "resumes" in broken["error"]
    hub.cut_after_bytes = None
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert any(entry.startswith("model.safetensors bytes=") for entry in hub.fetched), "it went on where it stopped"


def test_a_partial_snapshot_is_not_taken_for_a_whole_one_offline(tmp_path, hub: Hub):
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    (folder / "model.safetensors").unlink()
    answer = fetch(tmp_path, hub.url, HF_HUB_OFFLINE="1")
    assert answer["code"] == 3
    assert "run again" in answer["error"]


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        ((401, "GatedRepo"), "closed to this user"),
        ((404, "RepoNotFound"), "no such repository"),
        ((404, "RevisionNotFound"), "no such commit"),
        ((403, ""), "403"),
    ],
)
def test_each_refusal_of_the_hub_says_what_to_do(tmp_path, hub: Hub, refusal, text):
    hub.refusal = refusal
    answer = fetch(tmp_path, hub.url)
    assert answer["code"] == 3
    assert text in answer["error"]
    assert f"{REPOSITORY}@{REVISION}" in answer["error"]
    assert not (tmp_path / "home" / "models" / "hub" / f"owner--tiny-{REVISION}.json").exists()


def test_no_hub_and_nothing_here_is_a_missing_prerequisite(tmp_path):
    answer = fetch(tmp_path, "http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert answer["code"] == 3
    assert "the hub did not give it" in answer["error"]


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    import huggingface_hub

    def full(*arguments: object, **more: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(MissingPrerequisite, match="no space left"):
        fetch_snapshot(MODEL, home=tmp_path, observer=SilentObserver())


def test_a_recorded_snapshot_that_lost_a_file_is_fetched_again(tmp_path, hub: Hub):
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    shutil.rmtree(folder)
    assert fetch(tmp_path, hub.url)["folder"] == str(folder)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_missing_files_follow_the_index(tmp_path):
    assert missing_files(tmp_path) == ["config.json", "model.safetensors"]
    (tmp_path / "config.json").write_text("{}")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "one.safetensors").write_bytes(b"")
    assert missing_files(tmp_path) == ["two.safetensors"]


def test_an_ordinary_folder_is_its_own_mount(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert mount_root(tmp_path) == tmp_path


def test_bytes_that_are_not_those_published_are_thrown_away_and_fetched_again(tmp_path, hub: Hub):
    hub.tampered = FILES["model.safetensors"][:-1] + b"x"
    answer = fetch(tmp_path, hub.url)
    assert answer["code"] == 5
    assert "not received as the hub publishes it" in answer["error"]
    hub.tampered = None
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_a_file_that_was_changed_since_is_an_error_whatever_its_size(tmp_path, hub: Hub):
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    home = tmp_path / "home"
    require_unchanged(MODEL, hash_files(folder), home=home)
    weights = (folder / "model.safetensors").resolve()
    weights.write_bytes(b"x" * weights.stat().st_size)
    assert find_snapshot(MODEL, home=home) == folder, "its size is the same"
    with pytest.raises(VerificationFailed, match=r"model\.safetensors is not what was fetched"):
        require_unchanged(MODEL, hash_files(folder), home=home)


def test_a_file_that_was_added_or_taken_away_is_an_error(tmp_path, hub: Hub):
    folder = Path(fetch(tmp_path, hub.url)["folder"])
    (folder / "extra.json").write_text("{}")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(VerificationFailed, match=r"extra\.json is not what was fetched, and 1 more"):
        require_unchanged(MODEL, hash_files(folder), home=tmp_path / "home")


def test_a_record_of_an_older_version_is_made_anew_without_fetching_twice(tmp_path, hub: Hub):
    fetch(tmp_path, hub.url)
    record = tmp_path / "home" / "models" / "hub" / f"owner--tiny-{REVISION}.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"schema_version": 1}))
    hub.fetched.clear()
    fetch(tmp_path, hub.url)
    assert json.loads(record.read_text())["schema_version"] == 2
    assert hub.fetched == []


def test_without_a_record_nothing_is_known(tmp_path):
    require_unchanged(MODEL, [], home=tmp_path)
