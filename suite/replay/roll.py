"""Rolling a session: a stack plays the agent in the simulated laboratory, and its own token ids are kept.

The person's messages are those of a scripted session, and each of them begins in the laboratory as that session has
it there. What the agent says and does is the stack's own, so that no token of the assistant is off-policy for it.
Calls are answered in memory; nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from suite.errors import InvalidInput, RunFailed
from suite.observer import Observer
from suite.replay.conversation import Conversation, Said, Setting
from suite.workload.lab.lab import Lab
from suite.workload.render import render_with
from suite.workload.session import AssistantMessage, Session, UserMessage, parse_session
from suite.workload.synthesize import lab_at
from suite.workload.template import Template

GENERATOR = "suite workload roll 1"
MAX_TURNS = 8
"""Turns of the agent for one message of the person."""

Ask = Callable[[Sequence[int]], tuple[tuple[int, ...], bool]]
"""Writes one turn after a prompt, and says whether an end token ended it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rolled:
    """What came out."""

    session: Session
    tasks: int
    """Messages of the person that are in the session."""
    left_out: dict[str, int]
    """Why -> number of messages that are not: their turns cannot be kept as the stack wrote them."""
    num_turns: int
    """Turns of the agent."""
    num_calls: int
    """Calls that the laboratory answered."""
    num_cut: int
    """Turns that ran into the cap: their end-of-turn token is not the stack's own."""


class _LeftOut(Exception):
    pass


def roll(
    setting: Setting,
    scripted: Session,
    ask: Ask,
    *,
    end_token_id: int,
    name: str,
    note: str,
    max_tokens: int,
    tasks: int | None = None,
    max_turns: int = MAX_TURNS,
    observer: Observer,
) -> Rolled:
    """Let a stack play the agent.

    A turn that runs into the cap is ended for the stack, as a server does. A task whose turns the chat template does
    not give back exactly is left out as a whole, and the next one follows what came before it.

    Args:
        setting: Tokenizer, template and tools of the stack.
        scripted: A session of the laboratory.
        ask: The stack.
        end_token_id: What ends the assistant's turns in the template.
        name: Of the new session.
        note: Which stack played, for its provenance.
        max_tokens: Length never to exceed, in tokens.
        tasks: At most so many messages of the person.
        max_turns: Turns of the agent for each.
        observer: Progress, in messages of the person.

    Raises:
        InvalidInput: the scripted session is not of the laboratory, or the template refuses it.
        RunFailed: no task could be kept.
    """
    starts = [
        index
        for index, message in enumerate(scripted.messages[:-1])
        if isinstance(message, UserMessage) and isinstance(scripted.messages[index + 1], AssistantMessage)
    ][:tasks]
    observer.phase("roll", total=len(starts), unit="messages")
    state = _State(setting=setting, system=[m.model_dump() for m in scripted.messages[:1] if m.role == "system"])
    left_out: dict[str, int] = {}
    kept = num_turns = num_calls = num_cut = 0
    for index in starts:
        person = {"role": "user", "content": scripted.messages[index].content}
        task = _Task(
            state=state,
            lab=lab_at(scripted, index + 1),
            ask=ask,
            end_token_id=end_token_id,
            max_tokens=max_tokens,
            max_turns=max_turns,
        )
        try:
            state = task.play(person)
        except _LeftOut as reason:
            left_out[str(reason)] = left_out.get(str(reason), 0) + 1
        else:
            kept, num_turns, num_calls = kept + 1, num_turns + task.turns, num_calls + task.calls
            num_cut += task.cut
        observer.advance(1)
        if left_out.get(_FULL):
            break
    observer.phase("")
    if state.last is None or state.conversation is None:
        told = ", ".join(f"{reason}: {number}" for reason, number in left_out.items())
        raise RunFailed(
            f"no task could be kept ({told})",
            where=name,
            hint="take a stronger model, or a chat template made for it",
        )
    return Rolled(
        session=_session(setting, scripted, state, name=name, note=note),
        tasks=kept,
        left_out=left_out,
        num_turns=num_turns,
        num_calls=num_calls,
        num_cut=num_cut,
    )


_FULL = "the session is full"

