"""The ladder of verdicts: closed, parsed, known name, schema valid, literals intact; and what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from suite.grade.detect import detect_format
from suite.grade.formats import make_grammar
from suite.grade.interface import Fault, Parsed, RawCall
from suite.grade.json_reader import parse_json
from suite.grade.literals import CallText, Context, Literals, compare, text_of
from suite.grade.machine import END_TOKENS
from suite.grade.source import Broken
from suite.grade.tools import ToolSet, same_json, typed
from suite.workload.literals import occurrences


class Verdict(StrEnum):
    """What is said of a call or of an output, in the order of the ladder: the first that applies."""

    ENGINE_ERROR = "engine error"
    TRUNCATED = "truncated"
    NOT_CLOSED = "not closed"
    NOT_PARSED = "not parsed"
    IN_REASONING = "call in reasoning"
    UNKNOWN_NAME = "unknown name"
    SCHEMA_INVALID = "schema invalid"
    LITERALS_CHANGED = "literals changed"
    WRONG_COMMAND = "wrong command"
    OK = "ok"
    NO_CALL = "no call"


class Ending(StrEnum):
    """Why the output ended."""

    STOP = "stop"
    TRUNCATED = "truncated"
    """It ran into the token cap."""
    ENGINE_ERROR = "engine error"
    """The engine failed; the model is not to blame."""


_ORDER = tuple(Verdict)
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class GradedCall:
    """One call on the ladder."""

    closed: bool
    parsed: bool
    name: str | None
    known_name: bool | None
    """None where no tools were given."""
    schema_valid: bool | None
    """None where no tools were given; False too where an earlier rung failed."""
    arguments: dict[str, Any] | None
    literals: Literals
    literals_intact: bool
    right_command: bool | None
    """Whether it is one of the calls that the author calls right here; None where none are marked."""
    in_reasoning: bool
    verdict: Verdict
    first_fault: Fault | None
    start: int
    end: int | None

    def to_json(self) -> dict[str, Any]:
        """As `suite grade --json` prints it."""
        return {
            "closed": self.closed,
            "parsed": self.parsed,
            "name": shown_text(self.name),
            "known_name": self.known_name,
            "schema_valid": self.schema_valid,
            "arguments": shown_text(self.arguments),
            "literals": shown_text(self.literals.to_json()),
            "verdict": str(self.verdict),
            "first_fault": shown_text(self.first_fault.to_json()) if self.first_fault else None,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """One output on the ladder: its calls, and the lowest rung that one of them stopped at."""

    format: str | None
    calls: tuple[GradedCall, ...]
    verdict: Verdict
    stray: Fault | None = None
    """Call syntax outside any call."""
    ending: Ending = field(default=Ending.STOP)

    def to_json(self) -> dict[str, Any]:
        """As `suite grade --json` prints it."""
        return {"calls": [call.to_json() for call in self.calls], "verdict": str(self.verdict)}


def grade(
    output: str | bytes,
    *,
    format: str = "auto",
    tools: ToolSet | None = None,
    context: Context | None = None,
    right_commands: Sequence[tuple[str, dict[str, Any]]] = (),
    ending: Ending = Ending.STOP,
    reasoning_open: bool = False,
) -> Graded:
    """Grade one output.

    Args:
        output: The model's text with special tokens kept; bytes need not be UTF-8.
        format: A name of `suite.grade.formats.GRAMMARS`, or `auto`.
        tools: Known tools; without them names and schemas are not judged, and XML values stay text.
        context: Literals that the calls may and must use; without it literals are not judged.
        right_commands: Name and arguments of each call that is right here; empty where no author said.
        ending: Why the output ended.
        reasoning_open: The prompt ended inside the model's reasoning.

    Raises:
        InvalidInput: unknown format, or `auto` finds several; a tool's schema cannot be applied.
    """
    text = text_from(output)
    if format == "auto":
        detected = detect_format(text)
        if detected is None:
            return Graded(format=None, calls=(), verdict=_without_calls(ending, None), ending=ending)
        format = detected
    grammar = make_grammar(format, reasoning_open=reasoning_open)
    grammar.feed(text)
    parsed = grammar.finish()
    return grade_parsed(parsed, tools=tools, context=context, right_commands=right_commands, ending=ending, text=text)


def grade_parsed(
    parsed: Parsed,
    *,
    tools: ToolSet | None = None,
    context: Context | None = None,
    right_commands: Sequence[tuple[str, dict[str, Any]]] = (),
    ending: Ending = Ending.STOP,
    text: str = "",
) -> Graded:
    """The same for an output that a grammar has read, for instance token by token; `text` places changed literals."""
    tool_words = frozenset(tools.words()) if tools is not None else frozenset()
    judge = _Judge(tools, context, tool_words, right_commands, ending, text)
    calls = tuple(judge.call(raw) for raw in parsed.calls)
    calls = judge.missing_somewhere(calls)
    verdict = _without_calls(ending, parsed.stray)
    if calls:
        verdict = min((call.verdict for call in calls), key=_ORDER.index)
        if verdict is Verdict.TRUNCATED:
            # A call that was wrong before the cap was reached is the model's own.
            others = [call.verdict for call in calls if call.verdict not in (Verdict.TRUNCATED, Verdict.OK)]
            verdict = min(others, key=_ORDER.index) if others else verdict
        if parsed.stray is not None and _ORDER.index(verdict) > _ORDER.index(Verdict.NOT_PARSED):
            verdict = Verdict.NOT_PARSED
    if ending is Ending.ENGINE_ERROR:
        verdict = Verdict.ENGINE_ERROR
    return Graded(format=parsed.format, calls=calls, verdict=verdict, stray=parsed.stray, ending=ending)


def text_from(output: str | bytes) -> str:
    """Text of an output; bytes that are not UTF-8 become lone surrogates, which no grammar takes for text of a call."""
    return output.decode("utf-8", errors="surrogateescape") if isinstance(output, bytes) else output


def shown_text(value: Any) -> Any:
    """A value whose texts can be written as UTF-8: what was not UTF-8 becomes U+FFFD."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {shown_text(key): shown_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown_text(item) for item in value]
    return value


