"""What CI runs on a pull request: no secret, the base's program, and every hostile addition refused."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from suite.results.index import write_index
from suite.results.load import load_results

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# What starts each: a stranger's proposal, or a maintainer's hand. Another workflow says here what starts it.
TRIGGERS = {"results.yml": "pull_request", "processors.yml": "workflow_dispatch"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_secret_and_pins_what_it_uses(path):
    text = path.read_text(encoding="utf-8")
    value = yaml.safe_load(text)
    # YAML 1.1 reads the key `on` as true.
    assert set(value[True]) == {TRIGGERS[path.name]}
    assert value["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    for job in value["jobs"].values():
        assert "permissions" not in job
        for step in job["steps"]:
            # An expression in a script would be text that a stranger chose.
            assert "${{" not in step.get("run", "")
            if "uses" in step:
                assert len(step["uses"].partition("@")[2]) == 40
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_the_program_comes_from_the_base_and_the_data_from_the_head():
    path = next(path for path in WORKFLOWS if path.name == "results.yml")
    steps = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]["results"]["steps"]
    base, head = (step["with"] for step in steps if "checkout" in step.get("uses", ""))
    assert (base["ref"], base["path"]) == ("${{ github.event.pull_request.base.sha }}", "base")
    assert (head["path"], head["sparse-checkout"]) == ("proposed", "/results/")
    for step in steps:
        assert "proposed/" not in step.get("run", "").replace("proposed/results", "")


@pytest.fixture
def proposed(repository):
    repository.bundle("published")
    repository.trust()
    write_index(load_results(repository.results))
    repository.commit(new=True)
    repository.git("switch", "--quiet", "--create", "change")
    return repository


def check(repository):
    suite = Path(sys.executable).parent / "suite"
    command = [ROOT / ".ci" / "results", suite, repository.results, "main"]
    return subprocess.run(command, capture_output=True, text=True, cwd=repository.root)


def test_an_honest_pull_request_passes(proposed):
    proposed.submission("given")
    write_index(load_results(proposed.results))
    proposed.commit()
    done = check(proposed)
    assert done.returncode == 0, done.stderr
    assert "== submissions/given-" in done.stdout
    assert "accepted: submission of given/" in done.stdout


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: next(r.results.glob("published/*/engine.log")).write_text("x"), "what is published stays"),
        (lambda r: r.bundle("mine"), "added by them alone"),
        (lambda r: r.trust("me"), "trusted keys are changed by the maintainers alone"),
        (lambda r: (r.submission("given") / "run.sh").write_text("#!/bin/sh"), "run.sh"),
        (lambda r: next(r.submission("given").rglob("engine.log")).write_text("x"), "engine.log"),
        (lambda r: r.submission("given"), "suite result index"),
    ],
    ids=["changed", "as a maintainer", "trusts itself", "one file more", "tampered", "old index"],
)
def test_what_is_refused(proposed, change, told):
    change(proposed)
    proposed.git("add", "--all", "results")
    done = check(proposed)
    assert done.returncode in (2, 5)
    assert told in done.stdout + done.stderr


def test_a_file_is_not_opened_before_its_name_is_known(proposed):
    """A link is refused by its kind: what it leads to is never read."""
    folder = proposed.results / "submissions" / "new-0123456789ab"
    folder.mkdir(parents=True)
    (folder / "submission.json").symlink_to("/dev/zero")
    done = check(proposed)
    assert done.returncode == 5
    assert "==" not in done.stdout
