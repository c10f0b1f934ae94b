"""Writing a synthetic session of a wanted length from the laboratory's scenarios."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import InvalidInput
from suite.observer import Observer, SilentObserver
from suite.workload.lab.dice import Dice
from suite.workload.lab.lab import Lab, tool_definitions
from suite.workload.lab.scenarios import ALL, SCENARIOS, SHORT
from suite.workload.lab.scene import Scene
from suite.workload.session import SCHEMA_VERSION, Session

GENERATOR = "suite.workload.lab 1"
"""Changes when the same seed and episodes would give another text."""

TOLERANCE_TOKENS = 256
"""A session of N tokens has at most N and at least N minus this many."""

MIN_TOKENS = 2_000
MAX_TOKENS = 2_000_000

CHARACTERS_PER_TOKEN = 3.0
"""Used without a tokenizer: characters of messages and tools, as JSON, for one token of a small ChatML model."""

SYSTEM_PROMPT = """\
You are the network operations agent of a harbour with three sites: quay (offices, servers), pier and depot.

Routers: edge-1 (internet), core-1, core-2, branch-n1 (pier), branch-d1 (depot). Each site router carries its VLANs as \
subinterfaces GigabitEthernet0/0/1.VLAN. Switches: sw-quay-1, sw-quay-2, sw-pier-1, sw-pier-2, sw-depot-1; access \
ports GigabitEthernet1/0/1 to 1/0/12, uplink TenGigabitEthernet1/1/1. Hosts: db-1 (PostgreSQL primary, port 5432), \
db-2 (standby), app-1 and app-2 (inventory API, port 8080), mon-1, log-1, dns-1, proxy-1; domain harbour.example.

