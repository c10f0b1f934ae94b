from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from suite.cli.workload import workload
from suite.errors import InvalidInput
from suite.manifest.positions import resolve_ranges
from suite.manifest.schema import Capture
from suite.stack.memory import model_shape
from suite.workload.ranges import propose
from suite.workload.render import render
from suite.workload.rendered import Rendered
from suite.workload.session import parse_session
from tests.workload.conftest import LAB, example

CONFIG = {
    "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 700,
    "num_key_value_heads": 2, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture
def rendered(chatml_dir: Path, chatml_tools: str) -> Rendered:
    return render(parse_session(json.dumps(example()).encode()), chatml_dir, chat_template=chatml_tools)


def test_proposals_grow_and_stay_in_what_the_assistant_writes(rendered: Rendered) -> None:
    proposals = propose(rendered, path="prefill", around_tokens=4)
    assert [p.name for p in proposals] == ["literals", "tool calls", "tool calls and literals", "assistant output"]
    probes = {p.name: p.num_probes for p in proposals}
    assert probes["literals"] < probes["tool calls and literals"] <= probes["assistant output"]
    kinds = rendered.kinds()
    for proposal in proposals:
        assert list(proposal.ranges) == sorted(proposal.ranges)
        for a, b in proposal.ranges:
            assert set(kinds[a:b]) <= {"assistant_output", "tool_call", "reasoning"}
    literals = rendered.literal_mask()
    covered = {t for a, b in proposals[0].ranges for t in range(a, b)}
    inside = {t for t, marked in enumerate(literals) if marked and kinds[t] in ("assistant_output", "tool_call")}
    assert inside <= covered


def test_decode_ranges_begin_where_turns_do(rendered: Rendered) -> None:
    starts = {turn.output_start for turn in rendered.turns if turn.output_start is not None}
    for proposal in propose(rendered, path="decode", around_tokens=4):
        assert {a for a, _ in proposal.ranges} <= starts


def test_bytes_and_minutes(rendered: Rendered) -> None:
    shape = model_shape(CONFIG)
    *_, whole = propose(rendered, path="prefill", around_tokens=4, shape=shape, prefill_tokens_per_second=10.0)
    assert whole.logits_bytes == whole.num_probes * (700 * 2 + 600)
    assert whole.hidden_bytes == whole.num_probes * (8 * 2 + 600)
    assert whole.minutes == pytest.approx(rendered.num_tokens / 10 / 60)
    *_, steps = propose(
        rendered, path="decode", around_tokens=4, prefill_tokens_per_second=10.0, decode_tokens_per_second=2.0
    )
    assert steps.minutes is not None
    assert steps.minutes > whole.minutes
    assert steps.logits_bytes is None


def test_a_session_without_an_assistant(chatml_dir: Path) -> None:
    value = example() | {"messages": [{"role": "user", "content": "hi"}], "marks": [], "tools": []}
    only_user = render(parse_session(json.dumps(value).encode()), chatml_dir)
    with pytest.raises(InvalidInput, match="no output"):
        propose(only_user, path="prefill", around_tokens=4)


@pytest.mark.parametrize("path", ["prefill", "decode"])
def test_chosen_lines_are_a_capture_policy(chatml_dir: Path, rendered: Rendered, tmp_path: Path, path: str) -> None:
    session = tmp_path / "s.json"
    session.write_text(json.dumps(example()))
    options = ["--tokenizer", str(chatml_dir), "--chat-template", str(LAB / "chatml-tools.jinja"), "--path", path]
    table = CliRunner().invoke(workload, ["ranges", str(session), *options])
    assert table.exit_code == 0, table.output
    listed = json.loads(CliRunner().invoke(workload, ["ranges", str(session), *options, "--json"]).stdout)
    for proposal in listed:
        assert proposal["name"] in table.output
        chosen = CliRunner().invoke(workload, ["ranges", str(session), *options, "--choose", proposal["name"]])
        capture = Capture.model_validate_json(json.dumps(yaml.safe_load(chosen.output)["capture"]))
        assert resolve_ranges(capture, rendered) == tuple(map(tuple, proposal["ranges"]))
    wrong = CliRunner().invoke(workload, ["ranges", str(session), *options, "--choose", "x"])
    assert isinstance(wrong.exception, InvalidInput)
