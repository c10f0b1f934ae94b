"""Turn replay of stacks: each tool-call turn is written by the stack's own engine, judged, and kept for next time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed
from suite.files import canonical_json, sha256_bytes, write_atomic
from suite.manifest.lock import Lock
from suite.manifest.schema import Replay
from suite.model.store import only_process
from suite.observer import Observer
from suite.replay.conversation import Setting
from suite.replay.counts import headlines
from suite.replay.judge import Judge, Written, format_in, rejudged, replay_turns, tool_call_turns
from suite.replay.rendering import end_token_ids, generation_config, prompt_leaves_reasoning_open, text_of
from suite.replay.sampler import sampler_of
from suite.replay.schema import Answer, ReplaysRecord, ReplayWorkload, Run, Sampler, SettingsName, Side
from suite.replay.world import follow
from suite.run.answering import Answerer, Prompt, answering, answering_lock
from suite.run.captures import Store
from suite.run.reference import Reference
from suite.run.stack import Stack, stack_at_hand
from suite.runtime.staging import agent_digest
from suite.workload.session import Session, load_session
from suite.workload.tokenizer import Tokenizer, load_tokenizer

SETTINGS: dict[str, tuple[SettingsName, ...]] = {
    "measure": ("measure",),
    "serve": ("serve",),
    "both": ("measure", "serve"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayPlan:
    """What is asked of every stack of one replay."""

    samples: int = 0
    settings: tuple[SettingsName, ...] = ("measure",)
    max_new_tokens: int = 1024
    temperature: float | None = None
    """Of the sampled answers; None: the session's or the model card's sampler."""
    top_p: float | None = None
    turns: int | None = None
    """At most so many, spread over the session."""
    prefix_caching: bool = True
    follow_steps: int = 0
    """Further turns in the simulated laboratory for greedy answers that do not survive."""
    format: str | None = None
    """Tool-call format; None: that of the rendered session."""


def replay_stacks(
    plan: ReplayPlan, sides: dict[Side, Stack], *, store: Store, observer: Observer, cancelled: threading.Event
) -> ReplaysRecord:
    """Replay a candidate, and its reference where it can run here, and pair them.

    Args:
        plan: Samples, settings, lengths.
        sides: Of one workload; the candidate, and the reference if it is at hand.
        store: Finished runs are kept below its home and found again.
        observer: Progress, in answers.
        cancelled: Of the stacks' runtimes; set here on Ctrl-C.

    Raises:
        InvalidInput: the session has no tool calls, or its format cannot be told.
        RunFailed: an engine does not start, or takes other settings.
    """
    candidate = sides["candidate"]
    work = _Work.of(candidate, plan)
    reference = sides.get("reference")
    runs = []
    for settings in plan.settings:
        runs.append(_run(work, "candidate", candidate, settings, store, observer, cancelled))
        if reference is None:
            continue
        try:
            runs.append(_run(work, "reference", reference, settings, store, observer, cancelled))
        except (RunFailed, MissingPrerequisite) as error:
            observer.warn(f"the reference {reference.label} does not answer under {settings} settings: {error.message}")
    session = work.session
    return ReplaysRecord(
        workload=ReplayWorkload(
            name=session.name, digest=session.digest(), num_tool_call_turns=len(tool_call_turns(session))
        ),
        format=work.format,
        max_new_tokens=plan.max_new_tokens,
        samples=plan.samples,
        sampler=work.sampler,
        turns=replay_turns(session, work.messages, [work.base(message) for message in work.messages]),
        runs=tuple(runs),
        headlines=headlines(runs),
    )


def plan_of(replay: Replay) -> ReplayPlan:
    """What a manifest's `replay` asks for."""
    return ReplayPlan(
        samples=replay.samples,
        settings=replay.settings,
        max_new_tokens=replay.max_new_tokens,
        temperature=None if replay.temperature is None else float(replay.temperature),
        top_p=None if replay.top_p is None else float(replay.top_p),
        turns=replay.turns,
        prefix_caching=replay.prefix_caching,
        follow_steps=replay.follow_steps,
    )


