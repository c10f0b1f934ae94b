"""Counting answers: how many survive on each side, and how the two sides agree turn by turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from suite.replay.schema import Answer, Headline, Mode, Run, Tally
from suite.score.paired import sign_flip_test
from suite.score.turns import MIN_TURNS

_MODES: tuple[Mode, ...] = ("greedy", "sampled")


def headlines(runs: Sequence[Run]) -> tuple[Headline, ...]:
    """One headline for each settings and mode under which a candidate answered.

    Args:
        runs: Of one record: answers of the same turns and samples.
    """
    result = []
    for run in runs:
        if run.side != "candidate":
            continue
        other = next((r for r in runs if r.side == "reference" and r.settings == run.settings), None)
        for mode in _MODES:
            ours = [answer for answer in run.answers if answer.mode == mode]
            if ours:
                theirs = None if other is None else [answer for answer in other.answers if answer.mode == mode]
                result.append(_headline(run, mode, ours, theirs))
    return tuple(result)


def tally(answers: Sequence[Answer]) -> Tally:
    """Counts of one side."""
    return Tally(
        survived=sum(answer.survives for answer in answers),
        n=len(answers),
        verdicts=dict(sorted(Counter(answer.verdict for answer in answers).items())),
        same_calls=sum(answer.same_calls for answer in answers),
        outcomes=dict(sorted(Counter(a.followed.outcome for a in answers if a.followed is not None).items())),
    )


def _headline(run: Run, mode: Mode, ours: Sequence[Answer], theirs: Sequence[Answer] | None) -> Headline:
    if theirs is None:
        return Headline(
            settings=run.settings, mode=mode, candidate=tally(ours), reference=None, both=None, only_reference=None,
            only_candidate=None, neither=None, paired_turns=None, p_value=None,
        )  # fmt: skip
    # An engine that failed on one side says nothing about the answer; the pair is left out.
    pairs = [
        (a, b)
        for a, b in zip(ours, theirs, strict=True)
        if "engine error" not in (a.ending, b.ending)
    ]  # fmt: skip
    cells = Counter((a.survives, b.survives) for a, b in pairs)
    differences: dict[int, int] = {}
    for a, b in pairs:
        differences[a.message] = differences.get(a.message, 0) + a.survives - b.survives
    enough = len(differences) >= MIN_TURNS
    values = np.array(list(differences.values()), dtype=np.float64)
    return Headline(
        settings=run.settings,
        mode=mode,
        candidate=tally(ours),
        reference=tally(theirs),
        both=cells[True, True],
        only_reference=cells[False, True],
        only_candidate=cells[True, False],
        neither=cells[False, False],
        paired_turns=len(differences),
        p_value=sign_flip_test(values).p_value if enough else None,
    )
