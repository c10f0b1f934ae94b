"""A replay as a person reads it: one line of counts for each stack, how they pair, and what went wrong where."""

from __future__ import annotations

import json

from tabulate import tabulate

from suite.bundle.show import shown
from suite.grade.verdict import printable
from suite.replay.schema import Answer, Headline, RecordedCall, ReplaysRecord, Run, Tally
from suite.score.paired import ALPHA
from suite.score.turns import MIN_TURNS

_MOST_FAULTS = 12
_VERDICTS = (
    "no call",
    "not closed",
    "not parsed",
    "call in reasoning",
    "unknown name",
    "schema invalid",
    "literals changed",
    "wrong command",
    "truncated",
    "engine error",
)


def summary(record: ReplaysRecord) -> str:
    """Counts of every stack, settings and mode, with the pairing below."""
    rows = []
    for line in record.headlines:
        for side, counts in (("candidate", line.candidate), ("reference", line.reference)):
            run = record.run_of("candidate" if side == "candidate" else "reference", line.settings)
            if counts is not None and run is not None:
                rows.append((_title(run), _how(line, record), _survive(counts), _went_wrong(counts)))
    head = f"{record.workload.name}: {len(record.turns)} of {record.workload.num_tool_call_turns} tool-call turns"
    sampler = _sampler(record)
    table = tabulate(rows, headers=("stack", "answers", "calls survive", "the others"), disable_numparse=True)
    below = [text for line in record.headlines for text in (pair_line(line), _followed(line)) if text]
    return "\n".join([f"{head}{sampler}", "", table, *(["", *below] if below else [])])


def faults(record: ReplaysRecord, *, limit: int = _MOST_FAULTS) -> str:
    """The greedy answers that do not survive: turn, what the session has there, verdict and first fault."""
    recorded = {turn.message: turn.calls for turn in record.turns}
    parts = []
    for run in record.runs:
        wrong = [a for a in run.answers if a.mode == "greedy" and not a.survives]
        if not wrong:
            continue
        rows = [(str(a.message), _call(recorded[a.message]), a.verdict, _why(a)) for a in wrong[:limit]]
        table = tabulate(rows, headers=("turn", "the session calls", "verdict", "why"), disable_numparse=True)
        more = f"\n… and {len(wrong) - limit} more" if len(wrong) > limit else ""
        parts.append(f"{_title(run)}, greedy:\n{table}{more}")
    return "\n\n".join(parts)


def survival_line(line: Headline) -> str:
    """`k of m calls survive` on each side, and the pairing."""
    counts = line.candidate
    text = f"turn replay, {line.settings} settings, {line.mode}: {counts.survived} of {counts.n} calls survive"
    if line.reference is None:
        return f"{text} (the reference was not run)"
    return f"{text}, {line.reference.survived} of {line.reference.n} in the reference; {pair_line(line)}"


def pair_line(line: Headline) -> str:
    """How the two sides agree; empty where there is one side only."""
    if line.reference is None:
        return ""
    cells = f"both {line.both}, only the reference {line.only_reference}, only the candidate {line.only_candidate}"
    text = f"{line.mode}, {line.settings}: paired by turn: {cells}, neither {line.neither}. "
    if line.p_value is None:
        return text + f"{line.paired_turns} turns, fewer than {MIN_TURNS}: counts only."
    if line.p_value < ALPHA:
        more = "fewer" if (line.only_reference or 0) > (line.only_candidate or 0) else "more"
        return text + f"The candidate keeps {more} calls (p = {line.p_value:.3g}, sign-flip test over turns)."
    return text + f"No difference shown (p = {line.p_value:.2g}, sign-flip test over {line.paired_turns} turns)."


def side_by_side(record: ReplaysRecord, message: int) -> str:
    """Every answer at one turn of the record, below what the session has there."""
    turn = next(turn for turn in record.turns if turn.message == message)
    parts = [f"turn {message}: the session calls"]
    parts += [f"  {_whole_call(call)}" for call in turn.calls]
    for run in record.runs:
        for answer in run.answers:
            if answer.message != message:
                continue
            how = "greedy" if answer.mode == "greedy" else f"sampled, seed {answer.seed}"
            parts.append(f"\n{run.side} {_title(run)}, {run.settings} settings, {how}: {answer.verdict}")
            parts += [f"  | {printable(text)}" for text in answer.text.splitlines() or [""]]
            if why := _why(answer):
                parts.append(f"  {why}")
            if answer.followed is not None:
                steps = len(answer.followed.steps)
                parts.append(
                    f"  followed for {steps} more turns in the simulated laboratory: {answer.followed.outcome}"
                )
    return "\n".join(parts)


def _followed(line: Headline) -> str:
    """What became of the answers that went on in the simulated laboratory; empty where none did."""
    told = []
    for side, counts in (("candidate", line.candidate), ("reference", line.reference)):
        if counts is not None and counts.outcomes:
            told.append(f"{side}: {', '.join(f'{number} {name}' for name, number in counts.outcomes.items())}")
    return f"{line.mode}, {line.settings}: followed in the simulated laboratory: {'; '.join(told)}." if told else ""


def _title(run: Run) -> str:
    name = shown(run.name, limit=60)
    name = name if run.server is None else f"{name} at {shown(run.server.url, limit=60)}"
    return f"{name} (reference)" if run.side == "reference" else name


def _how(line: Headline, record: ReplaysRecord) -> str:
    mode = line.mode if line.mode == "greedy" else f"{record.samples} sampled each"
    return mode if line.settings == "endpoint" else f"{mode}, {line.settings}"


def _survive(counts: Tally) -> str:
    return f"{counts.survived} of {counts.n}"


def _went_wrong(counts: Tally) -> str:
    by_name = {str(name): count for name, count in counts.verdicts.items()}
    return ", ".join(f"{by_name[name]} {name}" for name in _VERDICTS if by_name.get(name)) or "-"


def _sampler(record: ReplaysRecord) -> str:
    if record.sampler is None:
        return ""
    settings = ", ".join(f"{name} {value:g}" for name, value in record.sampler.parameters().items())
    return f"; sampler ({record.sampler.source}): {settings}"


def _call(calls: tuple[RecordedCall, ...]) -> str:
    more = f" (+{len(calls) - 1})" if len(calls) > 1 else ""
    return shown(_whole_call(calls[0]), limit=48) + more


def _whole_call(call: RecordedCall) -> str:
    values = " ".join(v if isinstance(v, str) else json.dumps(v) for v in call.arguments.values())
    return printable(f"{call.name} {values}")


def _why(answer: Answer) -> str:
    if answer.error:
        return shown(answer.error, limit=90)
    for call in answer.calls:
        if call.verdict == "ok":
            continue
        if call.verdict == "literals changed" and call.literals.mutated:
            return "; ".join(f"{shown(a, limit=40)} became {shown(b, limit=40)}" for a, b in call.literals.mutated[:2])
        if call.first_fault is not None:
            name = f"{shown(call.name, limit=30)}: " if call.name else ""
            return shown(f"{name}{call.first_fault.message}", limit=90)
    if answer.verdict == "no call":
        text = answer.text
        if answer.format == "openai_json":
            try:
                text = str(json.loads(text).get("content") or "")
            except (ValueError, AttributeError):
                text = answer.text
        return "said: " + shown(" ".join(text.split()), limit=60) if text.strip() else "said nothing"
    return ""
