"""A session of chosen episodes, by the command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from suite.cli.workload import workload
from suite.errors import InvalidInput
from suite.workload.session import parse_session

COMMAND = ("synthesize", "--seed", "5", "--episodes", "ask-lookup,ask-thanks")


def test_just_these_episodes_in_this_order() -> None:
    done = CliRunner().invoke(workload, [*COMMAND, "--name", "mine"])
    assert done.exit_code == 0, done.output
    session = parse_session(done.stdout_bytes)
    assert (session.name, session.provenance.episodes) == ("mine", ["ask-lookup", "ask-thanks"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (COMMAND, "a session of chosen episodes needs a name"),
        ((*COMMAND, "--name", "x", "--tokens", "3000"), "needs either a length or episodes"),
        (("synthesize", "--seed", "5"), "needs either a length or episodes"),
        (("synthesize", "--seed", "5", "--name", "x", "--episodes", "ask-nobody"), "ask-nobody"),
    ],
)
def test_what_is_missing_or_unknown_is_named(wrong: tuple[str, ...], said: str) -> None:
    error = CliRunner().invoke(workload, list(wrong)).exception
    assert isinstance(error, InvalidInput)
    assert said in str(error)
