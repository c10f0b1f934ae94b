"""What a person sees: counts with intervals where turns allow them, a list, and both futures side by side."""

from __future__ import annotations

import json

from suite.branch.counts import branch_intervals
from suite.branch.file import pack_forks
from suite.branch.schema import CONSEQUENCES, BranchHeadlines, ClassCounts, Consequence
from suite.branch.show import (
    COUNT_HEADERS,
    consequence_text,
    count_table,
    fork_lines,
    fork_table,
    marked,
    summary_line,
    top_table,
)
from suite.grade.verdict import printable
from suite.score.classes import FLIP_CLASSES
from tests.branch import sample

FORKS = sample.forks()
RECORD = sample.record(pack_forks(FORKS)[1])


def test_tokens_that_one_side_alone_has_are_marked() -> None:
    ours, theirs = marked(FORKS[0].futures[0], FORKS[0].futures[2])
    assert ours == "\\n</parameter>\\n</function>\\n</tool_call>"
    assert theirs.startswith("{+.201")
    ours, theirs = marked(FORKS[1].futures[0], FORKS[1].futures[2])
    assert ours.startswith("[-Yes,-] the port")
    assert theirs.startswith("{+So+} the port")


def test_both_futures_stand_side_by_side() -> None:
    lines = fork_lines(FORKS[1], RECORD, width=100)
    assert all(len(line) <= 100 for line in lines[2:-2])
    assert any("reference: 11 tokens" in line and "candidate: 11 tokens" in line for line in lines)
    assert lines[-2] == "consequence: absorbed after 1"
    assert "as the candidate's to the end" in lines[-1]


def test_a_fork_that_is_not_used_says_why() -> None:
    text = "\n".join(fork_lines(FORKS[2], RECORD, width=120))
    assert "another first token" in text
    assert "consequence: not used" in text


def test_without_the_reference_there_is_one_future() -> None:
    alone = FORKS[1].model_copy(update={"futures": FORKS[1].futures[2:]})
    lines = fork_lines(alone, RECORD.model_copy(update={"reference": None}), width=100)
    assert any(line.startswith("candidate: 11 tokens") for line in lines)
    assert "could not be run here" in lines[-1]


def test_hostile_text_is_shown_as_escapes() -> None:
    assert printable("a\x1b[2J\u202eb\udc80é\n") == "a\\x1b[2J\\u202eb\\udc80é\\n"


def test_the_list_has_one_row_for_each_fork() -> None:
    rows = fork_table(FORKS)
    assert [row[0] for row in rows] == ["1200", "2404", "3000"]
    assert rows[0][6] == "wrong literal: GigabitEthernet0/0/1.201 stands for GigabitEthernet0/0/1"
    assert rows[2][6:] == ("not used", "not used")
    assert (
        consequence_text(Consequence(name="wrong command", in_reference=True)) == "wrong command, in the reference too"
    )


def test_the_best_tokens_of_both_sides_stand_side_by_side() -> None:
    assert top_table(FORKS[0])[0] == ('"\\n</parameter>"', "0.6100", '"."', "0.4800")


def headlines(used: int) -> BranchHeadlines:
    zero = dict.fromkeys(CONSEQUENCES, 0)
    by_class = tuple(
        ClassCounts(
            flip_class=name,
            flips=used if name == "tied" else 0,
            outside_output=0,
            left_out=0,
            reference_mismatches=0,
            candidate_mismatches=0,
            both_mismatch=0,
            used=used if name == "tied" else 0,
            consequences=zero | ({"absorbed": used} if name == "tied" else {}),
            in_reference=zero,
            token_consequences=zero,
        )
        for name in FLIP_CLASSES
    )
    return BranchHeadlines(followed=used, used=used, by_class=by_class)


def test_counts_have_intervals_only_over_enough_turns() -> None:
    few = [FORKS[1].model_copy(update={"position": i, "turn": i}) for i in range(9)]
    assert branch_intervals(few, "tied").refusal == "9 turns, fewer than 10: counts only"
    other = FORKS[1].model_copy(update={"position": 99, "turn": 30, "consequence": Consequence(name="other words")})
    many = [FORKS[1].model_copy(update={"position": i, "turn": i % 15}) for i in range(30)] + [other] * 4
    found = branch_intervals(many, None).count("absorbed")
    assert found is not None
    assert found.low < 30 <= found.high
    assert branch_intervals([], None).refusal == "no forks"


def test_the_table_ends_with_the_sum_over_the_classes() -> None:
    rows = count_table(headlines(3), [FORKS[1]])
    assert [row[0] for row in rows] == [*FLIP_CLASSES, "all"]
    assert rows[-1][1:6] == ("3", "3", "0", "3", "3")
    assert summary_line("x", headlines(3)) == ("x: 3 flips in the assistant's output followed, 3 used: 3 absorbed.")


def test_each_count_stands_under_its_own_name_also_when_read_from_a_file() -> None:
    told = headlines(3)
    value = json.loads(told.model_dump_json())
    for counts in value["by_class"]:
        counts["consequences"] = dict(sorted(counts["consequences"].items(), reverse=True))
    read = BranchHeadlines.model_validate_json(json.dumps(value))
    for rows in (count_table(told, [FORKS[1]]), count_table(read, [FORKS[1]])):
        row = dict(zip(COUNT_HEADERS, rows[0], strict=True))
        assert (row["flips"], row["used"], row["absorbed"], row["undecided"]) == ("tied", "3", "3", "0")
        assert sum(int(row[name]) for name in CONSEQUENCES if name != "recovered") == 3
