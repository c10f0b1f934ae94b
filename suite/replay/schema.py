"""`replays.json`: what stacks wrote at the tool-call turns of a session, how each answer was graded, and the counts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from suite.capture.index import Count, Sha256
from suite.files import pretty_json
from suite.grade.record import CallRecord, Text, VerdictName
from suite.records import parse_strictly

REPLAYS_NAME = "replays.json"
SCHEMA_VERSION = 1

Side = Literal["reference", "candidate"]
SettingsName = Literal["measure", "serve", "endpoint"]
"""Under which settings a stack answered: those of the manifest's `engine`, those of `serve`, or a server's own."""
Mode = Literal["greedy", "sampled"]
EndingName = Literal["stop", "truncated", "engine error"]
Outcome = Literal["survived", "recovered", "not recovered", "undecided"]

Name = Annotated[str, Field(max_length=300)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RecordedCall(_Strict):
    """A call of the recorded session."""

    name: Name
    arguments: dict[str, JsonValue]


class ReplayTurn(_Strict):
    """One turn of the session in which the assistant made calls."""

    message: Count
    """Index into the session's messages."""
    prompt_tokens: Count | None
    """Tokens of the history before it, so that the ledger's row at `prompt_tokens - 1` predicts its first token;
    None where only a server knows them."""
    calls: tuple[RecordedCall, ...] = Field(min_length=1)
    """What the session has there."""


class Step(_Strict):
    """One further turn in the simulated laboratory."""

    results: tuple[Text, ...]
    """What the simulator, or for an unreadable call the harness, answered to the turn before."""
    text: Text
    token_ids: tuple[Count, ...] | None
    verdict: VerdictName


class Followed(_Strict):
    """An answer that was followed in the simulated laboratory; nothing was executed."""

    steps: tuple[Step, ...]
    outcome: Outcome
    """`survived`: the answer itself did; `recovered`: a later turn reached what was right here; `undecided`: the
    turns allowed, or the context, ran out."""


class Answer(_Strict):
    """What one stack wrote at one turn, once."""

    message: Count
    sample: Count
    """0 is the greedy answer; 1 to K are sampled."""
    seed: Count | None
    """Of a sampled answer."""
    ending: EndingName
    error: Text | None = None
    """What the engine said, for `engine error`."""
    text: Text
    """With special tokens kept; for structured calls of a server, the message as JSON."""
    token_ids: tuple[Count, ...] | None
    """None where a server gave none."""
    cached_tokens: Count | None
    """Tokens of the prompt that came from the prefix cache; None where that is not known."""
    format: Name | None
    reasoning_open: bool = False
    """The prompt ended inside the model's reasoning."""
    verdict: VerdictName
    calls: tuple[CallRecord, ...]
    same_calls: bool
    """The calls are those of the session: names, and arguments as JSON values."""
    followed: Followed | None = None

    @property
    def mode(self) -> Mode:
        """Whether it is the greedy answer."""
        return "sampled" if self.sample else "greedy"

    @property
    def survives(self) -> bool:
        """Every call of the answer reached the top of the ladder."""
        return self.verdict == "ok"


class Server(_Strict):
    """A server that answered, as far as it tells."""

    url: Name
    """Without user, password and query."""
    api: Literal["chat", "completions"]
    model: Name
    stream: bool
    fingerprint: Name | None = None
    """`system_fingerprint` or owner of the model, where the server names one."""


class Run(_Strict):
    """All answers of one stack under one set of settings."""

    side: Side
    settings: SettingsName
    name: Name
    """Of the manifest, or the model's served name."""
    lock_digest: Sha256 | None
    """None for a server."""
    server: Server | None = None
    prefix_caching: bool | None
    """Prompts share their beginnings, so that caching is switched on here whatever the settings say."""
    max_num_seqs: Annotated[int, Field(ge=1)] | None
    """Answers that may be in the engine at once."""
    effective: dict[str, JsonValue]
    """What the engine really used, read back; empty for a server."""
    engine: Name | None
    """Version of vLLM."""
    generated_tokens: Count | None
    seconds: Annotated[float, Field(ge=0)]
    """From the first request to the last answer, without the engine's start."""
    answers: tuple[Answer, ...]
    """In order of `message`, then `sample`."""


