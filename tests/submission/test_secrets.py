import gzip
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from suite.bundle.read import open_bundle
from suite.bundle.redact import Private
from suite.bundle.schema import Factor
from suite.bundle.write import write_bundle
from suite.errors import InvalidInput
from suite.submission.secrets import suspicions_in, suspicions_in_factors, suspicions_in_session
from suite.workload.session import Session
from tests.bundle.world import World

TOKEN = "ghp_" + "a1B2" * 9


def found_in(tmp_path, **changes):
    world = World(root=tmp_path)
    parts = replace(world.parts(), private=Private(), **changes)
    return list(suspicions_in(open_bundle(write_bundle(parts, results=world.results))))


def fake(**files):
    """A bundle of these files alone, as far as this module looks."""
    return SimpleNamespace(record=SimpleNamespace(files=files), read=lambda name: files.get(name, b"{}"))


def test_an_ordinary_bundle_holds_nothing_suspicious(tmp_path):
    assert found_in(tmp_path, engine_log="INFO loaded in 2.5 s\n") == []


def test_a_manifests_comment_is_looked_at(tmp_path):
    (found,) = found_in(
        tmp_path, engine_log="", manifest_yaml=f"schema_version: 1\n# fetched with {TOKEN}\nname: fp8-kv\n".encode()
    )
    assert (found.kind, found.where) == ("GitHub token", "manifest.yaml:2")
    assert TOKEN[4:10] not in found.excerpt
    assert "36 characters" in found.excerpt
    assert len(found.id) == 8


def test_what_redaction_left_in_a_log(tmp_path):
    log = "ok\nmail admin.jones@corp-research.de about it\nssh build7.corp.internal\n"
    found = found_in(tmp_path, engine_log=log)
    assert {one.kind for one in found} == {"email address", "host name"}
    assert {one.where for one in found} == {"engine.log:2", "engine.log:3"}


def test_the_same_text_has_the_same_id_wherever_it_stands(tmp_path):
    found = [
        *suspicions_in(fake(**{"manifest.yaml": f"a {TOKEN}".encode()})),
        *suspicions_in(fake(**{"replays.json": json.dumps({"runs": [{"text": TOKEN}]}).encode()})),
    ]
    assert len(found) == 2
    assert found[0].id == found[1].id
    assert found[1].where == "replays.json: runs[0].text"


def test_futures_are_looked_at_line_by_line():
    lines = b'{"text":"fine"}\n' + json.dumps({"calls": [{"arguments": {"api_key": "Zx9-secret-77Qw"}}]}).encode()
    (found,) = suspicions_in(fake(**{"branches.jsonl.gz": gzip.compress(lines)}))
    assert found.where == "branches.jsonl.gz:2: calls[0].arguments.api_key"


def test_the_names_of_objects_are_text_too():
    (found,) = suspicions_in(fake(**{"repeats.json": json.dumps({TOKEN: 1}).encode()}))
    assert found.kind == "GitHub token"


def test_digests_and_names_of_packages_are_no_secrets():
    lock = json.dumps({"workload": {"tokens_sha256": "a1" * 32}, "image": "sha256:" + "b2" * 32}).encode()
    sbom = json.dumps({"components": [{"name": "base-passwd", "value": "base-passwd 3.6.1"}]}).encode()
    assert list(suspicions_in(fake(**{"lock.json": lock, "sbom.cdx.json": sbom}))) == []
    issued = json.dumps({"value": TOKEN}).encode()
    assert len(list(suspicions_in(fake(**{"sbom.cdx.json": issued})))) == 1


@pytest.mark.parametrize("data", [b"plain", gzip.compress(b"{}", mtime=0)[:-4], b""])
def test_futures_that_are_no_gzip(data):
    with pytest.raises(InvalidInput):
        list(suspicions_in(fake(**{"branches.jsonl.gz": data})))


def test_settings_of_a_private_submission_are_looked_at(tmp_path):
    record = open_bundle(write_bundle(World(root=tmp_path).parts(), results=tmp_path / "results")).record
    assert list(suspicions_in_factors(record)) == []
    factor = Factor(key="environment.X", reference=None, candidate="https://proxy7.corp.internal/v1")
    (found,) = suspicions_in_factors(record.model_copy(update={"consequent": (factor,)}))
    assert (found.kind, found.where) == ("host name", "factors: environment.X[1]")


def session(text, **provenance):
    return Session.model_validate_json(
        json.dumps(
            {
                "schema_version": 1,
                "name": "s",
                "licence": "CC0-1.0",
                "provenance": {"kind": "recorded", "generator": "test"} | provenance,
                "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "done"}],
            }
        )
    )


def test_the_sessions_own_text_and_its_pseudonyms():
    text = f"use {TOKEN} for it"
    (found,) = suspicions_in_session(session(text))
    assert found.where == "the session, line 2"
    scrubbed = {"generator": "suite", "pseudonyms": [TOKEN[4:16] + "…36"]}
    assert list(suspicions_in_session(session(text, scrubbed=scrubbed))) == []
