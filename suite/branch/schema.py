"""`branches.json` and the lines of `branches.jsonl.gz`: forks, the futures after them, and their consequences."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from suite.capture.index import Count, Sha256
from suite.files import canonical_json, pretty_json
from suite.grade.record import CallRecord, Text, VerdictName
from suite.records import parse_strictly
from suite.score.classes import FLIP_CLASSES, FlipClass

BRANCHES_NAME = "branches.json"
FORKS_NAME = "branches.jsonl.gz"
SCHEMA_VERSION = 1

Role = Literal["reference", "reference_candidate_token", "candidate"]
"""Which stack wrote a future, and after which token: the reference after its own best token, the reference after the
candidate's, the candidate after its own."""
ROLES: tuple[Role, ...] = ("reference", "reference_candidate_token", "candidate")

Finish = Literal["turn_end", "envelope", "length", "context", "not_continued"]
"""Why a future ends: the end-of-turn token, the closing mark of a tool envelope, the cap on new tokens, the engine's
context, or it was not continued because its first token is not the captured winner."""
ENDED: frozenset[Finish] = frozenset({"turn_end", "envelope"})
"""Endings that the stack chose itself; after any other the future is open."""

ConsequenceName = Literal[
    "absorbed",
    "recovered",
    "valid but different",
    "other words",
    "wrong literal",
    "wrong command",
    "broken envelope",
    "undecided",
]
CONSEQUENCES: tuple[ConsequenceName, ...] = (
    "absorbed",
    "recovered",
    "valid but different",
    "other words",
    "wrong literal",
    "wrong command",
    "broken envelope",
    "undecided",
)

STATE_LETTERS = {"o": "outside", "e": "in envelope", "n": "in name", "a": "in argument name", "v": "in value"}
"""Letter of `Future.states` -> the grammar's state after that token."""

TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Name = Annotated[str, Field(max_length=300)]
Probability = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TopToken(_Strict):
    """One of the best tokens of a stack at a fork."""

    id: TokenId
    text: Text
    p: Probability
    """exp(logit - logsumexp), both as the stack captured them."""


class Future(_Strict):
    """What one stack wrote after one first token, greedily."""

    role: Role
    first_token_id: TokenId
    """The token after which it continues: the captured winner of its role."""
    engine_token_id: TokenId | None
    """What the engine itself wrote first, branching; None for `reference_candidate_token`, whose token is given."""
    finish: Finish
    token_ids: Annotated[tuple[TokenId, ...], Field(min_length=1, max_length=1 << 20)]
    """The first token and all that follow, the end-of-turn token included."""
    token_texts: tuple[Text, ...]
    """Text of each token; joined they are the future's text. A character of several tokens stands at its last one."""
    states: Annotated[str, Field(pattern=r"^[oenav]*$")]
    """One letter of `STATE_LETTERS` for each token; empty where no format of tool calls is known."""
    batch: Count
    """Number of the batch in which its stack continued it (or, if it was not continued, wrote its first token)."""
    order: Count
    """Place in that batch."""
    cached_tokens: Count
    """Tokens of its prompt that came from the prefix cache."""
    verdict: VerdictName
    """Of the turn from its last unfinished call on: what the fork can still change."""
    calls: tuple[CallRecord, ...]
    """Calls that were not finished before the fork."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.token_ids[0] != self.first_token_id:
            raise ValueError("a future begins with its first token")
        if len(self.token_texts) != len(self.token_ids) or len(self.states) not in (0, len(self.token_ids)):
            raise ValueError("one text and one state for each token")
        if (self.role == "reference_candidate_token") != (self.engine_token_id is None):
            raise ValueError("only the candidate's token is given to the reference")
        if self.agrees == (self.finish == "not_continued"):
            raise ValueError("a future is continued exactly if its engine wrote the captured winner first")
        return self

    @property
    def agrees(self) -> bool:
        """Whether the engine, branching, wrote the captured winner; true where the token was given."""
        return self.engine_token_id in (None, self.first_token_id)

    @property
    def text(self) -> str:
        """All of it as text."""
        return "".join(self.token_texts)


class Consequence(_Strict):
    """What became of a fork, measured against the reference's future."""

    name: ConsequenceName
    reference_at: Count | None = None
    """For `absorbed`: tokens of the reference's future before both are the same again."""
    at: Count | None = None
    """The same in the other future."""
    in_reference: bool = False
    """The reference's own future has a fault of this kind too, so that the flip did not bring it."""
    detail: Annotated[str, Field(max_length=1000)] = ""
    """In words: the literal, the command, the first fault."""


