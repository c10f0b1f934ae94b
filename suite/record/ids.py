"""A server's own token ids as those of a whole session, where they are exactly that."""

from __future__ import annotations

from pathlib import Path

from suite.errors import InvalidInput
from suite.workload.render import render_with
from suite.workload.session import RecordedTokens, Session
from suite.workload.tokenizer import load_tokenizer
from suite.workload.turns import RecordedTurns


def with_recorded_ids(
    session: Session, turns: RecordedTurns, tokenizer_dir: Path, *, chat_template: str | None = None
) -> Session:
    """The session with the last turn's prompt and output as its `recorded` ids.

    A template writes more after an answer than the server generated (often a line end): that is taken from rendering.

    Raises:
        MissingPrerequisite: no tokenizer there.
        InvalidInput: the server returned no ids, or they do not spell what this tokenizer and template make of it.
    """
    last = turns.turns[-1] if turns.turns else None
    if last is None or last.prompt_token_ids is None or last.output_token_ids is None:
        raise InvalidInput(
            "the server returned no token ids for the last answer",
            where=session.name,
            hint="record with --ask-token-ids; vLLM returns them",
        )
    if last.message != len(session.messages) - 1:
        raise InvalidInput("the session does not end with a recorded answer", where=session.name)
    tokenizer = load_tokenizer(tokenizer_dir)
    plain = render_with(session.model_copy(update={"recorded": None}), tokenizer, chat_template=chat_template)
    ids = [*last.prompt_token_ids, *last.output_token_ids]
    text = b"".join(tokenizer.pieces(plain.token_ids))
    spelt = b"".join(tokenizer.pieces(ids))
    if not text.startswith(spelt):
        raise InvalidInput(
            "the server's token ids do not spell the rendered session",
            where=session.name,
            hint="suite workload check shows where they part; another template or tokenizer may have been in use",
        )
    ids += tokenizer.encode(text[len(spelt) :].decode())
    recorded = RecordedTokens(
        token_ids=ids, tokenizer_sha256=plain.tokenizer_sha256, chat_template_sha256=plain.chat_template_sha256
    )
    complete = session.model_copy(update={"recorded": recorded})
    render_with(complete, tokenizer, chat_template=chat_template)
    return complete
