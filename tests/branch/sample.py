"""Three hand-made forks, one of each kind that a reader must show: a wrong literal, an absorbed one, one not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.branch.schema import BranchesRecord, BranchRun, Consequence, Fork, ForkPolicy, Future, Role, TopToken
from suite.grade.record import CallRecord, LiteralsRecord

FOLDER = Path(__file__).parent / "sample"
END = 2
_IDS = {"<|im_end|>": END, "\n</parameter>": 200}


def future(role: Role, first: int, texts: list[str], **values: Any) -> Future:
    """A future of made-up ids: the first one given, the others counted up from the text."""
    ids = [first, *(_IDS.get(text, 1000 + sum(text.encode())) for text in texts[1:])]
    common = {
        "role": role,
        "first_token_id": first,
        "engine_token_id": None if role == "reference_candidate_token" else first,
        "finish": "turn_end",
        "token_ids": tuple(ids),
        "token_texts": tuple(texts),
        "states": "v" * len(texts),
        "batch": 0,
        "order": 0,
        "cached_tokens": 96,
        "verdict": "ok",
        "calls": (),
    }
    return Future(**(common | values))


def call(interface: str, *, verdict: str = "ok", mutated: tuple[tuple[str, str], ...] = ()) -> CallRecord:
    """A call of `device_show`."""
    intact = () if mutated else (interface,)
    return CallRecord(
        closed=True,
        parsed=True,
        name="device_show",
        known_name=True,
        schema_valid=True,
        arguments={"device": "core-1", "command": f"show interfaces {interface}"},
        literals=LiteralsRecord(intact=intact, missing=(), mutated=mutated, invented=()),
        verdict=verdict,  # type: ignore[arg-type]
        first_fault=None,
    )


def forks() -> list[Fork]:
    """In order of position."""
    right, wrong = "GigabitEthernet0/0/1", "GigabitEthernet0/0/1.201"
    turn = f"I check the port.\n<tool_call>\n<function=device_show>\n<parameter=command>\nshow interfaces {right}"
    close = ["\n</parameter>", "\n</function>", "\n</tool_call>"]
    mutated = ((right, wrong),)
    lost = call(wrong, verdict="literals changed", mutated=mutated)
    first = Fork(
        position=1200,
        flip_class="leaning",
        turn=4,
        span_kind="tool_call",
        target_id=200,
        turn_text=turn,
        recorded_text="".join(close) + "<|im_end|>",
        reference_top=(TopToken(id=200, text="\n</parameter>", p=0.61), TopToken(id=300, text=".", p=0.3)),
        candidate_top=(TopToken(id=300, text=".", p=0.48), TopToken(id=200, text="\n</parameter>", p=0.44)),
        futures=(
            future("reference", 200, close, finish="envelope", calls=(call(right),)),
            future(
                "reference_candidate_token",
                300,
                [".", "201", *close],
                finish="envelope",
                verdict="literals changed",
                calls=(lost,),
            ),
            future(
                "candidate", 300, [".", "201", *close], finish="envelope", verdict="literals changed", calls=(lost,)
            ),
        ),
        consequence=Consequence(name="wrong literal", detail=f"{wrong} stands for {right}"),
        token_consequence=Consequence(name="wrong literal", detail=f"{wrong} stands for {right}"),
    )
    rest = [" the", " port", " is", " down", " on", " core-1", " since", " noon", ".", "<|im_end|>"]
    words = {"states": "o" * 11, "verdict": "no call"}
    second = Fork(
        position=2404,
        flip_class="tied",
        turn=8,
        span_kind="assistant_output",
        target_id=410,
        turn_text="",
        recorded_text="Yes," + "".join(rest),
        reference_top=(TopToken(id=410, text="Yes,", p=0.4), TopToken(id=420, text="So", p=0.4)),
        candidate_top=(TopToken(id=420, text="So", p=0.41), TopToken(id=410, text="Yes,", p=0.39)),
        futures=(
            future("reference", 410, ["Yes,", *rest], **words, batch=1),
            future("reference_candidate_token", 420, ["So", *rest], **words, batch=1, order=1),
            future("candidate", 420, ["So", *rest], **words, batch=1),
        ),
        consequence=Consequence(name="absorbed", reference_at=1, at=1),
        token_consequence=Consequence(name="absorbed", reference_at=1, at=1),
    )
    third = Fork(
        position=3000,
        flip_class="uncertain",
        turn=10,
        span_kind="reasoning",
        target_id=510,
        turn_text="<think>\nThe caf\u00e9 router \u2013 ",
        recorded_text="is reachable.\n</think>\n\nDone.<|im_end|>",
        reference_top=(TopToken(id=510, text="is", p=0.21), TopToken(id=520, text="was", p=0.2)),
        candidate_top=(TopToken(id=520, text="was", p=0.22), TopToken(id=510, text="is", p=0.2)),
        futures=(
            future(
                "reference", 510, ["is"], engine_token_id=520, finish="not_continued", states="o", verdict="no call"
            ),
            future(
                "reference_candidate_token",
                520,
                ["was", " up", ".", "\n</think>", "<|im_end|>"],
                states="ooooo",
                verdict="no call",
            ),
            future(
                "candidate",
                520,
                ["was", " up", ".", "\n</think>", " and", " on"],
                states="oooooo",
                finish="length",
                verdict="truncated",
            ),
        ),
        consequence=None,
        token_consequence=None,
    )
    return [first, second, third]


def record(segments: Any) -> BranchesRecord:
    """The record of `forks` in a file of these segments."""
    settings = {"enable_prefix_caching": True, "max_num_seqs": 16, "kv_cache_dtype": "bfloat16"}
    run = {
        "name": "cpu-bf16",
        "lock_digest": "a" * 64,
        "max_num_seqs": 16,
        "requested": settings,
        "effective": settings,
        "engine": "0.32.0",
        "num_roots": 3,
        "num_futures": 5,
        "prompt_tokens": 17_600,
        "cached_tokens": 14_300,
        "new_tokens": 40,
        "seconds": 2.5,
    }
    changed = settings | {"kv_cache_dtype": "fp8_e4m3"}
    candidate = run | {"name": "cpu-kv-fp8", "lock_digest": "b" * 64, "requested": changed, "effective": changed}
    return BranchesRecord(
        policy=ForkPolicy(
            classes=("tied", "uncertain", "leaning", "confident"), max_per_class=None, max_new_tokens=1024
        ),
        tool_format="qwen_xml",
        end_token_ids=(END,),
        stop_texts=("</tool_call>",),
        candidate=BranchRun(**candidate),
        reference=BranchRun(**run),
        num_forks=3,
        segments=segments,
    )