class Fork(_Strict):
    """One line of `branches.jsonl.gz`: a flip of the ledger that was followed."""

    position: Count
    """The ledger's row; the fork's tokens stand at `position + 1`."""
    flip_class: FlipClass
    turn: Count
    """Index of the message."""
    span_kind: Name
    target_id: TokenId
    """The token that the session has there."""
    turn_text: Text
    """What the assistant had written of this turn before the fork."""
    recorded_text: Text
    """What the session has from the fork to the end of the turn."""
    reference_top: tuple[TopToken, ...]
    """Best first."""
    candidate_top: tuple[TopToken, ...]
    futures: Annotated[tuple[Future, ...], Field(min_length=1, max_length=3)]
    """In the order of `ROLES`; without those of the reference where it could not be run."""
    consequence: Consequence | None
    """Of the candidate's future; None where a first token was not the captured winner, so that the fork is not used."""
    token_consequence: Consequence | None
    """Of the candidate's token alone: the reference's future after it. None likewise, or where there is none."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        roles = [future.role for future in self.futures]
        if roles != [role for role in ROLES if role in roles]:
            raise ValueError("futures are not in order, or one stands twice")
        if self.future("candidate") is None:
            raise ValueError("no fork without the candidate's future")
        if self.used != (self.consequence is not None):
            raise ValueError("a fork has a consequence exactly if it is used")
        return self

    @property
    def used(self) -> bool:
        """Whether every stack wrote its captured winner first."""
        return all(future.agrees for future in self.futures)

    def future(self, role: Role) -> Future | None:
        """The future of one role."""
        return next((future for future in self.futures if future.role == role), None)

    def to_line(self) -> bytes:
        """One line of JSON."""
        return canonical_json(self.model_dump(mode="json"))


class Segment(_Strict):
    """Consecutive forks in one gzip member of `branches.jsonl.gz`, readable alone."""

    first_position: Count
    last_position: Count
    num_forks: Annotated[int, Field(ge=1, le=1024)]
    offset: Count
    """Of its first byte in the file."""
    size_bytes: Annotated[int, Field(ge=1, le=1 << 28)]


class ForkPolicy(_Strict):
    """Which forks were followed, and how far."""

    classes: tuple[FlipClass, ...]
    max_per_class: Count | None
    """None: all of them."""
    max_new_tokens: Annotated[int, Field(ge=1, le=1 << 20)]


class BranchRun(_Strict):
    """One stack's branching."""

    name: Name
    lock_digest: Sha256
    max_num_seqs: Annotated[int, Field(ge=1)]
    """Futures of one batch."""
    requested: dict[str, JsonValue]
    effective: dict[str, JsonValue]
    """Read back from the engine. Prefix caching is on, whatever the capture's settings are."""
    engine: Name
    """Version of vLLM."""
    num_roots: Count
    """First tokens that it wrote."""
    num_futures: Count
    """Futures that it continued."""
    prompt_tokens: Count
    """Sum over all its requests."""
    cached_tokens: Count
    """Of these, from the prefix cache; the rest was computed."""
    new_tokens: Count
    """Tokens that it wrote."""
    seconds: Annotated[float, Field(ge=0)]
    """From the first request to the last token, without the engine's start; other engines may have been at work."""


