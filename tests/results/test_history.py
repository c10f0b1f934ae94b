import os

import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.results.history import history_since, place_of


@pytest.fixture
def base(repository):
    """A committed results folder with one bundle of each kind and a notice."""
    bundle = repository.bundle("old")
    repository.submission("given")
    repository.notice(bundle)
    repository.trust("maintainer")
    (repository.results / "index.json").write_text("{}")
    repository.commit(new=True)
    return repository


def problems(repository, **options):
    found = history_since(repository.results, "main", **options)
    return {problem.where: problem.message for problem in found.problems}


def test_nothing_new(base):
    found = history_since(base.results, "main")
    assert (found.added, found.problems) == ((), ())


@pytest.mark.parametrize("committed", [True, False])
def test_whole_additions_are_listed(base, committed):
    base.git("switch", "--quiet", "--create", "change")
    own, given = base.bundle("new"), base.submission("also")
    attested, notice = base.attest(own, by="checker"), base.notice(own)
    if committed:
        base.commit()
    else:
        base.git("add", str(own.folder))
    found = history_since(base.results, "main", by_maintainer=True)
    places = [own.folder, given, attested, notice]
    assert found.added == tuple(sorted(place.relative_to(base.results).as_posix() for place in places))
    assert found.problems == ()
    refused = history_since(base.results, "main").problems
    assert {problem.where.partition("/")[0] for problem in refused} == {"new"}
    assert all("added by them alone" in problem.message for problem in refused)


def test_what_a_person_measured_and_git_does_not_know_is_no_addition(base):
    base.bundle("local")
    assert history_since(base.results, "main").added == ()


@pytest.mark.parametrize("committed", [True, False])
def test_nothing_published_changes_or_goes(base, committed):
    base.git("switch", "--quiet", "--create", "change")
    log = next(base.results.glob("old/*/engine.log"))
    log.write_text("another")
    notice = next(base.results.glob("notices/*"))
    notice.unlink()
    lock = next(base.results.glob("old/*/lock.json"))
    lock.unlink()
    lock.symlink_to("/etc/passwd")
    if committed:
        base.commit()
    found = problems(base)
    assert found.keys() == {path.relative_to(base.results).as_posix() for path in (log, notice, lock)}
    assert all("what is published stays as it is" in message for message in found.values())


def test_the_index_may_change_and_keys_only_for_maintainers(base):
    (base.results / "index.json").write_text("{ }")
    base.trust("maintainer", "another")
    assert problems(base) == {"trusted-keys.json": "trusted keys are changed by the maintainers alone"}
    assert problems(base, by_maintainer=True) == {}


def test_the_index_may_not_go_or_become_a_link(base):
    index = base.results / "index.json"
    index.unlink()
    assert "index.json" in problems(base)
    index.symlink_to("trusted-keys.json")
    assert problems(base) == {"index.json": "not a plain file"}


def test_nothing_is_added_to_what_is_there(base):
    folder = next(base.results.glob("submissions/*"))
    (folder / "commitment.json").write_text("{}")
    own = next(base.results.glob("old/*"))
    (own / "statement.dsse.json").write_text("{}")
    found = problems(base)
    assert len(found) == 2
    assert all("was there already" in message for message in found.values())


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "submissions/loose.json",
        "attestations/x.txt",
        "notices/run.sh",
        "notices/deep/a.json",
        "new/file.json",
        "new/20260304T050607Z-0123456789ab/deep/engine.log",
    ],
)
def test_other_files_are_refused(base, name):
    path = base.results / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    base.git("add", "--all")
    assert problems(base) == {name: "belongs to no submission, attestation, bundle or notice"}


@pytest.mark.parametrize("committed", [True, False])
def test_links_and_executables_are_refused(base, committed):
    folder = base.results / "submissions" / "new-0123456789ab"
    folder.mkdir()
    (folder / "submission.json").symlink_to("/etc/passwd")
    (folder / "run").write_text("#!/bin/sh")
    (folder / "run").chmod(0o755)
    base.git("switch", "--quiet", "--create", "change")
    if committed:
        base.commit()
    found = problems(base)
    assert len(found) == 2
    assert all("not a plain file" in message for message in found.values())


def test_a_nested_repository_is_refused(base):
    nested = base.results / "submissions" / "new-0123456789ab"
    nested.mkdir()
    base.git("-C", str(nested), "init", "--quiet")
    (nested / "a").write_text("a")
    base.git("-C", str(nested), "add", "a")
    base.git("-C", str(nested), "commit", "--quiet", "--message=a")
    assert len(problems(base)) == 1
    base.git("switch", "--quiet", "--create", "change")
    base.git("-c", "advice.addEmbeddedRepo=false", "add", "results")
    assert len(problems(base)) == 1


def test_a_names_bytes_are_escaped(base):
    path = os.fsencode(base.results) + b"/notices/\xff\x1b[2J.json"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    found = history_since(base.results, "main")
    # It counts as added, and is refused when its content is read.
    assert found.problems == ()
    (base.results / "a\x1bb").write_text("x")
    base.git("add", "--all")
    assert "a\\x1bb" in problems(base)


def test_what_the_base_gained_meanwhile_is_no_deletion(base):
    base.git("branch", "change")
    base.bundle("later")
    base.commit()
    base.git("switch", "--quiet", "change")
    assert problems(base) == {}


def test_a_commit_that_is_not_there(base, tmp_path_factory):
    for name in ("nowhere", "--output=x", ""):
        with pytest.raises(InvalidInput, match="no such commit"):
            history_since(base.results, name)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(InvalidInput):
        history_since(elsewhere, "main")
    with pytest.raises(InvalidInput, match="no such folder"):
        history_since(elsewhere / "absent", "main")


def test_unrelated_histories_are_said_to_be_too_short(base):
    base.git("switch", "--quiet", "--orphan", "alone")
    base.git("commit", "--quiet", "--allow-empty", "--message=alone")
    base.results.mkdir(exist_ok=True)
    with pytest.raises(MissingPrerequisite, match="does not reach"):
        history_since(base.results, "main")


def test_configuration_of_a_checkout_runs_nothing(base):
    marker = base.root / "ran"
    base.git("config", "diff.external", f"touch {marker}")
    base.git("config", "core.fsmonitor", f"touch {marker}")
    (base.results / "index.json").write_text("{  }")
    problems(base)
    assert not marker.exists()


def test_places():
    assert place_of("submissions/a-0123456789ab/bundle/a/b/c.json") == "submissions/a-0123456789ab"
    assert place_of("notices/a.json") == "notices/a.json"
    assert place_of("a/20260304T050607Z-0123456789ab/lock.json") == "a/20260304T050607Z-0123456789ab"
    assert place_of("a/b/lock.json") is None
