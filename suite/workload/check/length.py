"""The session's length against the context."""

from __future__ import annotations

from collections.abc import Iterator

from suite.workload.check.interface import Finding, Subject

_NEARLY = 0.95


def context_of(subject: Subject) -> tuple[int | None, str]:
    """Context length and where it comes from."""
    if subject.context_tokens is not None:
        return subject.context_tokens, "--context"
    config = subject.config
    nested = config.get("text_config")
    for source in (config, nested if isinstance(nested, dict) else {}):
        value = source.get("max_position_embeddings")
        if type(value) is int and value > 0:
            return value, "config.json"
    return None, ""


def check_length(subject: Subject) -> Iterator[Finding]:
    """Whether the session fits, with room for an answer."""
    limit, source = context_of(subject)
    if limit is None or subject.rendered is None:
        return
    length = subject.rendered.num_tokens
    if length > limit:
        yield Finding(
            code="too-long",
            severity="error",
            where="session",
            message=f"{length:,} tokens, and the context is {limit:,} ({source})",
            effect="a run is refused; a server would cut the beginning off, which is another prompt.",
            hint="cut the session at a turn, or measure with a longer context",
        )
    elif length > _NEARLY * limit:
        yield Finding(
            code="nearly-full",
            severity="note",
            where="session",
            message=f"{length:,} of {limit:,} tokens ({source})",
            effect="a free replay of the last turns has little room and may end as truncated.",
            hint="set max_tokens, or leave the last turns out of a replay",
        )
