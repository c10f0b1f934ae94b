"""Every hostile fixture is refused, with the code of its threat and a message of its own."""

import re
from pathlib import Path

import pytest

from suite.intake.bundles import _VERIFY_CODES
from suite.intake.examine import examine
from tests.intake import sent_threats  # noqa: F401 - adds to THREATS
from tests.intake.threats import THREATS, Scene

ROOT = Path(__file__).parent.parent.parent
UNUSABLE = {"nothing-here", "not-an-archive"}


@pytest.fixture
def scene(tmp_path, forger, results, keys):
    return Scene(root=tmp_path, forger=forger, results=results, keys=keys)


@pytest.mark.parametrize("name", sorted(THREATS))
def test_refused(name, scene, tmp_path):
    code, make = THREATS[name]
    path = make(scene)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    report = examine(path, scratch=scratch, results=scene.results)
    assert code in [finding.code for finding in report.findings], report.findings
    assert report.exit_code == (2 if code in UNUSABLE else 5)
    assert report.tier is None
    assert all(finding.message.isprintable() and finding.where.isascii() for finding in report.findings)


def test_there_are_many():
    assert len(THREATS) >= 30
    assert len({code for code, _ in THREATS.values()}) >= 60


def test_documented():
    """docs/intake.md lists every code that a fixture shows, and every one that the source names."""
    text = (ROOT / "docs" / "intake.md").read_text()
    listed = set(re.findall(r"`([a-z0-9-]+)`", text))
    source = "".join(path.read_text() for path in (ROOT / "suite" / "intake").glob("*.py"))
    named = set(re.findall(r"(?:Refused|Unusable|_ended|_coded)\(\s*\"([a-z0-9-]+)\"", source))
    assert {code for code, _ in THREATS.values()} | named | set(_VERIFY_CODES.values()) <= listed
    assert len(named) > 60