Look before you change anything. Run independent checks side by side. Write interface names in full. Save what you \
configure. Ask before an action that could interrupt somebody. Answer briefly, with the exact names and numbers."""

Measure = Callable[[Session], int]


def synthesize(
    num_tokens: int,
    seed: int,
    *,
    measure: Measure | None = None,
    name: str | None = None,
    observer: Observer | None = None,
) -> Session:
    """Write a session of at most `num_tokens` tokens that ends with an answer of the agent.

    Args:
        num_tokens: Wanted length; the result is at most `TOLERANCE_TOKENS` shorter.
        seed: Decides everything else, together with `measure`.
        measure: Length of a session in tokens; by default `estimate_tokens`.
        name: The session's name.
        observer: Told about progress.

    Raises:
        InvalidInput: `num_tokens` is outside `[MIN_TOKENS, MAX_TOKENS]`, or too small for this tokenizer.
    """
    if not MIN_TOKENS <= num_tokens <= MAX_TOKENS:
        raise InvalidInput(
            f"{num_tokens:,} tokens cannot be written; between {MIN_TOKENS:,} and {MAX_TOKENS:,} can", where="--tokens"
        )
    measure = measure or estimate_tokens
    observer = observer or SilentObserver()
    name = name or f"netops-lab-{round(num_tokens / 1000)}k"
    observer.phase("synthesize", total=num_tokens, unit="tokens")
    state = _State(scene=Scene(Lab(seed)), episodes=())
    plan = _Plan(seed)
    reached = 0
    while True:
        following = _extend(state, plan.next(), seed)
        count = measure(_session(name, seed, following))
        if count > num_tokens:
            break
        observer.advance(count - reached)
        state, reached = following, count
    while True:
        best: tuple[int, _State] | None = None
        for episode in Dice(seed, "fill", len(state.episodes)).shuffled(sorted(ALL)):
            if state.episodes and episode == state.episodes[-1]:
                continue
            candidate = _extend(state, episode, seed)
            count = measure(_session(name, seed, candidate))
            if reached < count <= num_tokens and (best is None or count > best[0]):
                best = (count, candidate)
        if best is None:
            break
        observer.advance(best[0] - reached)
        reached, state = best
    if reached < num_tokens - TOLERANCE_TOKENS:
        raise InvalidInput(
            f"this tokenizer leaves {num_tokens - reached:,} of {num_tokens:,} tokens that no scenario fits",
            where="--tokens",
            hint="ask for more tokens",
        )
    return _session(name, seed, state)


def build_session(name: str, seed: int, episodes: Sequence[str]) -> Session:
    """The session that these episodes give: needs no tokenizer, and gives the same bytes everywhere.

    Raises:
        InvalidInput: an unknown episode.
    """
    return _session(name, seed, _State(scene=_play(seed, episodes), episodes=tuple(episodes)))


def lab_at(session: Session, message: int) -> Lab:
    """The laboratory as it stands just before the assistant writes message `message` of a synthetic session.

    Raises:
        InvalidInput: the session does not come from this version of the laboratory, or the message is not the
            assistant's.
    """
    provenance = session.provenance
    if provenance.generator != GENERATOR or provenance.seed is None or not provenance.episodes:
        raise InvalidInput(
            f"the session was not written by {GENERATOR}",
            where="provenance.generator",
            hint="only sessions of the simulated laboratory can be continued in it",
        )
    found: list[Lab] = []

    def watcher(scene: Scene) -> None:
        if len(scene.messages) + 1 == message:  # the system message comes before all others
            found.append(scene.lab.fork())

    _play(provenance.seed, provenance.episodes, watcher)
    if not found:
        raise InvalidInput("not an assistant message of this session", where=f"messages.{message}")
    return found[0]


def estimate_tokens(session: Session) -> int:
    """Length without a tokenizer: characters of messages and tools divided by `CHARACTERS_PER_TOKEN`."""
    data = session.model_dump(mode="json", exclude_none=True, include={"messages", "tools"})
    return int(len(json.dumps(data, ensure_ascii=False)) / CHARACTERS_PER_TOKEN) + 1


def token_counter(tokenizer_dir: Path, chat_template: str | None = None) -> Measure:
    """A `Measure` that renders with this tokenizer and template."""
    from suite.workload.template import Template
    from suite.workload.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(tokenizer_dir)

    def measure(session: Session) -> int:
        template = Template(tokenizer, session, chat_template)
        return len(tokenizer.encode(template.apply(template.messages)))

    return measure


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    scene: Scene
    episodes: tuple[str, ...]


class _Plan:
    """All scenarios in a new order round after round, with short questions between them."""

    def __init__(self, seed: int) -> None:
        self._dice = Dice(seed, "plan")
        self._queue: list[str] = []
        self._last = ""
        self._short: list[str] = []

    def next(self) -> str:
        if not self._queue:
            self._queue = self._dice.shuffled(sorted(SCENARIOS))
            if self._queue[0] == self._last:
                self._queue.append(self._queue.pop(0))
        if self._last in SCENARIOS and self._dice.chance(35):
            self._short = self._short or self._dice.shuffled(sorted(SHORT))
            self._last = self._short.pop()
        else:
            self._last = self._queue.pop(0)
        return self._last


def _extend(state: _State, episode: str, seed: int) -> _State:
    scene = Scene(state.scene.lab.fork())
    scene.messages, scene.marks = list(state.scene.messages), list(state.scene.marks)
    scene.num_calls = state.scene.num_calls
    _run(scene, seed, len(state.episodes), episode)
    return _State(scene=scene, episodes=(*state.episodes, episode))


def _play(seed: int, episodes: Sequence[str], watcher: Callable[[Scene], None] | None = None) -> Scene:
    scene = Scene(Lab(seed))
    if watcher:
        scene.watch(watcher)
    for index, episode in enumerate(episodes):
        if episode not in ALL:
            raise InvalidInput(f"no scenario named {episode!r}", where=f"episodes.{index}")
        _run(scene, seed, index, episode)
    return scene


def _run(scene: Scene, seed: int, index: int, episode: str) -> None:
    scene.dice = Dice(seed, "episode", index, episode)
    ALL[episode](scene)


def _session(name: str, seed: int, state: _State) -> Session:
    marks: list[dict[str, Any]] = [{**mark, "message": mark["message"] + 1} for mark in state.scene.marks]
    return Session.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            "name": name,
            "licence": "Apache-2.0",
            "provenance": {
                "kind": "synthetic",
                "generator": GENERATOR,
                "seed": seed,
                "episodes": list(state.episodes),
                "note": "Written by scripts over a simulated network. No model and no real device took part, so that "
                "the assistant's text is off-policy for every model.",
            },
            "messages": [{"role": "system", "content": SYSTEM_PROMPT}, *state.scene.messages],
            "tools": tool_definitions(),
            "sampling": {"temperature": 0.0, "top_p": 1.0, "max_tokens": 1024, "seed": 0, "tool_choice": "auto"},
            "marks": marks,
        }
    )
