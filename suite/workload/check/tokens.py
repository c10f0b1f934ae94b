"""Faults of tokens: the beginning of the text, text that becomes special tokens, ids that differ from the server's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.errors import InvalidInput
from suite.workload.check.interface import Finding, Subject


def check_bos(subject: Subject) -> Iterator[Finding]:
    """A missing or doubled beginning-of-text token, in what is rendered and in what the server used."""
    backend = subject.tokenizer.backend
    bos = backend.bos_token_id
    if bos is None:
        return
    alone = tuple(backend("x")["input_ids"])
    wanted = bool(alone) and alone[0] == bos and subject.tokenizer.encode("x")[:1] != (bos,)
    sources: list[tuple[str, Sequence[int]]] = []
    ids = _ids(subject)
    if ids:
        sources.append(("the rendered session", ids))
    for turn in (subject.turns.turns if subject.turns else ())[:1]:
        if turn.prompt_token_ids:
            sources.append(("the server's prompt", turn.prompt_token_ids))
    for name, tokens in sources:
        if len(tokens) > 1 and tokens[0] == tokens[1] == bos:
            yield Finding(
                code="doubled-bos",
                severity="error",
                where=name,
                message=f"begins with {backend.bos_token!r} twice",
                effect="every position sees one token more than in training; perplexity and flips rise by "
                "an amount that "
                "belongs to no stack.",
                hint="the template writes the token and the tokenizer adds it again: drop one of the two "
                "(add_special_tokens=false in the request, or a template without bos_token)",
            )
        elif wanted and tokens[0] != bos:
            yield Finding(
                code="missing-bos",
                severity="error",
                where=name,
                message=f"does not begin with {backend.bos_token!r}, which this tokenizer puts before every text",
                effect="the first tokens, and with some models all, are far off: a mean KL of such a run "
                "measures this.",
                hint="use the checkpoint's own template, or write {{ bos_token }} at its beginning",
            )


def _ids(subject: Subject) -> tuple[int, ...]:
    if subject.rendered is not None:
        return subject.rendered.token_ids
    try:
        return subject.tokenizer.encode(subject.template.apply(subject.template.messages))
    except InvalidInput:
        return ()


def check_special_text(subject: Subject) -> Iterator[Finding]:
    """Text of the session that becomes a token of the template's, from the rendering's own flags."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for flag in subject.rendered.flags if subject.rendered else ():
        alike.setdefault((flag.role, flag.text, flag.reason), []).append(flag.turn)
    for (role, text, reason), turns in alike.items():
        special = "special token" in reason
        more = f", and in {len(turns) - 1} more of its messages" if len(turns) > 1 else ""
        yield Finding(
            code="special-text" if special else "markup-text" if text.startswith("<") else "changed-text",
            severity="error" if special and role != "assistant" else "warning",
            where=f"messages.{turns[0]} ({role})",
            message=(f"{text!r}: {reason}" if text else reason) + more,
            effect="the model sees a turn end or a call where a person wrote text: what follows is measured in another "
            "conversation than the one recorded."
            if special
            else "parsers and templates may take it for their own; grade the calls around it by their text.",
            hint="take the message out, or write the token with a space in it",
        )


def check_recorded(subject: Subject) -> Iterator[Finding]:
    """The server's own prompt ids at every turn, against what this tokenizer and template make of the history."""
    turns = subject.turns.turns if subject.turns else []
    told = [turn for turn in turns if turn.prompt_token_ids]
    if subject.turns is not None and not told:
        yield Finding(
            code="no-recorded-ids",
            severity="note",
            where="turns",
            message="the server returned no token ids, so that its tokenisation cannot be compared",
            effect="a template or tokenizer that differs from the server's goes unseen.",
            hint="record with --ask-token-ids",
        )
    for turn in told:
        assert turn.prompt_token_ids is not None
        server = tuple(turn.prompt_token_ids)
        try:
            text = subject.template.apply(subject.template.messages[: turn.message], generation_prompt=True)
        except InvalidInput as error:
            yield _differs(turn.message, f"the template refuses the history before it: {error.message}")
            continue
        own = subject.tokenizer.encode(text)
        if own == server:
            continue
        yield _differs(turn.message, _first_difference(subject, own, server))
        return  # later turns hold the same difference again


def _differs(message: int, what: str) -> Finding:
    return Finding(
        code="ids-differ",
        severity="error",
        where=f"messages.{message}",
        message=f"the server read other tokens before this answer: {what}",
        effect="positions are shifted or the text is another: the measurement is of a prompt that the agent never had.",
        hint="give the server's template with --chat-template and its tokenizer with --tokenizer; if both "
        "are right, the "
        "client sent other messages than were stitched (see the notes of `suite record`)",
    )


def _first_difference(subject: Subject, own: Sequence[int], server: Sequence[int]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(own, server, strict=False)) if a != b), min(len(own), len(server)))

    def around(ids: Sequence[int]) -> str:
        pieces = subject.tokenizer.pieces(
            [i for i in ids[max(0, at - 4) : at + 6] if i < len(subject.tokenizer.backend)]
        )
        return repr(b"".join(pieces).decode(errors="replace"))

    lengths = f"{len(own):,} tokens here, {len(server):,} there"
    return f"from token {at:,} on ({lengths}); here {around(own)}, there {around(server)}"


def check_output_ids(subject: Subject) -> Iterator[Finding]:
    """Answers whose generated tokens are not how the tokenizer would write their text."""
    rendered, turns = subject.rendered, subject.turns
    if rendered is None or turns is None or subject.session.recorded is not None:
        return
    other = []
    for turn in turns.turns:
        start = rendered.turns[turn.message].output_start if turn.message < len(rendered.turns) else None
        if turn.output_token_ids is None or start is None or turn.changed:
            continue
        own = rendered.token_ids[start : start + len(turn.output_token_ids)]
        if own != tuple(turn.output_token_ids):
            other.append(turn.message)
    if other:
        yield Finding(
            code="output-ids-differ",
            severity="warning",
            where=f"messages.{other[0]}",
            message=f"{len(other)} of {len(turns.turns)} answers were generated in other tokens than their text is "
            "tokenised into, or were parsed and written anew",
            effect="at those places the forced history is not what the model wrote, and off-policy positions grow.",
            hint="`suite record --tokenizer DIR` puts the server's own ids of the last turn into the session",
        )