_Turn = tuple[tuple[int, ...], Said, dict[str, Any], list[dict[str, Any]]]
"""Ids, reading, message, and what the world says to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """What has been kept so far: a conversation up to the prompt of its last turn, and that turn."""

    setting: Setting
    system: list[dict[str, Any]]
    conversation: Conversation | None = None
    last: _Turn | None = None


@dataclass(kw_only=True, slots=True)
class _Task:
    state: _State
    lab: Lab
    ask: Ask
    end_token_id: int
    max_tokens: int
    max_turns: int
    turns: int = 0
    calls: int = 0
    cut: int = 0

    def play(self, person: dict[str, Any]) -> _State:
        """All turns of the agent until it makes no call, or may make none any more."""
        conversation = self._begin(person)
        while True:
            if len(conversation.token_ids) + 1 >= self.max_tokens:
                raise _LeftOut(_FULL)
            token_ids, ended = self.ask(conversation.token_ids)
            if not ended:
                token_ids = self._ended(conversation, token_ids)
            if len(conversation.token_ids) + len(token_ids) >= self.max_tokens:
                raise _LeftOut(_FULL)
            turn = self._turn(conversation, token_ids)
            self.turns += 1
            if not turn[3] or self.turns == self.max_turns:
                return _State(
                    setting=self.state.setting, system=self.state.system, conversation=conversation, last=turn
                )
            _add(conversation, turn, turn[3])

    def _ended(self, conversation: Conversation, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """A turn that was cut off, without the character that the cap cut in two, and with its end token."""
        self.cut += 1
        while token_ids and conversation.read((*token_ids, self.end_token_id)).text.endswith("\ufffd"):
            token_ids = token_ids[:-1]
        return (*token_ids, self.end_token_id)

    def _begin(self, person: dict[str, Any]) -> Conversation:
        if self.state.conversation is None or self.state.last is None:
            return Conversation(self.state.setting, [*self.state.system, person])
        conversation = self.state.conversation.fork()
        _add(conversation, self.state.last, [*self.state.last[3], person])
        return conversation

    def _turn(self, conversation: Conversation, token_ids: tuple[int, ...]) -> _Turn:
        said = conversation.read(token_ids)
        reply = conversation.reply(said, self._answer, exact=True)
        message, following = reply or ({"role": "assistant", "content": said.text}, [])
        if not said.text.strip():
            raise _LeftOut("an answer was empty")
        if "\ufffd" in said.text:
            raise _LeftOut("an answer was no text")
        if not conversation.gives_back(message, said):
            raise _LeftOut("the chat template does not give an answer back as it was written")
        return token_ids, said, message, following

    def _answer(self, name: str, arguments: dict[str, Any]) -> str:
        self.calls += 1
        return self.lab.call(name, arguments).content


def _add(conversation: Conversation, turn: _Turn, following: list[dict[str, Any]]) -> None:
    token_ids, said, message, _ = turn
    try:
        conversation.add(token_ids, said, message, following)
    except InvalidInput as error:
        raise _LeftOut("the chat template cannot go on from an answer") from error


def _session(setting: Setting, scripted: Session, state: _State, *, name: str, note: str) -> Session:
    assert state.conversation is not None
    assert state.last is not None
    conversation = state.conversation.fork()
    conversation.finish(*state.last)
    template = Template(setting.tokenizer, scripted, setting.chat_template)
    value = {
        "schema_version": 1,
        "name": name,
        "licence": scripted.licence,
        "provenance": {"kind": "recorded", "generator": GENERATOR, "note": note},
        "messages": conversation.messages,
        "tools": [tool.model_dump(mode="json", exclude_none=True) for tool in scripted.tools],
        "sampling": {"temperature": 0.0},
        "chat_template_kwargs": scripted.chat_template_kwargs,
        "recorded": {
            "token_ids": conversation.token_ids,
            "tokenizer_sha256": setting.tokenizer.sha256,
            "chat_template_sha256": template.sha256,
        },
    }
    session = parse_session(Session.model_validate(value).to_json(), where=name)
    # The ids must spell what the template makes of the messages, or no stack could replay them.
    render_with(session, setting.tokenizer, chat_template=setting.chat_template)
    return session
