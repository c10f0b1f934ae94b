import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from suite.bundle.redact import Private
from suite.bundle.write import write_bundle
from suite.cli.main import cli
from suite.errors import InvalidInput
from suite.signing import new_key
from tests.bundle.world import World


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    world = World(root=tmp_path / "home")
    return write_bundle(replace(world.parts(), engine_log="loaded\n", private=Private()), results=tmp_path / "results")


def run(*arguments, answer=None):
    return CliRunner().invoke(cli, ["submit", *map(str, arguments)], input=answer)


def refused(*arguments):
    done = run(*arguments)
    assert isinstance(done.exception, InvalidInput), done.output
    return str(done.exception)


def test_everything_is_shown_and_no_leaves_nothing(bundle, tmp_path):
    done = run(bundle, "--session-public", "--licence", "CC0-1.0", answer="n\n")
    assert done.exit_code == 0
    assert done.stderr.endswith("nothing was written\n")
    for told in ("ledger.parquet", "THE SESSION'S TEXT", "unsigned", "cannot be called back", "licence CC0-1.0"):
        assert told in done.stderr
    assert not (tmp_path / "results" / "submissions").exists()
    assert "nobody is there to agree" in refused(bundle, "--session-public", "--licence", "CC0-1.0")
    assert not (tmp_path / "results" / "submissions").exists()


def test_yes_writes_a_folder_and_json_says_where(bundle, tmp_path):
    key = new_key(tmp_path / "me.pem")
    done = run(bundle, "--session-public", "--licence", "CC0-1.0", "--key", "me.pem", "--yes", "--json")
    value = json.loads(done.stdout)
    assert value["submission"]["submitter"] == key.key_id
    assert (tmp_path / value["path"] / "submission.json").is_file()
    assert "recomputed" not in done.stderr.replace("nobody can recompute", "")


def test_an_archive(bundle, tmp_path):
    done = run(bundle, "--session-public", "--licence", "CC0-1.0", "--archive", "a.tar.gz", "--yes")
    assert done.stdout == "a.tar.gz\n"
    assert (tmp_path / "a.tar.gz").stat().st_size > 1000
    assert not (tmp_path / "results" / "submissions").exists()
    assert "already" in refused(bundle, "--session-public", "--licence", "CC0-1.0", "--archive", "a.tar.gz")


def test_a_private_one_makes_its_owners_key(bundle, tmp_path):
    done = run(bundle, "--private", "--licence", "CC0-1.0", "--yes")
    assert done.exit_code == 0, done.exception
    assert (tmp_path / "home" / "owner.key").is_file()
    assert "TEXT" not in done.stderr
    kept = (tmp_path / "home" / "owner.key").read_bytes()
    assert "a private submission of this bundle exists already" in refused(
        bundle, "--private", "--licence", "CC0-1.0", "--yes"
    )
    assert (tmp_path / "home" / "owner.key").read_bytes() == kept


def test_no_leaves_no_owners_key(bundle, tmp_path):
    done = run(bundle, "--private", "--licence", "CC0-1.0", "--out", "deep/opp", answer="n\n")
    assert done.stderr.endswith("nothing was written\n")
    assert not (tmp_path / "home" / "owner.key").exists()
    assert not (tmp_path / "deep").exists()


def test_evidence_is_named_by_hash_and_address(bundle, tmp_path):
    (tmp_path / "r.tar").write_bytes(b"rows")
    public = (bundle, "--session-public", "--licence", "CC0-1.0", "--yes")
    done = run(*public, "--evidence-reference", "r.tar", "https://example.org/r.tar", "--json")
    pack = json.loads(done.stdout)["submission"]["evidence"]["reference"]
    assert (pack["url"], pack["size_bytes"]) == ("https://example.org/r.tar", 4)
    assert "url" in refused(*public, "--evidence-reference", "r.tar", "file:///etc/passwd")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--licence", "CC0-1.0"], "they are its text"),
        (["--session-public"], "licence"),
        (["--private", "--session-public", "--licence", "CC0-1.0"], "no public session"),
        (["--private"], "under which licence the counts become public"),
        (["--private", "--licence", "nonsense"], "no SPDX licence"),
        (["--session-public", "--licence", "free for all"], "licence"),
        (["--session-public", "--licence", "CC0-1.0", "--note", "\x1b[2J"], "note"),
        (["--session-public", "--licence", "CC0-1.0", "--archive", "a.rar"], "ends in"),
    ],
)
def test_what_is_refused(bundle, tmp_path, arguments, told):
    assert told in refused(bundle, *arguments, "--yes")
    assert not list((tmp_path / "results").glob("submissions/*"))