class Tally(_Strict):
    """One side's counts."""

    survived: Count
    n: Count
    verdicts: dict[VerdictName, Count]
    same_calls: Count
    """Answers whose calls are those of the session."""
    outcomes: dict[Outcome, Count]
    """Of those that were followed in the simulated laboratory; empty where none was."""


class Headline(_Strict):
    """`k of m calls survive`, and how the two sides agree turn by turn."""

    settings: SettingsName
    mode: Mode
    candidate: Tally
    reference: Tally | None
    """None where the reference was not run."""
    both: Count | None
    """Answers (same turn, same sample) that survive on both sides."""
    only_reference: Count | None
    only_candidate: Count | None
    neither: Count | None
    paired_turns: Count | None
    p_value: Annotated[float, Field(ge=0, le=1)] | None
    """Sign-flip test over turns, two-sided; None under ten paired turns, where only counts are given."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        cells = (self.both, self.only_reference, self.only_candidate, self.neither, self.paired_turns)
        if len({cell is None for cell in (self.reference, *cells)}) != 1:
            raise ValueError("a pairing is whole or absent")
        return self


class ReplayWorkload(_Strict):
    """The session that was replayed."""

    name: Name
    digest: Sha256
    num_tool_call_turns: Count
    """Of the whole session; `turns` may hold fewer."""


class Sampler(_Strict):
    """The settings of the sampled answers."""

    source: Literal["session", "model", "user"]
    """The session's own, those of the model's generation_config.json, or given by the user."""
    temperature: Annotated[float, Field(gt=0)]
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None

    def parameters(self) -> dict[str, Any]:
        """Name to value of those that are set, as vLLM and OpenAI-compatible servers take them."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"source"})


class ReplaysRecord(_Strict):
    """The whole file."""

    schema_version: Literal[1] = 1
    workload: ReplayWorkload
    format: Name
    """The grammar that answers are read by; `openai_json` for structured calls of a server."""
    max_new_tokens: Annotated[int, Field(ge=1)]
    samples: Count
    """Sampled answers at each turn, K."""
    sampler: Sampler | None
    """None where K is 0."""
    turns: tuple[ReplayTurn, ...]
    runs: tuple[Run, ...]
    headlines: tuple[Headline, ...]
    """One for each settings and mode that a candidate answered under, in that order."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.sampler is None) != (self.samples == 0):
            raise ValueError("a sampler belongs to sampled answers")
        expected = [(turn.message, sample) for turn in self.turns for sample in range(self.samples + 1)]
        seen = set()
        for run in self.runs:
            if [(answer.message, answer.sample) for answer in run.answers] != expected:
                raise ValueError(f"the answers of {run.name} ({run.settings}) are not one for each turn and sample")
            if (run.side, run.settings) in seen:
                raise ValueError(f"two runs of the {run.side} under {run.settings} settings")
            seen.add((run.side, run.settings))
        return self

    def to_bytes(self) -> bytes:
        """The content of `replays.json`."""
        return pretty_json(self.model_dump(mode="json"))

    def run_of(self, side: Side, settings: SettingsName) -> Run | None:
        """One side's answers under one set of settings."""
        return next((run for run in self.runs if (run.side, run.settings) == (side, settings)), None)


def parse_replays(data: bytes, *, where: str = REPLAYS_NAME) -> ReplaysRecord:
    """Read what `ReplaysRecord.to_bytes` wrote, strictly.

    Raises:
        InvalidInput: not strict JSON, a newer schema version, or not such a record.
    """
    return parse_strictly(ReplaysRecord, data, where=where, newest=SCHEMA_VERSION)
