from hypothesis import given
from hypothesis import strategies as st

from suite.replay.counts import headlines, tally
from suite.replay.schema import Answer, Run, Side
from suite.replay.table import pair_line, survival_line

VERDICTS = ("ok", "no call", "literals changed", "truncated", "engine error")


def answer(message: int, verdict: str, sample: int = 0) -> Answer:
    return Answer.model_validate(
        {
            "message": message,
            "sample": sample,
            "seed": sample or None,
            "ending": verdict if verdict in ("truncated", "engine error") else "stop",
            "text": "",
            "token_ids": None,
            "cached_tokens": None,
            "format": "hermes",
            "verdict": verdict,
            "calls": (),
            "same_calls": False,
        }
    )


def run(side: Side, verdicts: list[str]) -> Run:
    return Run(
        side=side,
        settings="measure",
        name=side,
        lock_digest="a" * 64,
        prefix_caching=True,
        max_num_seqs=1,
        effective={},
        engine=None,
        generated_tokens=0,
        seconds=0.0,
        answers=tuple(answer(2 * i + 1, verdict) for i, verdict in enumerate(verdicts)),
    )


@given(st.lists(st.tuples(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS)), min_size=1, max_size=40))
def test_the_four_cells_hold_every_pair_in_which_both_engines_answered(pairs: list[tuple[str, str]]) -> None:
    ours, theirs = run("candidate", [a for a, _ in pairs]), run("reference", [b for _, b in pairs])
    (line,) = headlines([ours, theirs])
    answered = [pair for pair in pairs if "engine error" not in pair]
    cells = (line.both, line.only_reference, line.only_candidate, line.neither)
    assert sum(cell or 0 for cell in cells) == len(answered) == line.paired_turns
    assert line.both == answered.count(("ok", "ok"))
    assert line.candidate.survived == sum(a == "ok" for a, _ in pairs)
    assert line.candidate.n == sum(line.candidate.verdicts.values()) == len(pairs)
    assert (line.p_value is None) == (len(answered) < 10)
    assert pair_line(line) in survival_line(line)


def test_a_difference_is_named_only_where_the_test_shows_it() -> None:
    broken = headlines([run("candidate", ["no call"] * 12), run("reference", ["ok"] * 12)])[0]
    assert broken.p_value is not None
    assert broken.p_value < 0.001
    assert "keeps fewer calls" in pair_line(broken)
    alike = headlines([run("candidate", ["ok", "no call"] * 6), run("reference", ["no call", "ok"] * 6)])[0]
    assert "No difference shown" in pair_line(alike)
    few = headlines([run("candidate", ["no call"] * 9), run("reference", ["ok"] * 9)])[0]
    assert "fewer than 10: counts only" in pair_line(few)


def test_without_a_reference_there_is_no_pairing() -> None:
    (line,) = headlines([run("candidate", ["ok"])])
    assert (line.reference, line.both, line.paired_turns) == (None, None, None)
    assert survival_line(line).endswith("(the reference was not run)")
    assert headlines([run("reference", ["ok"])]) == ()
    assert tally(()).n == 0
