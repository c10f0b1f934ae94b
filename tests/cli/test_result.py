import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, VerificationFailed
from suite.results.notice import read_notices
from tests.results.repository import Repository


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    return Repository(root=tmp_path)


def run(*arguments):
    done = CliRunner().invoke(cli, ["result", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_list_for_people_and_for_programs(repository):
    bundle = repository.bundle()
    given = repository.submission("given")
    repository.notice(bundle, kind="withdrawal")
    lines = run("list").splitlines()
    assert lines[1].split()[:3] == [bundle.bundle_id, "own", "self-reported"]
    assert "withdrawn 2026-04-01" in lines[1]
    assert repository.key("submitter").key_id[:16] in lines[2]
    value = json.loads(run("list", "--json"))
    assert [one["withdrawn"] for one in value["results"]] == [True, False]
    assert value["results"][1]["place"] == f"submissions/{given.name}"
    run("index")
    assert json.loads((repository.results / "index.json").read_bytes()) == value


def test_an_empty_folder(repository):
    repository.results.mkdir()
    assert run("list") == ""


def test_notices(repository):
    bundle, other = repository.bundle(), repository.bundle("other")
    run("correct", bundle.folder, "--why", "two threads", "--replaced-by", other.bundle_id)
    run("withdraw", bundle.bundle_id, "--why", "wrong card")
    found = read_notices(repository.results)
    assert [(notice.kind, notice.why, notice.replaced_by) for notice in found] == [
        ("correction", "two threads", other.bundle_id),
        ("withdrawal", "wrong card", None),
    ]
    with pytest.raises(InvalidInput, match=r"was withdrawn on \S+ already") as caught:
        run("withdraw", bundle.bundle_id, "--why", "again")
    assert "suite result correct" in caught.value.hint
    with pytest.raises(InvalidInput, match="no such result"):
        run("correct", bundle.bundle_id, "--why", "x", "--replaced-by", "nothing")
    with pytest.raises(InvalidInput, match="not printable"):
        run("correct", bundle.bundle_id, "--why", "\u202ex")
    with pytest.raises(InvalidInput, match="a result cannot replace itself") as caught:
        run("correct", bundle.bundle_id, "--why", "x", "--replaced-by", bundle.bundle_id)
    assert caught.value.where == "--replaced-by"
    for why in ("", " \n"):
        with pytest.raises(InvalidInput, match="is empty") as caught:
            run("correct", bundle.bundle_id, "--why", why)
        assert caught.value.where == "--why"
    assert len(read_notices(repository.results)) == 2


def test_a_withdrawn_result_can_be_corrected_and_stays_withdrawn(repository):
    bundle, other = repository.bundle(), repository.bundle("other")
    run("withdraw", bundle.bundle_id, "--why", "wrong card")
    done = CliRunner().invoke(
        cli, ["result", "correct", bundle.bundle_id, "--why", "here again", "--replaced-by", other.bundle_id]
    )
    assert done.exit_code == 0, done.output
    assert "the result stays withdrawn" in done.stderr
    run("index")
    run("check")
    (found,) = [one for one in json.loads(run("list", "--json"))["results"] if one["bundle_id"] == bundle.bundle_id]
    assert found["withdrawn"]
    assert [notice["kind"] for notice in found["notices"]] == ["withdrawal", "correction"]


def test_a_bundle_that_git_does_not_know(repository):
    repository.bundle("published")
    repository.commit(new=True)
    own = repository.bundle("measured")
    for named in (own.folder.relative_to(repository.root), own.folder, own.bundle_id):
        with pytest.raises(InvalidInput, match="git does not know this bundle"):
            run("correct", named, "--why", "x")
    folder = repository.submission("sent")
    sent = next(folder.glob("bundle/*/*"))
    (repository.results / "sent").mkdir()
    here = Path(shutil.copytree(sent, repository.results / "sent" / sent.name))
    with pytest.raises(InvalidInput, match="is its submission") as caught:
        run("correct", here, "--why", "x")
    assert folder.name in caught.value.hint
    assert not (repository.results / "notices").exists()


def test_who_submitted_a_result_does_not_attest_it(repository):
    folder = repository.submission("given")
    key = repository.root / "keys" / "submitter"
    with pytest.raises(InvalidInput, match="this key signed the bundle or its submission"):
        run("attest", folder, "--key", key)
    assert not (repository.results / "attestations").exists()


def test_trust(repository):
    repository.results.mkdir()
    key = repository.key("lab")
    run("trust", repository.root / "keys" / "lab.pub", "--name", "A laboratory")
    (listed,) = json.loads((repository.results / "trusted-keys.json").read_bytes())["keys"]
    assert (listed["key_id"], listed["role"]) == (key.key_id, "reproducer")
    with pytest.raises(InvalidInput, match="listed already"):
        run("trust", repository.root / "keys" / "lab.pub", "--name", "Again")
    with pytest.raises(InvalidInput, match="not printable"):
        run("trust", repository.root / "keys" / "lab.pub", "--name", "a\x07")
    with pytest.raises(InvalidInput, match="is empty") as caught:
        run("trust", repository.root / "keys" / "lab.pub", "--name", "")
    assert caught.value.where == "--name"


def test_a_private_result_is_attested_by_nobody(repository):
    folder = repository.private()
    repository.key("checker")
    with pytest.raises(InvalidInput, match="nothing that could be recomputed"):
        run("attest", folder, "--key", repository.root / "keys" / "checker")


def test_a_check_prints_additions_and_fails_on_the_rest(repository):
    repository.bundle()
    run("index")
    repository.commit(new=True)
    given = repository.submission("given")
    with pytest.raises(InvalidInput, match="no commit"):
        run("check", "--names-only")
    assert run("check", "--since", "main", "--names-only") == f"submissions/{given.name}\n"
    done = CliRunner().invoke(cli, ["result", "check", "--since", "main", "--json"])
    assert isinstance(done.exception, VerificationFailed)
    value = json.loads(done.stdout)
    assert not value["holds"]
    assert value["added"] == [f"submissions/{given.name}"]
    assert [problem["where"] for problem in value["problems"]] == ["index.json"]
    run("index")
    done = CliRunner().invoke(cli, ["result", "check", "--since", "main"])
    assert (done.stdout, done.stderr) == (f"submissions/{given.name}\n", "2 results hold together\n")
