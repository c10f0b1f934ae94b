from suite.manifest.json_schema import json_schema, json_schema_bytes
from tests.manifest.samples import ROOT


def test_committed_schema_is_current() -> None:
    committed = (ROOT / "docs/manifest.schema.json").read_bytes()
    assert committed == json_schema_bytes(), "run: suite manifest schema > docs/manifest.schema.json"


def test_schema_forbids_unknown_keys_everywhere() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values() if part["type"] == "object")
    assert "extends" in schema["properties"]


def test_parts_that_merge_require_nothing_and_identities_do() -> None:
    schema = json_schema()
    assert "required" not in schema
    assert "required" not in schema["$defs"]["Engine"]
    assert schema["$defs"]["Image"]["oneOf"] == [{"required": ["repository"]}, {"required": ["build"]}]
    assert schema["$defs"]["PypiModel"]["required"] == ["package", "version"]
