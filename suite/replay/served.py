"""Turn replay on a server: every tool-call turn of a session is asked, and the answers are judged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath, PureWindowsPath
from typing import Any

from suite.errors import InvalidInput
from suite.observer import Observer
from suite.replay.counts import headlines
from suite.replay.endpoint import Endpoint, NoAnswer
from suite.replay.judge import Judge, Written, format_in, replay_turns, tool_call_turns
from suite.replay.rendering import reasoning_is_open, text_of
from suite.replay.schema import ReplaysRecord, ReplayWorkload, Run, Sampler, Server, Side
from suite.replay.wire import Reply, chat_request, completions_request
from suite.workload.session import Session

_MOST_FAILURES = 3
"""Turns in a row without an answer after which the server is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """Raw prompts for `/completions`, rendered here with a tokenizer."""

    ids: dict[int, tuple[int, ...]]
    """Message to the token ids of the history before it, with the generation prompt."""
    text: dict[int, str]
    """The same as text."""
    as_text: bool
    """Send the text; the server adds its own special tokens, if it adds any."""
    format: str
    """Tool-call format of the chat template."""
    reasoning_open: bool
    decode: Callable[[Sequence[int]], str]
    """Ids to text, special tokens kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is asked of every server of one replay."""

    session: Session
    messages: tuple[int, ...]
    """Of the turns, in order."""
    samples: int
    sampler: Sampler | None
    max_new_tokens: int
    jobs: int = 1
    """Requests at once."""
    prompts: Prompts | None = None
    """Needed for `/completions`."""


def replay_served(
    asked: Asked, servers: dict[Side, Endpoint], *, observer: Observer, cancelled: threading.Event
) -> ReplaysRecord:
    """Ask one server, or two that are paired turn by turn.

    Args:
        asked: Session, turns and sampler.
        servers: The candidate, and the reference it is set against, if any.
        observer: Progress, in answers.
        cancelled: Ends running requests when set.

    Raises:
        InvalidInput, MissingPrerequisite, RunFailed: a server cannot be asked, or fails at the first turn or at three
            turns in a row.
    """
    models = {side: endpoint.model() for side, endpoint in servers.items()}
    runs = tuple(
        _run(asked, side, servers[side], models[side], observer=observer, cancelled=cancelled) for side in servers
    )
    turns = tool_call_turns(asked.session)
    lengths = None if asked.prompts is None else [len(asked.prompts.ids[message]) for message in asked.messages]
    return ReplaysRecord(
        workload=ReplayWorkload(name=asked.session.name, digest=asked.session.digest(), num_tool_call_turns=len(turns)),
        format="openai_json" if asked.prompts is None else asked.prompts.format,
        max_new_tokens=asked.max_new_tokens,
        samples=asked.samples,
        sampler=asked.sampler if asked.samples else None,
        turns=replay_turns(asked.session, asked.messages, lengths),
        runs=runs,
        headlines=headlines(runs),
    )


def load_prompts(
    session: Session,
    messages: Sequence[int],
    tokenizer_dir: Any,
    *,
    chat_template: str | None,
    as_text: bool,
    format: str | None,
) -> Prompts:
    """Render the history before each turn.

    Raises:
        InvalidInput: the template refuses the session, or its tool-call format cannot be told.
        MissingPrerequisite: no tokenizer there.
    """
    from suite.workload.template import Template
    from suite.workload.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(tokenizer_dir)
    template = Template(tokenizer, session, chat_template)
    text = {m: template.apply(template.messages[:m], generation_prompt=True) for m in messages}
    if format is None:
        written = [template.apply(template.messages[: m + 1]).removeprefix(text[m]) for m in messages]
        format = format_in(written)
    return Prompts(
        ids={m: tokenizer.encode(text[m]) for m in messages},
        text=text,
        as_text=as_text,
        format=format,
        reasoning_open=any(reasoning_is_open(prompt) for prompt in text.values()),
        decode=partial(text_of, tokenizer),
    )