def replay_in_run(
    stack: Stack, reference: Reference, *, store: Store, root: Path, observer: Observer, cancelled: threading.Event
) -> ReplaysRecord:
    """The turn replay that a stack's manifest asks for, with its reference where that can answer here.

    Raises:
        InvalidInput, RunFailed: see `replay_stacks`.
    """
    assert stack.lock.replay is not None
    sides: dict[Side, Stack] = {"candidate": stack}
    other = reference.stack or stack_at_hand(
        reference.file, home=store.home, root=root, observer=observer, cancelled=cancelled
    )
    if other is not None:
        sides["reference"] = other
    return replay_stacks(plan_of(stack.lock.replay), sides, store=store, observer=observer, cancelled=cancelled)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    plan: ReplayPlan
    session: Session
    stack: Stack
    tokenizer: Tokenizer
    messages: tuple[int, ...]
    format: str
    sampler: Sampler | None

    @classmethod
    def of(cls, stack: Stack, plan: ReplayPlan) -> _Work:
        session = load_session(stack.manifest.workload_file)
        tokenizer = load_tokenizer(stack.model_folder)
        messages = tool_call_turns(session, limit=plan.turns)
        sampler = None
        if plan.samples:
            card = generation_config(stack.model_folder)
            sampler = sampler_of(session, card, temperature=plan.temperature, top_p=plan.top_p)
        found = plan.format
        if found is None:
            found = rendered_format(stack, tokenizer, messages)
        return cls(
            plan=plan,
            session=session,
            stack=stack,
            tokenizer=tokenizer,
            messages=messages,
            format=found,
            sampler=sampler,
        )

    def base(self, message: int) -> int:
        """Tokens of the recorded history before a turn, the generation prompt included."""
        start = self.stack.rendered.turns[message].output_start
        assert start is not None
        return start

    def prompt(self, message: int, sample: int) -> Prompt:
        sampling = self.sampler.parameters() if sample and self.sampler is not None else {}
        return Prompt(
            base=self.base(message),
            max_new_tokens=self.plan.max_new_tokens,
            sampling=sampling,
            seed=sample or None,
        )


def _run(
    work: _Work,
    side: Side,
    stack: Stack,
    settings: SettingsName,
    store: Store,
    observer: Observer,
    cancelled: threading.Event,
) -> Run:
    """One stack's answers: those of an earlier replay, judged again, or new ones."""
    if stack.lock.workload != work.stack.lock.workload:
        raise InvalidInput("another workload than the candidate's", where=stack.label)
    lock = answering_lock(stack.lock, settings, prefix_caching=work.plan.prefix_caching)
    ends = end_token_ids(stack.model_folder, work.tokenizer, stack.rendered)
    path = store.home / "replays" / f"{_key(work, lock, ends)}.json"
    with only_process(path.with_suffix(".lock"), observer):
        found = _stored(path)
        if found is None:
            found = _answered(work, stack, lock, settings, ends, store.home / "replays", observer, cancelled)
            write_atomic(path, canonical_json(found.model_dump(mode="json")))
        else:
            observer.note(f"{stack.label}, {settings}: answers of an earlier replay")
    (judged,) = rejudged([found], work.session)
    return judged.model_copy(
        update={"side": side, "settings": settings, "name": stack.label, "lock_digest": stack.lock.digest}
    )


def _answered(
    work: _Work,
    stack: Stack,
    lock: Lock,
    settings: SettingsName,
    ends: Sequence[int],
    scratch: Path,
    observer: Observer,
    cancelled: threading.Event,
) -> Run:
    wanted = [(message, sample) for message in work.messages for sample in range(work.plan.samples + 1)]
    prompts = [work.prompt(*item) for item in wanted]
    longest = max(prompt.base for prompt in prompts)
    if longest + 1 >= lock.engine.max_model_len:
        raise InvalidInput(
            f"the longest history has {longest:,} tokens, the context for {settings} is {lock.engine.max_model_len:,}",
            where=stack.label,
            hint="raise max_model_len, or replay fewer turns",
        )
    with answering(stack, lock, stop_token_ids=ends, scratch=scratch, observer=observer, cancelled=cancelled) as engine:
        observer.phase(f"replay, {settings} settings", total=len(prompts), unit="answers")
        started = time.monotonic()
        found = engine.answer(
            prompts,
            batch_size=lock.engine.max_num_seqs,
            warm_tokens=longest if lock.engine.enable_prefix_caching else 0,
        )
        judge = Judge(work.session)
        answers = []
        for (message, sample), prompt, continuation in zip(wanted, prompts, found, strict=True):
            history = stack.rendered.token_ids[: prompt.base]
            answers.append(
                judge.answer(
                    Written(
                        message=message,
                        sample=sample,
                        seed=prompt.seed,
                        ending="stop" if continuation.ended else "truncated",
                        text=text_of(work.tokenizer, continuation.token_ids, after=history),
                        format=work.format,
                        token_ids=continuation.token_ids,
                        cached_tokens=continuation.cached_tokens,
                        reasoning_open=prompt_leaves_reasoning_open(work.tokenizer, history),
                    )
                )
            )
        if work.plan.follow_steps:
            answers = _followed(work, stack, lock, engine, answers)
        seconds = time.monotonic() - started
    ids = [answer.token_ids or () for answer in answers]
    ids += [step.token_ids or () for a in answers if a.followed for step in a.followed.steps]
    return Run(
        side="candidate",
        settings=settings,
        name=stack.label,
        lock_digest=stack.lock.digest,
        prefix_caching=lock.engine.enable_prefix_caching,
        max_num_seqs=lock.engine.max_num_seqs,
        effective=engine.effective,
        engine=engine.engine,
        generated_tokens=sum(map(len, ids)),
        seconds=round(seconds, 3),
        answers=tuple(answers),
    )


