import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from suite.bundle.parts import BundleParts
from suite.bundle.read import open_bundle
from suite.bundle.replays import check_replays, find_session, read_replays
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.cli.main import cli
from suite.errors import VerificationFailed
from suite.files import pretty_json
from suite.replay.counts import headlines
from suite.replay.schema import ReplaysRecord
from tests.bundle.test_verify import failure, outcomes, reseal
from tests.bundle.world import World, lock
from tests.replay.sample import record, session


def of_locks(made: ReplaysRecord, digests: dict[str, str], workload: str) -> ReplaysRecord:
    """The sample as if these stacks had written it."""
    runs = tuple(run.model_copy(update={"lock_digest": digests[run.side]}) for run in made.runs)
    return made.model_copy(update={"runs": runs, "workload": made.workload.model_copy(update={"digest": workload})})


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(root=tmp_path_factory.mktemp("replays"))
    parts: BundleParts = world.parts()
    digests = {"candidate": parts.lock.digest, "reference": parts.reference_lock.digest}
    return write_bundle(
        replace(parts, replays=of_locks(record(), digests, parts.lock.workload.digest)), results=world.results
    )


@pytest.fixture
def bundle(honest: Path, tmp_path: Path) -> Path:
    return shutil.copytree(honest, tmp_path / "results" / "fp8-kv" / honest.name)


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change `replays.json` and let `bundle.json` agree in its hashes."""
    path = folder / "replays.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_bytes(pretty_json(value))
    reseal(folder)


def test_an_honest_bundle_verifies_and_shows_what_survives(bundle: Path) -> None:
    assert outcomes(verify_bundle(bundle))["replays"] == "passed"
    shown = CliRunner().invoke(cli, ["show", str(bundle)]).output
    assert "1 of 2 calls survive, 2 of 2 in the reference" in shown
    listed = CliRunner().invoke(cli, ["replay", str(bundle)]).output
    assert "GigabitEthernet0/0/1.20" in listed
    assert "followed in the simulated laboratory: candidate: 1 recovered" in listed
    one = CliRunner().invoke(cli, ["replay", str(bundle), "--show", "1"]).output
    assert "literals changed" in one
    assert "reference cpu-bf16" in one
    opened = open_bundle(bundle)
    assert read_replays(opened) is not None
    assert opened.record.replays is not None


def test_headlines_are_computed_when_written_whatever_the_record_says(tmp_path: Path) -> None:
    world = World(root=tmp_path)
    parts = world.parts()
    digests = {"candidate": parts.lock.digest, "reference": parts.reference_lock.digest}
    made = of_locks(record(), digests, parts.lock.workload.digest).model_copy(update={"headlines": ()})
    folder = write_bundle(replace(parts, replays=made), results=world.results)
    assert open_bundle(folder).record.replays == headlines(made.runs)
    assert "do not follow from its answers" in failure(folder)


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a survivor more": (lambda v: v["headlines"][0]["candidate"].update(survived=2), "do not follow"),
    "another verdict": (lambda v: v["runs"][1]["answers"][0].update(verdict="ok"), "do not follow"),
    "another stack": (lambda v: v["runs"][1].update(lock_digest="c" * 64), "not of the stack"),
    "another session": (lambda v: v["workload"].update(digest="c" * 64), "another session"),
    "a server's answers": (lambda v: v["runs"][1].update(settings="endpoint"), "not of the stack"),
    "an answer less": (lambda v: v["runs"][1]["answers"].pop(), "one for each turn"),
    "markup for a number": (lambda v: v.update(samples="<b>1</b>"), "samples"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_record_is_found(bundle: Path, name: str) -> None:
    change, message = FORGERIES[name]
    forge(bundle, change)
    assert message in failure(bundle)


def with_session() -> tuple[ReplaysRecord, dict[str, Any]]:
    whole = session()
    workload = {"name": "two-turns", "digest": whole.digest(), "tokens_sha256": "a" * 64, "num_tokens": 300}
    ours, theirs = lock("bf16", role="reference", workload=workload), lock("fp8", workload=workload)
    made = of_locks(record(), {"candidate": theirs.digest, "reference": ours.digest}, whole.digest())
    return made, {"lock": theirs, "reference": ours, "session": whole}


def test_verdicts_are_recomputed_where_the_session_is_at_hand() -> None:
    made, facts = with_session()
    assert "every verdict recomputed" in check_replays(made, made.headlines, **facts)
    assert "session is not at hand" in check_replays(made, made.headlines, **(facts | {"session": None}))


def test_a_verdict_that_the_text_does_not_earn_is_found() -> None:
    made, facts = with_session()
    candidate = made.runs[1]
    lie = candidate.answers[0].model_copy(update={"verdict": "ok"})
    runs = (made.runs[0], candidate.model_copy(update={"answers": (lie, *candidate.answers[1:])}))
    forged = made.model_copy(update={"runs": runs, "headlines": headlines(runs)})
    with pytest.raises(VerificationFailed, match="claims ok, recomputed literals changed"):
        check_replays(forged, forged.headlines, **facts)


def test_turns_that_the_session_does_not_have_are_found() -> None:
    made, facts = with_session()
    moved = made.turns[0].model_copy(update={"message": 999})
    forged = made.model_copy(update={"turns": (moved, made.turns[1])})
    with pytest.raises(VerificationFailed, match="not those of the session"):
        check_replays(forged, forged.headlines, **facts)


def test_the_session_is_found_by_its_digest(tmp_path: Path) -> None:
    folder = tmp_path / "workloads" / "mine"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text("{}")
    (folder / "b.json").write_bytes(session().to_json())
    found = find_session(tmp_path, session().digest())
    assert found == session()
    assert find_session(tmp_path, "0" * 64) is None