def printable(text: str, *, kept: str = "") -> str:
    """Text of a model as a terminal may show it: what is not printable becomes an escape, but for characters `kept`."""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode("ascii") for c in text)


def _without_calls(ending: Ending, stray: Fault | None) -> Verdict:
    if ending is Ending.ENGINE_ERROR:
        return Verdict.ENGINE_ERROR
    if ending is Ending.TRUNCATED:
        return Verdict.TRUNCATED
    return Verdict.NO_CALL if stray is None else Verdict.NOT_PARSED


@dataclass(frozen=True, slots=True)
class _Judge:
    tools: ToolSet | None
    context: Context | None
    tool_words: frozenset[str]
    right_commands: Sequence[tuple[str, dict[str, Any]]]
    ending: Ending
    text: str

    def call(self, raw: RawCall) -> GradedCall:
        fault = raw.fault
        closed = raw.closed and not (raw.needs_stop_token and self.ending is Ending.TRUNCATED)
        parsed = closed and fault is None
        arguments = raw.arguments if parsed else None
        known: bool | None = None
        valid: bool | None = None
        if self.tools is not None:
            known = raw.name is not None and raw.name in self.tools
            valid = False
            if parsed and raw.untyped | raw.marked_json:
                arguments, fault = self._typed(raw)
                parsed = fault is None
                arguments = arguments if parsed else None
            if parsed and not known:
                fault = Fault(
                    position=raw.start if raw.name_position is None else raw.name_position,
                    message=f"no tool is named {raw.name!r}",
                )
            elif parsed and arguments is not None and raw.name is not None:
                fault = self._schema_fault(raw, arguments)
                valid = fault is None
        elif parsed and raw.marked_json:
            arguments, fault = self._typed(raw)
            parsed = fault is None
            arguments = arguments if parsed else None
        text = self._text(raw, parsed)
        found = compare(text, self.context, tool_words=self.tool_words) if self.context is not None else Literals()
        intact = not found.missing and not found.mutated
        right = self._right(raw.name, arguments)
        verdict = self._verdict(raw, closed, parsed, known, valid, intact, right)
        if fault is None and verdict is not Verdict.OK:
            fault = self._late_fault(raw, verdict, found)
        return GradedCall(
            closed=closed,
            parsed=parsed,
            name=raw.name,
            known_name=known,
            schema_valid=valid,
            arguments=arguments,
            literals=found,
            literals_intact=parsed and known is not False and valid is not False and intact,
            right_command=right,
            in_reasoning=raw.in_reasoning,
            verdict=verdict,
            first_fault=fault,
            start=raw.start,
            end=raw.end,
        )

    def missing_somewhere(self, calls: tuple[GradedCall, ...]) -> tuple[GradedCall, ...]:
        """A literal that must survive need stand in one call of several only."""
        if len(calls) < 2 or self.context is None or not self.context.required:
            return calls
        kept = {literal for call in calls for literal in call.literals.intact}
        settled = []
        for call in calls:
            found = Literals(
                intact=call.literals.intact,
                missing=tuple(item for item in call.literals.missing if item not in kept),
                mutated=tuple(
                    pair for pair in call.literals.mutated if pair[0] not in kept or pair[1] not in self.context.known
                ),
                invented=call.literals.invented,
            )
            intact = not found.missing and not found.mutated
            verdict = call.verdict
            if intact and verdict is Verdict.LITERALS_CHANGED:
                verdict = Verdict.WRONG_COMMAND if call.right_command is False else Verdict.OK
            passed = call.parsed and call.known_name is not False and call.schema_valid is not False
            fault = call.first_fault if verdict is call.verdict else None
            settled.append(
                replace(call, literals=found, literals_intact=passed and intact, verdict=verdict, first_fault=fault)
            )
        return tuple(settled)

    def _typed(self, raw: RawCall) -> tuple[dict[str, Any], Fault | None]:
        """Values that the text leaves open, typed by the tool's schema."""
        arguments = dict(raw.arguments or {})
        for key in (*sorted(raw.untyped), *sorted(raw.marked_json)):
            types = self.tools.types(raw.name, key) if self.tools is not None else None
            if key in raw.untyped:
                arguments[key] = typed(arguments[key], types)
            elif types is None or types - {"string"}:
                try:
                    arguments[key] = parse_json(arguments[key])
                except Broken as broken:
                    position = raw.positions.get(key, raw.start) + broken.fault.position
                    return arguments, Fault(position=position, message=f"{key}: {broken.fault.message}")
        return arguments, None

    def _schema_fault(self, raw: RawCall, arguments: dict[str, Any]) -> Fault | None:
        assert self.tools is not None
        assert raw.name is not None
        for key in sorted(raw.marked_json):
            if self.tools.types(raw.name, key) == frozenset({"string"}):
                return Fault(
                    position=raw.positions.get(key, raw.start),
                    message=f'{key}: string="false", though the schema says that it is a string',
                )
        error = self.tools.first_error(raw.name, arguments)
        if error is None:
            return None
        path, message = error
        position = raw.positions.get(str(path[0]), raw.start) if path else raw.start
        return Fault(position=position, message=f"{'.'.join(map(str, path)) or 'arguments'}: {message}")

    def _late_fault(self, raw: RawCall, verdict: Verdict, found: Literals) -> Fault:
        """Where a call that its format allows is wrong: at the changed literal, else at its start."""
        if verdict is Verdict.LITERALS_CHANGED and found.mutated:
            source, mutant = found.mutated[0]
            stands = next(occurrences(mutant, self.text[raw.start : raw.end]), None)
            position = raw.start + stands[0] if stands else raw.start
            return Fault(position=position, message=f"{mutant!r} stands for {source!r}")
        message = {
            Verdict.LITERALS_CHANGED: f"{found.missing[0]!r} is missing" if found.missing else "",
            Verdict.IN_REASONING: "the call stands inside the reasoning",
            Verdict.WRONG_COMMAND: "another call than those marked right",
        }
        return Fault(position=raw.start, message=message.get(verdict, "the call is not closed"))

    def _text(self, raw: RawCall, parsed: bool) -> CallText:
        """What the call says; of a broken one, what was read before the fault."""
        if raw.arguments is not None:
            return text_of(raw.arguments)
        text = text_of(raw.partial)
        if not text.values or raw.fault is None or not raw.fault.at_end:
            return text
        last = text.values[-1]
        for token in END_TOKENS:
            last = last.removesuffix(token)
        if self.ending is Ending.TRUNCATED:
            # The cap may have cut the last word in two.
            last = last[: len(last) - len(last.split()[-1])] if last.split() and not last[-1].isspace() else last
        return CallText(values=(*text.values[:-1], last), keys=text.keys, commands=text.commands)

    def _right(self, name: str | None, arguments: dict[str, Any] | None) -> bool | None:
        if not self.right_commands:
            return None
        return any(name == right and same_json(arguments, expected) for right, expected in self.right_commands)

    def _verdict(
        self,
        raw: RawCall,
        closed: bool,
        parsed: bool,
        known: bool | None,
        valid: bool | None,
        intact: bool,
        right: bool | None,
    ) -> Verdict:
        if not closed:
            at_end = raw.fault is None or raw.fault.at_end
            if at_end and self.ending is Ending.TRUNCATED:
                return Verdict.TRUNCATED
            if at_end and self.ending is Ending.ENGINE_ERROR:
                return Verdict.ENGINE_ERROR
            return Verdict.NOT_CLOSED
        if not parsed:
            return Verdict.NOT_PARSED
        if raw.in_reasoning:
            return Verdict.IN_REASONING
        if known is False:
            return Verdict.UNKNOWN_NAME
        if valid is False:
            return Verdict.SCHEMA_INVALID
        if not intact:
            return Verdict.LITERALS_CHANGED
        return Verdict.WRONG_COMMAND if right is False else Verdict.OK
