"""Futures as a person reads them: counts, a list of forks, and one fork with both futures side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from suite.branch.counts import branch_intervals, interval_text
from suite.branch.schema import (
    CONSEQUENCES,
    BranchesRecord,
    BranchHeadlines,
    Consequence,
    ConsequenceName,
    Fork,
    Future,
    Role,
)
from suite.grade.verdict import printable
from suite.score.classes import FlipClass

Table = list[tuple[str, ...]]
ROLE_NAMES: dict[Role, str] = {
    "reference": "reference",
    "reference_candidate_token": "reference after the candidate's token",
    "candidate": "candidate",
}
FINISH_NAMES = {
    "turn_end": "the turn ends",
    "envelope": "the tool envelope closes",
    "length": "cut off at the cap",
    "context": "cut off at the context's end",
    "not_continued": "not continued: branching, the engine wrote another first token",
}
_SNIPPET_CHARACTERS = 28


def count_table(headlines: BranchHeadlines, forks: Sequence[Fork]) -> Table:
    """One row for each class and one for all: flips, followed, not used, used, each consequence with its interval."""
    rows: Table = []
    for counts in headlines.by_class:
        mismatches = counts.reference_mismatches + counts.candidate_mismatches + counts.both_mismatch
        rows.append(
            (
                counts.flip_class,
                str(counts.flips),
                str(counts.used + mismatches),
                str(mismatches),
                str(counts.used),
                *_cells(counts.consequences, forks, counts.flip_class),
            )
        )
    totals = {name: sum(c.consequences[name] for c in headlines.by_class) for name in CONSEQUENCES}
    rows.append(
        (
            "all",
            str(sum(c.flips for c in headlines.by_class)),
            str(headlines.followed),
            str(headlines.followed - headlines.used),
            str(headlines.used),
            *_cells(totals, forks, None),
        )
    )
    return rows


_SHOWN = tuple(name for name in CONSEQUENCES if name != "recovered")
COUNT_HEADERS = ("flips", "n", "followed", "not used", "used", *_SHOWN)


def summary_line(name: str, headlines: BranchHeadlines) -> str:
    """One line, for the end of a run."""
    totals = {c: sum(counts.consequences[c] for counts in headlines.by_class) for c in CONSEQUENCES}
    told = ", ".join(f"{count} {c}" for c, count in totals.items() if count)
    return (
        f"{name}: {headlines.followed} flips in the assistant's output followed, {headlines.used} used"
        f"{': ' if told else ''}{told}."
    )


def fork_table(forks: Sequence[Fork]) -> Table:
    """One row a fork: position, class, span, turn, both tokens, consequence, and that of the token alone."""
    return [
        (
            str(fork.position),
            fork.flip_class,
            fork.span_kind,
            str(fork.turn),
            _snippet(fork, "reference"),
            _snippet(fork, "candidate"),
            consequence_text(fork.consequence),
            consequence_text(fork.token_consequence, brief=True),
        )
        for fork in forks
    ]


FORK_HEADERS = ("position", "class", "span", "turn", "reference", "candidate", "consequence", "of the token alone")


def consequence_text(consequence: Consequence | None, *, brief: bool = False) -> str:
    """A consequence in words."""
    if consequence is None:
        return "not used"
    text: str = consequence.name
    if consequence.at is not None and not brief:
        text += f" after {consequence.at}"
    if consequence.in_reference:
        text += ", in the reference too"
    if consequence.detail and not brief:
        text += f": {printable(consequence.detail)}"
    return text if len(text) <= 90 else f"{text[:87]}..."


def top_table(fork: Fork, *, count: int = 8) -> Table:
    """The best tokens of both sides with their probabilities, side by side."""
    pairs = zip(fork.reference_top[:count], fork.candidate_top[:count], strict=False)
    # Quoted, since a token may begin with a space that matters.
    return [(f'"{printable(a.text)}"', f"{a.p:.4f}", f'"{printable(b.text)}"', f"{b.p:.4f}") for a, b in pairs]


def fork_lines(fork: Fork, record: BranchesRecord, *, width: int) -> list[str]:
    """Both futures side by side; `[-…-]` and `{+…+}` mark tokens that only one of them has.

    Args:
        fork: With its futures.
        record: Of the file it stands in.
        width: Columns of the terminal.
    """
    reference, candidate = fork.future("reference"), fork.future("candidate")
    token = fork.future("reference_candidate_token")
    assert candidate is not None
    lines = [f"recorded: {printable(fork.recorded_text)}", ""]
    if reference is None:
        lines += [_head(candidate), *_wrapped(printable(candidate.text), width)]
    else:
        ours, theirs = marked(reference, candidate)
        column = max(20, (width - 3) // 2)
        left = [*_wrapped(_head(reference), column), "", *_wrapped(ours, column)]
        right = [*_wrapped(_head(candidate), column), "", *_wrapped(theirs, column)]
        height = max(len(left), len(right))
        left, right = left + [""] * (height - len(left)), right + [""] * (height - len(right))
        lines += [f"{a.ljust(column)} | {b}".rstrip() for a, b in zip(left, right, strict=True)]
    lines += ["", f"consequence: {consequence_text(fork.consequence)}"]
    if token is not None and reference is not None:
        same = next(
            (i for i, (a, b) in enumerate(zip(token.token_ids, candidate.token_ids, strict=False)) if a != b), None
        )
        told = (
            "as the candidate's to the end of the shorter" if same is None else f"as the candidate's for {same} tokens"
        )
        lines += [
            f"of the token alone: {consequence_text(fork.token_consequence)} ({_head(token)}; {told})",
        ]
    if record.reference is None:
        lines.append("The reference could not be run here: there is nothing to compare with.")
    return lines


def marked(reference: Future, candidate: Future) -> tuple[str, str]:
    """Texts of both futures with the tokens marked that only one of them has."""
    ours: list[str] = []
    theirs: list[str] = []
    matcher = SequenceMatcher(None, reference.token_ids, candidate.token_ids, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        left, right = "".join(reference.token_texts[a:b]), "".join(candidate.token_texts[c:d])
        if kind == "equal":
            ours.append(printable(left))
            theirs.append(printable(right))
            continue
        ours += [f"[-{printable(left)}-]"] if b > a else []
        theirs += [f"{{+{printable(right)}+}}"] if d > c else []
    return "".join(ours), "".join(theirs)


def _cells(counts: Mapping[ConsequenceName, int], forks: Sequence[Fork], flip_class: FlipClass | None) -> list[str]:
    """In the order of `COUNT_HEADERS`; a file has its keys in another."""
    intervals = branch_intervals(forks, flip_class)
    return [f"{counts[name]}{interval_text(intervals.count(name))}" for name in _SHOWN]


def _head(future: Future) -> str:
    tokens = "1 token" if len(future.token_ids) == 1 else f"{len(future.token_ids)} tokens"
    return f"{ROLE_NAMES[future.role]}: {tokens}, {FINISH_NAMES[future.finish]}; {future.verdict}"


def _snippet(fork: Fork, role: Role) -> str:
    future = fork.future(role)
    text = "" if future is None else printable(future.text)
    return text if len(text) <= _SNIPPET_CHARACTERS else f"{text[: _SNIPPET_CHARACTERS - 3]}..."


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, replace_whitespace=False, drop_whitespace=False, break_on_hyphens=False, expand_tabs=False
    )
