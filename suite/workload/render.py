"""Rendering a session to token ids with spans, for one tokenizer and one chat template."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.workload.layout import USE_A_TEMPLATE, Layout, MessageLayout, find_layout
from suite.workload.literals import occurrences
from suite.workload.rendered import Flag, Rendered, Span, SpanKind, Turn, span_order, tokens_sha256
from suite.workload.session import AssistantMessage, Session, ToolMessage
from suite.workload.template import Template
from suite.workload.tokenizer import NotReproduced, Tokenizer, load_tokenizer

_CONTENT_KINDS: dict[str, SpanKind] = {"system": "system", "user": "user", "tool": "tool_result"}

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>")
"""Text that templates and parsers act on even where the tokenizer has no token of its own for it."""


def render(session: Session, tokenizer_dir: Path, *, chat_template: str | None = None) -> Rendered:
    """Render a whole session, without a generation prompt at its end.

    A token belongs to the range that holds its first byte, except that a literal's span holds every token that
    carries one of its bytes. Where the session keeps the ids that a server used with this very tokenizer and
    template, those are taken; they must spell the same text.

    Args:
        session: What to render.
        tokenizer_dir: Model folder with `tokenizer.json`.
        chat_template: Text of a Jinja template to use in place of the model's own.

    Raises:
        MissingPrerequisite: no tokenizer there.
        InvalidInput: the template refuses or drops something, or spans cannot be located exactly.
    """
    return render_with(session, load_tokenizer(tokenizer_dir), chat_template=chat_template)


def render_with(session: Session, tokenizer: Tokenizer, *, chat_template: str | None = None) -> Rendered:
    """The same with a tokenizer that is already loaded."""
    template = Template(tokenizer, session, chat_template)
    try:
        token_ids, layout, starts = _tokens(session, tokenizer, template)
    except NotReproduced as error:
        normalized = _nfc(session)
        if normalized == session:
            raise _not_reproduced(error) from error
        # Some tokenizers compose characters first; what they read is the composed text, so that is what is located.
        template = Template(tokenizer, normalized, chat_template)
        try:
            token_ids, layout, starts = _tokens(normalized, tokenizer, template)
        except NotReproduced as second:
            raise _not_reproduced(second) from second
        session_text = normalized
    else:
        session_text = session
    if template.ignores_tools():
        raise InvalidInput(
            "the chat template leaves the tool definitions out",
            where="tools",
            hint=USE_A_TEMPLATE,
        )
    spans, turns = _Mapper(session_text, tokenizer, layout, token_ids, starts).result()
    return Rendered(
        token_ids=token_ids,
        spans=spans,
        turns=turns,
        workload_digest=session.digest(),
        tokens_sha256=tokens_sha256(token_ids),
        tokenizer_sha256=tokenizer.sha256,
        chat_template_sha256=template.sha256,
        flags=_flags(session, tokenizer, layout, composed=session_text is not session),
    )


def prompt_ids(
    session: Session, tokenizer_dir: Path, message: int, *, chat_template: str | None = None
) -> tuple[int, ...]:
    """Token ids of the history before `message` with the generation prompt: what a server would be sent there.

    Templates that shorten earlier turns may make this differ from the beginning of the whole rendered session.

    Raises:
        InvalidInput: `message` is not an assistant message, or the template refuses the history.
    """
    if not 0 <= message < len(session.messages) or session.messages[message].role != "assistant":
        raise InvalidInput("not an assistant message", where=f"messages.{message}")
    tokenizer = load_tokenizer(tokenizer_dir)
    template = Template(tokenizer, session, chat_template)
    return tokenizer.encode(template.apply(template.messages[:message], generation_prompt=True))


def _tokens(
    session: Session, tokenizer: Tokenizer, template: Template
) -> tuple[tuple[int, ...], Layout, list[int]]:  # fmt: skip
    layout = find_layout(template)
    recorded = session.recorded
    if recorded and (recorded.tokenizer_sha256, recorded.chat_template_sha256) == (tokenizer.sha256, template.sha256):
        token_ids = tuple(recorded.token_ids)
        if max(token_ids) >= len(tokenizer.backend):
            raise InvalidInput("a recorded id lies outside the vocabulary", where="recorded.token_ids")
    else:
        token_ids = tokenizer.encode(layout.text)
        if token_ids != template.token_ids():
            raise InvalidInput(
                "the tokenizer's chat method gives other ids than its text",
                where=str(tokenizer.folder),
                hint="the folder's tokenizer adds tokens of its own; spans cannot be located",
            )
    return token_ids, layout, tokenizer.starts(layout.text, token_ids)


def _not_reproduced(error: NotReproduced) -> InvalidInput:
    return InvalidInput(
        f"the token ids do not spell the rendered text ({error})",
        where="token_ids",
        hint="the tokenizer changes the text before it reads it, or the recorded ids belong to another session",
    )


def _nfc(session: Session) -> Session:
    def compose(value: Any) -> Any:
        if isinstance(value, str):
            return unicodedata.normalize("NFC", value)
        if isinstance(value, dict):
            return {compose(key): compose(item) for key, item in value.items()}
        if isinstance(value, list):
            return [compose(item) for item in value]
        return value

    return Session.model_validate(compose(session.model_dump(mode="json", exclude_none=True)))


class _Mapper:
    """From characters of the rendered text to spans and turns of tokens."""

    def __init__(
        self, session: Session, tokenizer: Tokenizer, layout: Layout, token_ids: tuple[int, ...], starts: list[int]
    ) -> None:
        self._session = session
        self._layout = layout
        self._ids = token_ids
        self._starts = starts
        self._special = {token_id for token_id, token in tokenizer.added.items() if token.special}
        text = layout.text
        self._bytes = range(len(text) + 1) if text.isascii() else [0, *accumulate(len(c.encode()) for c in text)]

    def result(self) -> tuple[tuple[Span, ...], tuple[Turn, ...]]:
        """Checked by `Rendered` itself."""
        spans: list[Span] = []
        turns: list[Turn] = []
        names = _call_names(self._session)
        marks: dict[int, list[str]] = {}
        for mark in self._session.marks:
            marks.setdefault(mark.message, []).extend(mark.must_survive)
        for index, message in enumerate(self._layout.messages):
            start = 0 if index == 0 else turns[-1].end
            end = len(self._ids) if index == len(self._layout.messages) - 1 else self._token(message.end)
            own = self._assistant(index, message, end) if message.role == "assistant" else self._other(
                index, message, names.get(index)
            )  # fmt: skip
            output_start = own[0].start if own and own[0].kind == "assistant_output" else None
            turns.append(Turn(index=index, role=message.role, start=start, end=end, output_start=output_start))
            position = start
            for span in [span for span in own if span.kind in ("assistant_output", *_CONTENT_KINDS.values())]:
                if span.start > position:
                    spans.append(Span(start=position, end=span.start, kind="scaffold", turn=index))
                position = span.end
            if position < end:
                spans.append(Span(start=position, end=end, kind="scaffold", turn=index))
            spans.extend(own)
            spans.extend(self._literals(index, message, own, marks.get(index, [])))
        return tuple(sorted(spans, key=span_order)), tuple(turns)

    def _token(self, character: int) -> int:
        """The first token that begins at or after this character."""
        return bisect_left(self._starts, self._bytes[character], hi=len(self._ids))

    def _span(
        self, characters: tuple[int, int], kind: SpanKind, turn: int, label: str | None = None
    ) -> list[Span]:  # fmt: skip
        start, end = self._token(characters[0]), self._token(characters[1])
        return [Span(start=start, end=end, kind=kind, turn=turn, label=label)] if start < end else []

    def _other(self, index: int, message: MessageLayout, label: str | None) -> list[Span]:
        if message.content is None:
            return []
        return self._span(message.content, _CONTENT_KINDS[message.role], index, label)

    def _assistant(self, index: int, message: MessageLayout, turn_end: int) -> list[Span]:
        assert message.output_start is not None
        assert message.last_piece_end is not None
        start = self._token(message.output_start)
        written = self._token(message.last_piece_end)
        last_special = next(
            (token for token in range(turn_end - 1, written - 1, -1) if self._ids[token] in self._special), None
        )
        if last_special is not None:
            end = last_special + 1
        else:  # a template without an end-of-turn token: the output ends with what is known to be the assistant's
            last_call = message.calls[-1].end if message.calls else message.last_piece_end
            end = turn_end if last_call is None else self._token(last_call)
        if not start < end:
            raise InvalidInput("the assistant's turn holds no token", where=f"messages.{index}")
        spans = [Span(start=start, end=end, kind="assistant_output", turn=index)]
        if message.reasoning:
            spans += self._span(message.reasoning, "reasoning", index)
        for call in message.calls:
            label = ",".join(call.names)
            if call.end is not None:
                spans += self._span((call.start, call.end), "tool_call", index, label)
            else:
                call_end = last_special if last_special is not None else end
                call_start = self._token(call.start)
                spans.append(Span(start=call_start, end=call_end, kind="tool_call", turn=index, label=label))
        return spans

    def _literals(self, index: int, message: MessageLayout, own: list[Span], literals: list[str]) -> list[Span]:
        spans = []
        text = self._layout.text
        start = message.output_start if message.output_start is not None else message.start
        begin, end = (start, message.end) if message.role == "assistant" else (message.content or (0, 0))
        for literal in dict.fromkeys(literals):
            places = list(occurrences(literal, text[begin:end]))
            if not places:
                raise InvalidInput(
                    f"the marked literal {literal!r} is not in the rendered text of this message",
                    where=f"messages.{index}",
                    hint="templates may escape quotes and backslashes; mark a part without them",
                )
            for first, last in places:
                low, high = self._bytes[begin + first], self._bytes[begin + last]
                span_start = bisect_right(self._starts, low, hi=len(self._ids)) - 1
                span_end = bisect_left(self._starts, high, hi=len(self._ids))
                inside = [span for span in own if span.start < span_end and span_start < span.end]
                home = min(inside, key=lambda span: span.end - span.start, default=None)
                if home is None:
                    continue
                spans.append(
                    Span(
                        start=max(span_start, home.start),
                        end=min(span_end, home.end),
                        kind="literal",
                        turn=index,
                        label=literal,
                    )
                )
        return spans


def _call_names(session: Session) -> dict[int, str]:
    """For every tool message, the name of the tool that it answers for."""
    by_id: dict[str, str] = {}
    names: dict[int, str] = {}
    for index, message in enumerate(session.messages):
        if isinstance(message, AssistantMessage):
            by_id.update({call.id: call.function.name for call in message.tool_calls or []})
        elif isinstance(message, ToolMessage):
            names[index] = by_id[message.tool_call_id]
    return names


def _flags(session: Session, tokenizer: Tokenizer, layout: Layout, *, composed: bool) -> tuple[Flag, ...]:
    from suite.workload.checks import message_texts

    special = [token.text for token in tokenizer.added.values() if token.special]
    flags = []
    for index, message in enumerate(session.messages):
        texts = "\n".join(message_texts(message))
        for token in special:
            if token in texts:
                reason = "this text becomes a special token, which ends or opens a turn for the model"
                flags.append(Flag(turn=index, role=message.role, text=token, reason=reason))
        for token in MARKUP:
            if token in texts and token not in special:
                reason = "templates and parsers take this text for their own markup"
                flags.append(Flag(turn=index, role=message.role, text=token, reason=reason))
        if layout.messages[index].lost_content:
            reason = "the template leaves the text beside this message's calls out"
            flags.append(Flag(turn=index, role=message.role, text=(message.content or "")[:80], reason=reason))
        if composed and texts != unicodedata.normalize("NFC", texts):
            reason = "the tokenizer reads this message in composed form (Unicode NFC)"
            flags.append(Flag(turn=index, role=message.role, text="", reason=reason))
    return tuple(flags)
