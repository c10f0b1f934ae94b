import json

from suite.model.inventory import list_models


def test_an_absent_state_folder_holds_nothing(tmp_path):
    assert list_models(tmp_path / "home") == []


def test_complete_models_are_listed_with_their_size(tmp_path):
    models = tmp_path / "models"
    for kind, name, size in (("gguf", "a", 10), ("derived", "b-bf16", 20)):
        (models / kind / name).mkdir(parents=True)
        (models / kind / name / "file").write_bytes(bytes(size))
    (models / "derived" / ".half.tmp").mkdir()
    (models / "derived" / ".b-bf16.lock").touch()
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (models / "hub").mkdir()
    record = {"schema_version": 1, "folder": str(snapshot), "files": {"config.json": 3, "model.safetensors": 40}}
    (models / "hub" / "owner--m-5f.json").write_text(json.dumps(record))
    gone = record | {"folder": str(tmp_path / "gone")}
    (models / "hub" / "owner--gone-5f.json").write_text(json.dumps(gone))
    kept = [(item.kind, item.name, item.size_bytes) for item in list_models(tmp_path)]
    assert kept == [("gguf", "a", 10), ("derived", "b-bf16", 20), ("hub", "owner--m-5f", 43)]
