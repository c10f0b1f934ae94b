"""A small record with both sides, both modes and one followed answer, made from texts by the judge itself."""

from suite.replay.counts import headlines
from suite.replay.judge import Judge, Written, replay_turns
from suite.replay.schema import Followed, ReplaysRecord, ReplayWorkload, Run, Sampler, Side, Step
from suite.workload.session import Session, parse_session

CALL = '{"name": "device_show", "arguments": {"device": "core-1", "command": "show ip interface brief"}}'


def session() -> Session:
    """Two tool-call turns, with marks."""
    import json

    def call(number: int, device: str) -> dict[str, object]:
        arguments = json.dumps({"device": device, "command": "show interface GigabitEthernet0/0/1.201"})
        return {
            "role": "assistant",
            "tool_calls": [
                {"id": f"call{number}", "type": "function", "function": {"name": "device_show", "arguments": arguments}}
            ],
        }

    properties = {"device": {"type": "string"}, "command": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["device", "command"]}
    messages = [
        {"role": "user", "content": "Is GigabitEthernet0/0/1.201 up on core-1 and core-2?"},
        call(1, "core-1"),
        {"role": "tool", "tool_call_id": "call1", "content": "GigabitEthernet0/0/1.201 is up, 10.20.1.1/24"},
        call(2, "core-2"),
        {"role": "tool", "tool_call_id": "call2", "content": "GigabitEthernet0/0/1.201 is down, 10.20.1.2/24"},
        {"role": "assistant", "content": "Up on core-1, down on core-2."},
    ]
    return parse_session(
        json.dumps(
            {
                "schema_version": 1,
                "name": "two-turns",
                "licence": "Apache-2.0",
                "provenance": {"kind": "synthetic", "generator": "tests"},
                "messages": messages,
                "tools": [{"type": "function", "function": {"name": "device_show", "parameters": parameters}}],
                "marks": [{"message": 1, "must_survive": ["GigabitEthernet0/0/1.201"]}],
            }
        ).encode()
    )


def hermes(device: str, command: str = "show interface GigabitEthernet0/0/1.201") -> str:
    """One call as a model would write it."""
    return (
        f'<tool_call>\n{{"name": "device_show", "arguments": {{"device": "{device}", "command": "{command}"}}}}\n'
        "</tool_call><|im_end|>"
    )


BROKEN = hermes("core-1", "show interface GigabitEthernet0/0/1.20l")
UNCLOSED = '<tool_call>\n{"name": "device_show", "arguments": {"device": "core-2"'


def run(side: Side, texts: dict[tuple[int, int], str]) -> Run:
    """Answers under the measure settings."""
    judge = Judge(session())
    answers = [
        judge.answer(
            Written(
                message=message,
                sample=sample,
                seed=sample or None,
                ending="stop",
                text=text,
                format="hermes",
                token_ids=tuple(range(100, 100 + sample + 3)),
                cached_tokens=16,
            )
        )
        for (message, sample), text in sorted(texts.items())
    ]
    if side == "candidate":
        step = Step(results=("% Invalid input detected",), text=hermes("core-1"), token_ids=(1, 2, 3), verdict="ok")
        answers[0] = answers[0].model_copy(update={"followed": Followed(steps=(step,), outcome="recovered")})
    return Run(
        side=side,
        settings="measure",
        name="cpu-bf16" if side == "reference" else "cpu-kv-fp8",
        lock_digest=("a" if side == "reference" else "b") * 64,
        prefix_caching=True,
        max_num_seqs=1,
        effective={"attention_backend": "CPU_ATTN"},
        engine="0.32.0",
        generated_tokens=sum(len(answer.token_ids or ()) for answer in answers),
        seconds=1.5,
        answers=tuple(answers),
    )


def record() -> ReplaysRecord:
    """The sample."""
    good, other = hermes("core-1"), hermes("core-2")
    runs = (
        run("reference", {(1, 0): good, (1, 1): good, (3, 0): other, (3, 1): UNCLOSED}),
        run("candidate", {(1, 0): BROKEN, (1, 1): good, (3, 0): other, (3, 1): UNCLOSED}),
    )
    whole = session()
    return ReplaysRecord(
        workload=ReplayWorkload(name=whole.name, digest=whole.digest(), num_tool_call_turns=2),
        format="hermes",
        max_new_tokens=256,
        samples=1,
        sampler=Sampler(source="user", temperature=0.7, top_p=0.9),
        turns=replay_turns(whole, (1, 3), (120, 180)),
        runs=runs,
        headlines=headlines(runs),
    )
