"""The walk of docs/community.md by the commands that stand there, each state seen in the list and on the site."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.bundle.redact import Private
from suite.bundle.write import write_bundle
from suite.cli.main import cli
from tests.bundle.world import CREATED, World

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "community.md").read_text(encoding="utf-8"), re.M | re.S)
SITE = next(block for block in BLOCKS if "site build" in block)


@pytest.fixture
def checkout(repository):
    """A checkout with one published bundle, and two of one stack that were measured there and git does not know."""
    repository.bundle("published")
    (repository.root / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "results", repository.root / ".ci" / "results")
    repository.trust()
    shell(repository, "suite result index")
    repository.commit(new=True)
    repository.git("switch", "--quiet", "--create", "change")
    world = World(root=repository.root / "home")
    parts = replace(world.parts("demo-w8a8-int8"), engine_log="loaded\n", private=Private())
    for created in (CREATED, CREATED + timedelta(seconds=60)):
        write_bundle(replace(parts, created=created), results=repository.results)
    return repository


def shell(repository, block, *, code=0):
    """Run lines as a person would, who says yes."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(repository.root / "person"),
        "SUITE_HOME": str(repository.root / "home"),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=repository.root,
        env=environment,
        input="y\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, f"{block}\n{done.stdout}\n{done.stderr}"
    return done


def state(repository):
    """What `suite result list --json` says of the submission; asked in this process, which starts nothing."""
    with chdir(repository.root):
        done = CliRunner().invoke(cli, ["result", "list", "--json"], catch_exceptions=False)
    listed = json.loads(done.stdout)["results"]
    (found,) = [one for one in listed if one["bundle_id"].startswith("demo-w8a8-int8/")]
    return found


def page(repository):
    """The submission's page on the site, as the documented command builds it."""
    shell(repository, SITE)
    (path,) = (repository.root / "public" / "results" / "demo-w8a8-int8").glob("*/index.html")
    return path.read_text(encoding="utf-8")


def test_the_walk_by_documented_commands_alone(checkout):
    blocks = iter(block for block in BLOCKS if block != SITE)
    shell(checkout, next(blocks))
    told = shell(checkout, next(blocks)).stderr
    assert "THE SESSION'S TEXT" in told
    assert "Shall all this become public?" in told
    submitted = state(checkout)
    assert (submitted["origin"], submitted["tier"], submitted["withdrawn"]) == ("submitted", "self-reported", False)
    assert submitted["licence"] == "Apache-2.0"
    assert len(submitted["signers"]) == 1

    checkout.commit_only("results/submissions", "results/index.json")
    taken_in = shell(checkout, next(blocks)).stdout
    assert taken_in.count("accepted: submission of demo-w8a8-int8/") == 2

    shell(checkout, next(blocks))
    attested = state(checkout)
    assert [one["found"] for one in attested["attestations"]] == ["11 of 11 rows"]
    assert attested["tier"] == "self-reported"
    assert "consistent" in shell(checkout, next(blocks)).stdout
    assert state(checkout)["tier"] == "consistent"
    assert "consistent" in page(checkout)

    shell(checkout, next(blocks))
    corrected = state(checkout)
    assert [notice["kind"] for notice in corrected["notices"]] == ["correction"]
    assert (corrected["tier"], corrected["withdrawn"]) == ("consistent", False)

    shell(checkout, next(blocks))
    withdrawn = state(checkout)
    assert withdrawn["withdrawn"]
    assert [notice["kind"] for notice in withdrawn["notices"]] == ["correction", "withdrawal"]
    assert list(blocks) == []
    shown = page(checkout)
    for words in ("withdrawn", "Another checkpoint than the one named.", "a build meanwhile"):
        assert words in shown

    index = json.loads((checkout.results / "index.json").read_bytes())["results"]
    assert withdrawn in index
    assert [one["bundle_id"].partition("/")[0] for one in index] == ["demo-w8a8-int8", "published"]