def _followed(work: _Work, stack: Stack, lock: Lock, engine: Answerer, answers: list[Answer]) -> list[Answer]:
    expected = Judge(work.session).expected(work.messages[0])
    assert expected.tools is not None
    setting = Setting(
        session=work.session,
        tokenizer=work.tokenizer,
        chat_template=template_of(stack),
        tools=expected.tools,
        format=work.format,
    )

    def ask(histories: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], bool]]:
        prompts = [prompt_after(stack, history, work.plan.max_new_tokens) for history in histories]
        found = engine.answer(prompts, batch_size=lock.engine.max_num_seqs)
        return [(item.token_ids, item.ended) for item in found]

    greedy = [answer for answer in answers if answer.mode == "greedy"]
    prompts = {a.message: stack.rendered.token_ids[: work.base(a.message)] for a in greedy}
    done = follow(
        setting,
        work.session,
        greedy,
        prompts,
        ask,
        context_tokens=engine.context_tokens,
        max_steps=work.plan.follow_steps,
    )
    by_message = {answer.message: answer for answer in done}
    return [by_message[answer.message] if answer.mode == "greedy" else answer for answer in answers]


def rendered_format(stack: Stack, tokenizer: Tokenizer, messages: Sequence[int]) -> str:
    """The tool-call format in which the stack's chat template writes these turns.

    Raises:
        InvalidInput: it cannot be told.
    """
    turns = [stack.rendered.turns[message] for message in messages]
    ids = stack.rendered.token_ids
    return format_in([text_of(tokenizer, ids[turn.output_start or turn.start : turn.end]) for turn in turns])


def prompt_after(stack: Stack, history: Sequence[int], max_new_tokens: int) -> Prompt:
    """A greedy prompt by what it shares with the recorded session, so that the request stays short."""
    recorded = stack.rendered.token_ids
    pairs = zip(history, recorded, strict=False)
    base = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(history), len(recorded)))
    return Prompt(base=base, ids=tuple(history[base:]), max_new_tokens=max_new_tokens)


def template_of(stack: Stack) -> str | None:
    """The chat template that a stack's manifest names; None for the model's own."""
    name = stack.manifest.workload.chat_template
    return None if name is None else (stack.manifest.root / name).read_text(encoding="utf-8")


def _key(work: _Work, lock: Lock, ends: Sequence[int]) -> str:
    """Names everything that decides the answers: stack, settings, prompts, sampler, and the agent's own code."""
    identity: dict[str, Any] = {
        "stack": lock.capture_digest,
        "agent": agent_digest(),
        "ends": list(ends),
        "format": work.format,
        "messages": list(work.messages),
        "samples": work.plan.samples,
        "sampler": None if work.sampler is None else repr(sorted(work.sampler.parameters().items())),
        "max_new_tokens": work.plan.max_new_tokens,
        "follow_steps": work.plan.follow_steps,
    }
    return sha256_bytes(canonical_json(identity))


def _stored(path: Path) -> Run | None:
    if not path.is_file():
        return None
    try:
        return Run.model_validate_json(path.read_bytes())
    except ValueError:  # of an earlier version; written again
        return None
