"""Where each message, and each part of it, lies in the rendered text; found exactly, or refused.

Every text of the session is rendered once more between two sentinels. Taking the sentinels out must give the stock
text back, which proves that they disturbed nothing; where they stood is where the texts lie. What the template writes
after a message is learnt from the history that ends with it, and what it writes before the assistant's own output
from its generation prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from suite.errors import InvalidInput
from suite.workload.template import Piece, Sentinels, Template

USE_A_TEMPLATE = (
    "use a template that carries them, such as workloads/netops-lab/chatml-tools.jinja: --chat-template, "
    "or `workload.chat_template` in a manifest"
)
CALL_ENVELOPES = (
    ("<tool_call>", "</tool_call>"),
    ("<|tool_call>", "<tool_call|>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    ('<｜DSML｜invoke name="', "</｜DSML｜invoke>"),
    ("<start_function_call>", "<end_function_call>"),
)
"""What opens and closes one call where a template wraps each; other templates get one range for all calls of a turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRange:
    """Characters of one call with its envelope, or of all calls of a turn together."""

    start: int
    end: int | None
    """None: up to the end-of-turn token."""
    names: tuple[str, ...]


@dataclass(kw_only=True, slots=True)
class MessageLayout:
    """Half-open character ranges of one message in the rendered text."""

    role: str
    start: int = 0
    end: int = 0
    output_start: int | None = None
    """End of the generation prompt, for the assistant."""
    content: tuple[int, int] | None = None
    reasoning: tuple[int, int] | None = None
    call_names: list[tuple[int, int]] = field(default_factory=list)
    calls: list[CallRange] = field(default_factory=list)
    lost_content: bool = False
    """The template leaves the message's content out."""

    @property
    def last_piece_end(self) -> int | None:
        """End of the last known text of the message; None if it has none."""
        ends = [piece[1] for piece in (self.content, self.reasoning, *self.call_names) if piece]
        return max(ends, default=None)

    @property
    def first_piece_start(self) -> int | None:
        """Start of the first known text of the message, with the envelope of a call."""
        starts = [piece[0] for piece in (self.content, self.reasoning) if piece]
        return min([*starts, *(call.start for call in self.calls)], default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The rendered text and its messages, in order and without gaps."""

    text: str
    messages: tuple[MessageLayout, ...]


def find_layout(template: Template) -> Layout:
    """Locate every message and its parts in the text of the whole session.

    Raises:
        InvalidInput: the template drops or repeats a text, or a boundary cannot be located exactly.
    """
    text = template.apply(template.messages)
    sentinels = Sentinels(template.messages)
    clean, found = sentinels.split(template.apply(sentinels.messages))
    if clean != text:
        position = next((i for i, (a, b) in enumerate(zip(clean, text, strict=False)) if a != b), len(clean))
        raise _unlocated(f"the template treats marked text differently (character {position})")
    messages = tuple(MessageLayout(role=message["role"]) for message in template.messages)
    _place_pieces(template.messages, messages, sentinels.pieces, found)
    _place_ends(template, sentinels, messages, text, found)
    for index, message in enumerate(messages):
        if message.role == "assistant":
            _place_output(template, messages, index, text)
    return Layout(text=text, messages=messages)


def _unlocated(reason: str, message: int | None = None) -> InvalidInput:
    return InvalidInput(
        f"spans cannot be located exactly: {reason}",
        where="chat_template" if message is None else f"messages.{message}",
        hint="use a template that writes every message once and in order; see docs/workloads.md",
    )


def _place_pieces(
    originals: Sequence[dict[str, Any]],
    messages: Sequence[MessageLayout],
    pieces: Sequence[Piece],
    found: Sequence[tuple[int, int]],
) -> None:
    places: dict[int, int] = {}
    for number, position in found:
        if number in places:
            piece = pieces[number // 2]
            raise _unlocated(f"the template writes its {piece.part} twice", piece.message)
        places[number] = position
    for number, piece in enumerate(pieces):
        message = messages[piece.message]
        start, end = places.get(2 * number), places.get(2 * number + 1)
        if start is None or end is None:
            if (start is None) != (end is None):
                raise _unlocated(f"the template cuts its {piece.part}", piece.message)
            _dropped(piece, message, originals[piece.message])
        elif piece.part == "content":
            message.content = (start, end)
        elif piece.part == "reasoning":
            message.reasoning = (start, end)
        else:
            message.call_names.append((start, end))
    order = [(position, pieces[number // 2].message) for number, position in found]
    for (_, before), (_, after) in pairwise(order):
        if after < before:
            raise _unlocated("the template changes the order of messages", after)


def _dropped(piece: Piece, message: MessageLayout, original: dict[str, Any]) -> None:
    if piece.part == "reasoning":
        return  # many templates leave the reasoning of earlier turns out
    if piece.part == "content" and original.get("tool_calls"):
        message.lost_content = True
        return
    what = "tool calls" if piece.part == "call" else "content"
    raise InvalidInput(
        f"the chat template leaves out the {what} of this {message.role} message",
        where=f"messages.{piece.message}",
        hint=USE_A_TEMPLATE,
    )


def _place_ends(
    template: Template,
    sentinels: Sentinels,
    messages: Sequence[MessageLayout],
    text: str,
    found: Sequence[tuple[int, int]],
) -> None:
    places = dict(found)
    following = {
        number: found[index + 1][1] if index + 1 < len(found) else len(text)
        for index, (number, _) in enumerate(found)
    }  # fmt: skip
    head_end = found[0][1] if found else len(text)

    def end_in(history: Sequence[dict[str, Any]]) -> tuple[int, bool] | None:
        """Where the last message of this history ends in the whole text, and whether all that follows it is there."""
        try:
            clean, seen = sentinels.split(template.apply(history))
        except InvalidInput:
            return None
        last, at = seen[-1] if seen else (None, 0)
        if last is not None and last not in places:
            return None
        begin, limit = (0, head_end) if last is None else (places[last], following[last])
        common = _common_length(clean[at:], text[begin:limit])
        return begin + common, common == len(clean) - at

    start = 0
    for index, message in enumerate(messages):
        ended = end_in(_recent(sentinels.messages, index + 1))
        if ended is None or (message.role == "assistant" and not ended[1]):
            ended = end_in(sentinels.messages[: index + 1])
        end, exact = ended or (start, False)
        own = message.last_piece_end or start
        if message.role == "assistant" and (not exact or end < own):
            raise _unlocated("what the template writes after this turn depends on what follows", index)
        if index == len(messages) - 1:
            end = len(text)
        message.start = start
        start = message.end = max(end, own, start)


def _recent(messages: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Of the first `count` messages the system message and all from the last user message on.

    Rendering every history from its beginning would take time that grows with the square of the length. What is
    learnt from the shorter one is checked against the whole text, and the full history is used where it differs.
    """
    start = max((index for index in range(count) if messages[index]["role"] == "user"), default=0)
    head = [messages[0]] if start and messages[0]["role"] == "system" else []
    return [*head, *messages[start:count]]


def _place_output(template: Template, messages: Sequence[MessageLayout], index: int, text: str) -> None:
    message = messages[index]
    _place_calls(template.messages[index], message, text)
    bound = message.first_piece_start
    if bound is None:
        raise _unlocated("nothing of this assistant message is in the text", index)
    start = text[message.start : bound]
    prompt = _generation_prompt(template, _recent(template.messages, index))
    if prompt is None or not start.startswith(prompt):
        prompt = _generation_prompt(template, template.messages[:index])
    if prompt is None:
        raise _unlocated("the generation prompt changes the history before it", index)
    common = _common_length(prompt, start)
    if prompt and not common:
        raise _unlocated("the turn does not begin with the generation prompt", index)
    message.output_start = message.start + common
    if message.calls and message.calls[0].end is None and not (message.content or message.reasoning):
        # All that the assistant wrote in this turn is calls, whatever their form.
        message.calls = [replace(message.calls[0], start=message.output_start)]


def _generation_prompt(template: Template, history: Sequence[dict[str, Any]]) -> str | None:
    try:
        without = template.apply(history)
        with_prompt = template.apply(history, generation_prompt=True)
    except InvalidInput:
        return None
    return with_prompt[len(without) :] if with_prompt.startswith(without) else None


def _place_calls(original: dict[str, Any], message: MessageLayout, text: str) -> None:
    if not message.call_names:
        return
    names = tuple(call["function"]["name"] for call in original["tool_calls"])
    lower = max([piece[1] for piece in (message.content, message.reasoning) if piece], default=message.start)
    for opening, closing in CALL_ENVELOPES:
        ranges = _envelopes(text, message.call_names, lower, message.end, opening, closing)
        if ranges:
            message.calls = [
                CallRange(start=start, end=end, names=(name,))
                for (start, end), name in zip(ranges, names, strict=True)
            ]  # fmt: skip
            return
    start = message.call_names[0][0]
    if message.content or message.reasoning:
        start -= len(text[lower:start].lstrip())
    message.calls = [CallRange(start=start, end=None, names=names)]


def _envelopes(
    text: str, names: Sequence[tuple[int, int]], lower: int, upper: int, opening: str, closing: str
) -> list[tuple[int, int]] | None:
    # Only fixed text of the template stands between the opening and the name, so that the last opening before the
    # name is the right one whatever the arguments of the call before it contain.
    starts = []
    for number, (name_start, _) in enumerate(names):
        start = text.rfind(opening, lower if number == 0 else names[number - 1][1], name_start)
        if start < 0:
            return None
        starts.append(start)
    ends = []
    for number, (_, name_end) in enumerate(names):
        limit = starts[number + 1] if number + 1 < len(names) else upper
        end = text.rfind(closing, name_end, limit)
        if end < 0:
            return None
        ends.append(end + len(closing))
    return list(zip(starts, ends, strict=True))


def _common_length(first: str, second: str) -> int:
    if second.startswith(first):
        return len(first)
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return index
    return min(len(first), len(second))
