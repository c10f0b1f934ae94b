"""From a recording to session files: stitched, written, and with the server's own token ids beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import __version__
from suite.errors import InvalidInput
from suite.files import PRIVATE, write_atomic
from suite.record.exchange import Exchange, read_exchange
from suite.record.journal import read_journals
from suite.record.stitch import Thread, stitch
from suite.workload.importing.draft import Built, Draft, build
from suite.workload.importing.markup import messages_of_prompt
from suite.workload.turns import RecordedTurn, RecordedTurns, turns_file

FOLDER = "sessions"


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One session of a recording."""

    path: Path
    built: Built
    turns: RecordedTurns
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a recording became."""

    written: tuple[Written, ...]
    num_exchanges: int
    problems: tuple[str, ...]
    """What belongs to no session, and why."""


def write_sessions(folder: Path, *, name: str) -> Result:
    """Stitch all journals of `folder` and write `sessions/NAME-1.json`, … with their turns beside them.

    Files of an earlier stitching are replaced; a journal is never changed.

    Raises:
        InvalidInput: no journal there, or a damaged one.
    """
    recording = read_journals(folder)
    exchanges, problems = _read(recording.exchanges)
    problems[:0] = recording.problems
    threads = stitch(exchanges)
    problems += _left_over(exchanges, threads)
    out = folder / FOLDER
    out.mkdir(mode=0o700, exist_ok=True)
    for old in out.iterdir():
        if re.fullmatch(rf"{re.escape(name)}-\d+(\.turns)?\.json", old.name):
            old.unlink()
    written: list[Written] = []
    for index, thread in enumerate(threads):
        own = f"{name}-{index + 1}"
        try:
            one = _session(thread, own, names=[f"{name}-{i + 1}" for i in range(index)])
        except InvalidInput as error:
            problems.append(f"{own}: {error.message} ({error.where})")
            continue
        path = out / f"{own}.json"
        turns = _turns(thread, one)
        write_atomic(path, one.session.to_json(), mode=PRIVATE)
        write_atomic(turns_file(path), turns.to_json(), mode=PRIVATE)
        written.append(Written(path=path, built=one, turns=turns, notes=tuple(_notes(thread, turns))))
    return Result(written=tuple(written), num_exchanges=len(recording.exchanges), problems=tuple(problems))


def _read(raws: Iterable[Any]) -> tuple[list[Exchange], list[str]]:
    exchanges: list[Exchange] = []
    problems: list[str] = []
    for number, raw in enumerate(raws, 1):
        exchange = read_exchange(raw, number)
        label = f"{raw.journal} exchange {raw.number}"
        if exchange is None:
            problems.append(f"{label}: the request is no JSON object")
            continue
        if exchange.endpoint == "completions":
            exchange = _from_prompt(exchange)
            if exchange is None:
                problems.append(f"{label}: its prompt is no text, or is marked up in no known way")
                continue
        if exchange.problems:
            problems.append(f"{label}: {'; '.join(exchange.problems)}")
        exchanges.append(exchange)
    return exchanges, problems


def _from_prompt(exchange: Exchange) -> Exchange | None:
    """A completion of a prompt that a client had rendered itself, taken apart into its messages."""
    from dataclasses import replace

    prompt = exchange.history[0]["content"] if exchange.history else ""
    messages = messages_of_prompt(prompt)
    return replace(exchange, history=tuple(messages)) if messages else None


def _left_over(exchanges: Sequence[Exchange], threads: Sequence[Thread]) -> list[str]:
    used = {a.exchange.number for t in threads for a in t.answered} | {e.number for t in threads for e in t.attempts}
    used |= {t.last.number for t in threads}
    rest = [e for e in exchanges if e.number not in used]
    return [f"{e.label}: no session; no answer came to it" for e in rest]


def _session(thread: Thread, name: str, names: Sequence[str]) -> Built:
    last = thread.last
    note = f"{len(thread.answered)} answers of {last.model or 'a model'} over {last.endpoint}, from {last.started}."
    if thread.shared_with is not None:
        note += f" Begins with the first {thread.num_shared} messages of {names[thread.shared_with]}."
    draft = Draft(
        messages=thread.messages,
        generator=f"suite record {__version__}",
        tools=last.tools,
        sampling=last.sampling or {},
        template_kwargs=last.template_kwargs or {},
        note=note,
    )
    return build(draft, name=name, where=last.label)


def _turns(thread: Thread, built: Built) -> RecordedTurns:
    turns = []
    for answered in thread.answered:
        place = built.places[answered.message]
        if place is None:
            continue
        exchange = answered.exchange
        choice = exchange.answer.choices[answered.choice]
        same = sum(len(e.history) == len(exchange.history) for e in thread.attempts)
        prompt = exchange.answer.prompt_token_ids
        turns.append(
            RecordedTurn(
                message=place,
                exchange=exchange.label,
                finish_reason=choice.finish_reason,
                changed=answered.changed,
                attempts=1 + same,
                prompt_token_ids=None if prompt is None else list(prompt),
                output_token_ids=None if choice.token_ids is None else list(choice.token_ids),
                usage=exchange.answer.usage,
                first_byte_ms=exchange.first_byte_ms,
                last_byte_ms=exchange.last_byte_ms,
                sampling=exchange.sampling or {},
            )
        )
    return RecordedTurns(
        session=built.session.digest(), model=thread.last.model, endpoint=thread.last.endpoint, turns=turns
    )


def _notes(thread: Thread, turns: RecordedTurns) -> Iterable[str]:
    if thread.attempts:
        yield f"{len(thread.attempts)} further attempts at its turns are in the journal only"
    changed = [str(turn.message) for turn in turns.turns if turn.changed]
    if changed:
        yield f"the client sent other text back than was answered, at messages {', '.join(changed)}"
    dropped = 0
    for answered in thread.answered:
        reasoning = answered.exchange.answer.choices[answered.choice].message.get("reasoning_content")
        kept = thread.messages[answered.message].get("reasoning_content") or thread.messages[answered.message].get(
            "reasoning"
        )
        dropped += bool(reasoning) and not kept
    if dropped:
        yield f"the client did not send the reasoning of {dropped} answers back: later prompts were without it"
    settings = {str(sorted((t.sampling or {}).items(), key=str)) for t in turns.turns}
    if len(settings) > 1:
        yield "the sampler settings changed during the session; those of the last request are in it"
    if thread.last.chat_template is not None:
        yield "the requests brought a chat template of their own: save it, and give it with --chat-template"
    if not any(t.prompt_token_ids for t in turns.turns):
        yield "the server returned no token ids (record with --ask-token-ids to have vLLM return them)"