def _run(
    asked: Asked,
    side: Side,
    endpoint: Endpoint,
    model: tuple[str, str | None],
    *,
    observer: Observer,
    cancelled: threading.Event,
) -> Run:
    name, owner = model
    wanted = [(message, sample) for message in asked.messages for sample in range(asked.samples + 1)]
    observer.phase(f"{side}: {name}", total=len(wanted), unit="answers")
    started = time.monotonic()
    written: dict[tuple[int, int], Written] = {}
    replies: list[Reply] = []
    failures = 0

    def ask(item: tuple[int, int]) -> Reply | NoAnswer:
        try:
            return endpoint.answer(_body(asked, endpoint, name, *item))
        except NoAnswer as failure:
            return failure

    with ThreadPoolExecutor(max_workers=asked.jobs, thread_name_prefix="suite-replay") as pool:
        try:
            # The first alone: what is wrong with all of them is told once, and its prefix is then cached.
            results = [pool.submit(ask, wanted[0])]
            for index, item in enumerate(wanted):
                found = results[index].result()
                if index == 0:
                    if isinstance(found, NoAnswer):
                        raise found.error
                    results += [pool.submit(ask, other) for other in wanted[1:]]
                failures = failures + 1 if isinstance(found, NoAnswer) else 0
                if isinstance(found, NoAnswer) and failures >= _MOST_FAILURES:
                    raise found.error
                if isinstance(found, Reply):
                    replies.append(found)
                written[item] = _written(asked, endpoint, *item, found)
                observer.advance(1)
        except BaseException:
            cancelled.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    seconds = time.monotonic() - started
    judge = Judge(asked.session)
    counted = [reply.completion_tokens for reply in replies]
    fingerprints = [reply.fingerprint for reply in replies if reply.fingerprint]
    return Run(
        side=side,
        settings="endpoint",
        name=_shown_name(name),
        lock_digest=None,
        server=Server(
            url=endpoint.shown_url,
            api=endpoint.options.api,
            model=_shown_name(name),
            stream=endpoint.options.stream,
            fingerprint=(fingerprints[0] if fingerprints else owner),
        ),
        prefix_caching=None,
        max_num_seqs=asked.jobs,
        effective={},
        engine=None,
        generated_tokens=None if None in counted else sum(count or 0 for count in counted),
        seconds=round(seconds, 3),
        answers=tuple(judge.answer(written[item]) for item in wanted),
    )


def _shown_name(name: str) -> str:
    """A model's name as a record keeps it: llama.cpp serves a file under its whole path, which is nobody's business."""
    return PurePath(name).name if name.startswith(("/", "~")) else PureWindowsPath(name).name if "\\" in name else name


def _seed(sample: int) -> int | None:
    return sample or None


def _body(asked: Asked, endpoint: Endpoint, model: str, message: int, sample: int) -> dict[str, Any]:
    sampling: dict[str, Any] = {"temperature": 0.0}
    if sample:
        assert asked.sampler is not None
        sampling = {**asked.sampler.parameters(), "seed": _seed(sample)}
    stream = endpoint.options.stream
    if endpoint.options.api == "chat":
        return chat_request(
            asked.session, message, model=model, max_tokens=asked.max_new_tokens, sampling=sampling, stream=stream
        )
    if asked.prompts is None:
        raise InvalidInput("completions need a tokenizer", where="--tokenizer", hint="give the model's folder")
    prompt = asked.prompts.text[message] if asked.prompts.as_text else asked.prompts.ids[message]
    return completions_request(prompt, model=model, max_tokens=asked.max_new_tokens, sampling=sampling, stream=stream)


def _written(asked: Asked, endpoint: Endpoint, message: int, sample: int, found: Reply | NoAnswer) -> Written:
    raw = asked.prompts if endpoint.options.api == "completions" else None
    if isinstance(found, NoAnswer):
        return Written(
            message=message,
            sample=sample,
            seed=_seed(sample),
            ending="engine error",
            text="",
            format="openai_json" if raw is None else raw.format,
            error=found.error.message,
        )
    if raw is None:
        text, format = found.graded_text()
    else:
        # The ids keep what a server leaves out of its text.
        text = raw.decode(found.token_ids) if found.token_ids is not None else found.content
        format = raw.format
    return Written(
        message=message,
        sample=sample,
        seed=_seed(sample),
        ending=found.ending,
        text=text,
        format=format,
        token_ids=None if found.token_ids is None else tuple(found.token_ids),
        cached_tokens=found.cached_tokens,
        error=f"finish_reason {found.finish}" if found.ending == "engine error" else None,
        reasoning_open=raw is not None and raw.reasoning_open,
    )