class ClassCounts(_Strict):
    """Flips of one class, and what became of those that were followed."""

    flip_class: FlipClass
    flips: Count
    """Of the ledger."""
    outside_output: Count
    """Where no stack writes: in prompts, tool answers and the template's own text. Not followed."""
    left_out: Count
    """Of the rest, by the policy's limits."""
    reference_mismatches: Count
    """Followed, but branching the reference wrote another token than it had captured; not used."""
    candidate_mismatches: Count
    both_mismatch: Count
    used: Count
    consequences: dict[ConsequenceName, Count]
    """Of the forks used; every name, in sum `used`."""
    in_reference: dict[ConsequenceName, Count]
    """Of these, those whose fault the reference's own future has too."""
    token_consequences: dict[ConsequenceName, Count]
    """The same count for the candidate's token in the reference stack."""

    @model_validator(mode="after")
    def _sums(self) -> Self:
        mismatches = self.reference_mismatches + self.candidate_mismatches + self.both_mismatch
        if self.flips != self.outside_output + self.left_out + mismatches + self.used:
            raise ValueError(f"{self.flip_class}: the counts do not add up to {self.flips} flips")
        for counts in (self.consequences, self.in_reference, self.token_consequences):
            if counts.keys() != set(CONSEQUENCES):
                raise ValueError(f"{self.flip_class}: not one count for each consequence")
        if sum(self.consequences.values()) != self.used:
            raise ValueError(f"{self.flip_class}: the consequences do not add up to {self.used}")
        return self


class BranchHeadlines(_Strict):
    """`branches` of `bundle.json`: flips by class and consequence, recomputed from the forks and the ledger."""

    followed: Count
    used: Count
    by_class: tuple[ClassCounts, ...]

    @model_validator(mode="after")
    def _classes(self) -> Self:
        if tuple(counts.flip_class for counts in self.by_class) != FLIP_CLASSES:
            raise ValueError("not one entry for each class, in order")
        return self


class BranchesRecord(_Strict):
    """The whole of `branches.json`: how the forks in the other file were made, and where in it they lie."""

    schema_version: Literal[1] = 1
    policy: ForkPolicy
    tool_format: Name | None
    """The grammar by which futures are read; None where the session calls no tool of a known format."""
    end_token_ids: tuple[TokenId, ...]
    """Tokens that end a turn."""
    stop_texts: tuple[Name, ...]
    """Closing marks of a tool envelope, which end a future too."""
    candidate: BranchRun
    reference: BranchRun | None
    """None where the reference could not be run here: its rows come from elsewhere."""
    num_forks: Count
    segments: tuple[Segment, ...]
    """In order of position; together the whole file."""

    @model_validator(mode="after")
    def _contiguous(self) -> Self:
        if self.num_forks != sum(segment.num_forks for segment in self.segments):
            raise ValueError("num_forks is not the sum over the segments")
        if self.segments and self.segments[0].offset:
            raise ValueError("the first segment does not begin the file")
        for a, b in pairwise(self.segments):
            if b.offset != a.offset + a.size_bytes or b.first_position <= a.last_position:
                raise ValueError(f"the segment at {b.first_position} does not follow the one before it")
        return self

    @property
    def size_bytes(self) -> int:
        """Size of `branches.jsonl.gz`."""
        return sum(segment.size_bytes for segment in self.segments)

    def to_bytes(self) -> bytes:
        """The content of `branches.json`."""
        return pretty_json(self.model_dump(mode="json"))


def parse_branches(data: bytes, *, where: str = BRANCHES_NAME) -> BranchesRecord:
    """Read what `BranchesRecord.to_bytes` wrote, strictly.

    Raises:
        InvalidInput: not strict JSON, a newer schema version, or not such a record.
    """
    return parse_strictly(BranchesRecord, data, where=where, newest=SCHEMA_VERSION)


def parse_fork(line: bytes, *, where: str) -> Fork:
    """Read one line of `branches.jsonl.gz`, strictly.

    Raises:
        InvalidInput: not strict JSON, or not a fork.
    """
    return parse_strictly(Fork, line, where=where)
