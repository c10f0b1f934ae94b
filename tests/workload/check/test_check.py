"""Each fault that a check looks for, made on purpose; and that a sound session has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from suite.cli.workload import workload
from suite.errors import InvalidInput
from suite.workload.check.page import page
from suite.workload.check.run import Report, check_session
from suite.workload.check.sampler import defaults_in_log, effective
from suite.workload.check.segments import segments
from suite.workload.render import prompt_ids, render
from suite.workload.session import Session, parse_session
from suite.workload.turns import RecordedTurn, RecordedTurns, load_turns, turns_file
from tests.workload.conftest import CHATML, example, make_tokenizer

SMALL = {
    "schema_version": 1,
    "name": "small",
    "licence": "private",
    "provenance": {"kind": "recorded", "generator": "test"},
    "sampling": {"temperature": 0.0},
    "messages": [
        {"role": "user", "content": "How many ports?"},
        {"role": "assistant", "content": "Twelve."},
        {"role": "user", "content": "And up?"},
        {"role": "assistant", "content": "Nine."},
    ],
}


def small(**changes: Any) -> Session:
    return parse_session(json.dumps({**SMALL, **changes}).encode())


def with_message(index: int, **changes: Any) -> Session:
    messages = [dict(m) for m in SMALL["messages"]]  # type: ignore[attr-defined]
    messages[index] |= changes
    return small(messages=messages)


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def turns_of(session: Session, ids: dict[int, list[int]]) -> RecordedTurns:
    turns = [
        RecordedTurn(message=m, exchange="e", attempts=1, prompt_token_ids=prompt) for m, prompt in sorted(ids.items())
    ]
    return RecordedTurns(session=session.digest(), endpoint="chat/completions", turns=turns)


def test_a_sound_session_has_no_finding(chatml_dir: Path) -> None:
    session = small()
    ids = {m: list(prompt_ids(session, chatml_dir, m)) for m in (1, 3)}
    report = check_session(session, chatml_dir, turns=turns_of(session, ids), context_tokens=4096)
    assert codes(report) == []
    assert report.rendered is not None


@pytest.fixture(scope="module")
def bos_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer that puts a token before every text, as Llama's does."""
    folder = make_tokenizer(tmp_path_factory.mktemp("bos"), ["<s>", "</s>", "<|im_start|>", "<|im_end|>"])
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text())
    piece = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    value["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [piece, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [piece, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    }
    path.write_text(json.dumps(value))
    return folder


class TestBos:
    def test_missing(self, bos_dir: Path) -> None:
        assert "missing-bos" in codes(check_session(small(), bos_dir))

    def test_right(self, bos_dir: Path) -> None:
        report = check_session(small(), bos_dir, chat_template="{{ bos_token }}" + CHATML)
        assert not {"missing-bos", "doubled-bos"} & set(codes(report))

    def test_doubled_by_the_template(self, bos_dir: Path) -> None:
        report = check_session(small(), bos_dir, chat_template="{{ bos_token }}{{ bos_token }}" + CHATML)
        assert "doubled-bos" in codes(report)

    def test_doubled_by_the_server(self, bos_dir: Path) -> None:
        session = small()
        template = "{{ bos_token }}" + CHATML
        prompt = [0, *prompt_ids(session, bos_dir, 1, chat_template=template)]
        report = check_session(session, bos_dir, chat_template=template, turns=turns_of(session, {1: prompt}))
        found = {f.code: f for f in report.findings}
        assert found["doubled-bos"].where == "the server's prompt"
        assert "ids-differ" in found

    def test_a_model_without_one(self, chatml_dir: Path) -> None:
        assert not {"missing-bos", "doubled-bos"} & set(codes(check_session(small(), chatml_dir)))


class TestTemplate:
    def test_no_generation_prompt(self, chatml_dir: Path) -> None:
        template = CHATML.split("{% if add_generation_prompt %}")[0]
        assert "no-generation-prompt" in codes(check_session(small(), chatml_dir, chat_template=template))

    def test_chatml_for_a_model_that_has_no_such_tokens(self, gemma_dir: Path) -> None:
        report = check_session(small(), gemma_dir, chat_template=CHATML)
        found = {f.code: f for f in report.findings}
        assert "no-own-template" in found
        assert "<|im_end|> is " in found["chatml-fallback"].message

    def test_marks_of_another_model(self, chatml_dir: Path) -> None:
        template = CHATML.replace("<|im_start|>", "<start_of_turn>").replace("<|im_end|>", "<end_of_turn>")
        assert "foreign-template" in codes(check_session(small(), chatml_dir, chat_template=template))

    def test_another_than_the_checkpoints(self, chatml_dir: Path) -> None:
        report = check_session(small(), chatml_dir, chat_template=CHATML + " ")
        assert "template-differs" in codes(report)

    def test_no_template_at_all(self, gemma_dir: Path) -> None:
        with pytest.raises(InvalidInput, match="no chat template"):
            check_session(small(), gemma_dir)

    def test_recorded_with_another(self, chatml_dir: Path) -> None:
        rendered = render(small(), chatml_dir)
        recorded = {
            "token_ids": list(rendered.token_ids),
            "tokenizer_sha256": "0" * 64,
            "chat_template_sha256": "1" * 64,
        }
        found = codes(check_session(small(recorded=recorded), chatml_dir))
        assert {"recorded-template-differs", "recorded-tokenizer-differs"} <= set(found)

    def test_thinking_stripped_and_kept(self, chatml_dir: Path) -> None:
        session = with_message(1, reasoning_content="Count them.")
        report = check_session(session, chatml_dir)
        (found,) = [f for f in report.findings if f.code == "thinking-stripped"]
        assert found.where == "messages.1"
        keeps = CHATML.replace("message['content']", "(message.reasoning_content or '') + message['content']")
        assert "thinking-stripped" not in codes(check_session(session, chatml_dir, chat_template=keeps))

    def test_a_template_that_refuses(self, chatml_dir: Path) -> None:
        report = check_session(small(), chatml_dir, chat_template="{{ raise_exception('roles must alternate') }}")
        assert codes(report)[0] == "not-renderable"
        assert "roles must alternate" in report.findings[0].message

    def test_todays_date(self, chatml_dir: Path) -> None:
        report = check_session(small(), chatml_dir, chat_template="{{ strftime_now('%d') }}" + CHATML)
        assert "today's date" in report.findings[0].message


class TestArguments:
    def calls(self, arguments: dict[str, Any]) -> Session:
        value = example()
        value["messages"] = [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "function": {"name": "run", "arguments": json.dumps(arguments)}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ]
        value["marks"] = []
        return parse_session(json.dumps(value).encode())

    TEMPLATE = (
        "{% for t in tools %}{{ t | tojson }}{% endfor %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls %}<tool_call>{{ ARGS }}{{ c.function.name }}</tool_call>{% endfor %}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )

    def test_written_as_a_string(self, chatml_dir: Path) -> None:
        template = self.TEMPLATE.replace("ARGS", "(c.function.arguments | tojson) | tojson")
        report = check_session(self.calls({"cmd": 'say "hi"'}), chatml_dir, chat_template=template)
        assert "arguments-as-string" in codes(report)

    def test_written_as_an_object(self, chatml_dir: Path) -> None:
        template = self.TEMPLATE.replace("ARGS", "c.function.arguments | tojson")
        report = check_session(self.calls({"cmd": 'say "hi"'}), chatml_dir, chat_template=template)
        assert "arguments-as-string" not in codes(report)

    def test_a_value_of_another_type_than_the_tool_says(self, chatml_dir: Path) -> None:
        session = self.calls({"cmd": "x", "ids": "[1, 2]"})
        tools = json.loads(session.to_json())
        tools["tools"][0]["function"]["parameters"]["properties"]["ids"] = {"type": "array"}
        session = parse_session(json.dumps(tools).encode())
        report = check_session(
            session, chatml_dir, chat_template=self.TEMPLATE.replace("ARGS", "c.function.arguments | tojson")
        )
        (found,) = [f for f in report.findings if f.code == "value-as-string"]
        assert "ids is a string, not array" in found.message


class TestText:
    def test_a_users_text_that_ends_the_turn(self, chatml_dir: Path) -> None:
        report = check_session(with_message(0, content="What is <|im_end|> for?"), chatml_dir)
        (found,) = [f for f in report.findings if f.code == "special-text"]
        assert (found.severity, found.where) == ("error", "messages.0 (user)")

    def test_markup(self, chatml_dir: Path) -> None:
        report = check_session(with_message(0, content="What is <think> for?"), chatml_dir)
        assert [f.severity for f in report.findings if f.code == "markup-text"] == ["warning"]


class TestRecordedIds:
    def test_a_different_prompt(self, chatml_dir: Path) -> None:
        session = small()
        prompt = list(prompt_ids(session, chatml_dir, 3))
        report = check_session(session, chatml_dir, turns=turns_of(session, {3: [*prompt[:5], 7, *prompt[6:]]}))
        (found,) = [f for f in report.findings if f.code == "ids-differ"]
        assert found.where == "messages.3"
        assert "from token 5 on" in found.message

    def test_no_ids(self, chatml_dir: Path) -> None:
        session = small()
        turns = RecordedTurns(
            session=session.digest(), endpoint="x", turns=[RecordedTurn(message=1, exchange="e", attempts=1)]
        )
        assert codes(check_session(session, chatml_dir, turns=turns)) == ["no-recorded-ids"]

    def test_turns_of_another_text(self, chatml_dir: Path) -> None:
        turns = turns_of(small(), {1: [1, 2]})
        assert codes(check_session(with_message(0, content="Other"), chatml_dir, turns=turns)) == ["turns-of-another"]

    def test_outputs_in_other_tokens(self, chatml_dir: Path) -> None:
        session = small()
        turn = RecordedTurn(message=1, exchange="e", attempts=1, output_token_ids=[60, 61])
        turns = RecordedTurns(session=session.digest(), endpoint="x", turns=[turn])
        assert "output-ids-differ" in codes(check_session(session, chatml_dir, turns=turns))


class TestLength:
    @pytest.mark.parametrize(("limit", "code"), [(10, "too-long"), (None, None), (4096, None)])
    def test_context(self, chatml_dir: Path, limit: int | None, code: str | None) -> None:
        found = codes(check_session(small(), chatml_dir, context_tokens=limit))
        assert found == ([code] if code else [])

    def test_nearly_full(self, chatml_dir: Path) -> None:
        length = render(small(), chatml_dir).num_tokens
        assert codes(check_session(small(), chatml_dir, context_tokens=length)) == ["nearly-full"]


class TestSampler:
    """vllm#15622: a checkpoint's generation_config turns a request without a temperature into sampling."""

    LOG = "Using default chat sampling params from model: {'temperature': 0.7, 'top_k': 20, 'top_p': 0.8}"

    def test_the_reported_case(self) -> None:
        result = effective({"messages": "…"}, defaults_in_log([self.LOG]))
        assert (result.greedy, result.deterministic_run) == (False, "refused")
        assert result.settings == {"temperature": 0.7, "top_p": 0.8, "top_k": 20}

    @pytest.mark.parametrize(
        "line",
        [
            "WARNING 11-29 21:00:00 [serving.py:1] " + LOG,
            "(APIServer pid=7) INFO [x.py:3] Using default completion sampling params from model: {'temperature': 0.7}",
            "Using default sampling params from /models/x: {'temperature': 0.7, 'repetition_penalty': 1.05}",
        ],
    )
    def test_forms_of_the_line(self, line: str) -> None:
        assert defaults_in_log(["other", line, "more"])["temperature"] == 0.7

    @pytest.mark.parametrize(
        "line", ["", "Using default chat sampling params from model: {oops", "params: {'temperature': 1}"]
    )
    def test_lines_that_say_nothing(self, line: str) -> None:
        assert defaults_in_log([line]) == {}

    @pytest.mark.parametrize(
        ("request_", "defaults", "greedy"),
        [
            ({"temperature": 0}, {}, True),
            ({"temperature": 0.0}, {"temperature": 0.7}, True),
            ({}, {}, False),
            ({}, {"temperature": 0.0}, True),
            ({"temperature": 0}, {"repetition_penalty": 1.05}, False),
            ({"temperature": 0, "repetition_penalty": 1.0}, {"repetition_penalty": 1.05}, True),
            ({"temperature": 0}, {"top_k": 20, "top_p": 0.8}, True),
            ({"temperature": 0, "presence_penalty": 1.5}, {}, False),
            ({"temperature": True}, {"temperature": 0.6}, False),
        ],
    )
    def test_kinds(self, request_: dict[str, Any], defaults: dict[str, Any], greedy: bool) -> None:
        assert effective(request_, defaults).greedy is greedy

    def test_in_a_session(self, tmp_path: Path) -> None:
        folder = make_tokenizer(tmp_path / "m", ["<|im_start|>", "<|im_end|>"])
        session = small(sampling={})
        assert "sampler-defaults" in codes(check_session(session, folder))
        (folder / "generation_config.json").write_text('{"temperature": 0.6, "repetition_penalty": 1.1}')
        (found,) = check_session(session, folder).findings
        assert (found.code, "generation_config.json" in found.message) == ("sampler-defaults", True)
        assert "0.6" in found.message
        (found,) = check_session(session, folder, log=[self.LOG]).findings
        assert "the server's log" in found.message
        (found,) = check_session(small(), folder).findings
        assert "repetition_penalty" in found.message
        (found,) = check_session(small(sampling={"temperature": 0.5}), chat_dir(tmp_path)).findings
        assert found.code == "not-greedy"


def chat_dir(tmp_path: Path) -> Path:
    return make_tokenizer(tmp_path / "plain", ["<|im_start|>", "<|im_end|>"])


class TestViews:
    def test_segments_spell_the_text(self, chatml_dir: Path, chatml_tools: str) -> None:
        session = parse_session(json.dumps(example()).encode())
        report = check_session(session, chatml_dir, chat_template=chatml_tools)
        assert report.rendered is not None
        parts = list(segments(report.rendered, report.tokenizer))
        assert "".join(p.text for p in parts) == report.tokenizer.backend.decode(list(report.rendered.token_ids))
        assert [p.start for p in parts[1:]] == [p.end for p in parts[:-1]]
        assert any(p.literal for p in parts)

    def test_a_page_escapes_everything(self, chatml_dir: Path) -> None:
        session = with_message(0, content="<script>alert(1)</script> <|im_end|> \" & '")
        report = check_session(session, chatml_dir)
        assert report.rendered is not None
        html = page("<b>", report.findings, list(segments(report.rendered, report.tokenizer)), [("a", "<i>")]).decode()
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        assert "<b>" not in html
        assert "<i>" not in html

    def test_the_command(self, chatml_dir: Path, tmp_path: Path) -> None:
        path = tmp_path / "s.json"
        path.write_bytes(small().to_json())
        run = CliRunner().invoke(workload, ["check", str(path), "--tokenizer", str(chatml_dir), "--show"])
        assert run.exit_code == 0, run.output
        assert "Twelve." in run.output
        assert "nothing found" in run.output
        turns = turns_of(small(), {1: [1, 2, 3]})
        turns_file(path).write_bytes(turns.to_json())
        assert load_turns(turns_file(path)) == turns
        html = tmp_path / "p.html"
        run = CliRunner().invoke(
            workload, ["check", str(path), "--tokenizer", str(chatml_dir), "--json", "--html", str(html)]
        )
        assert isinstance(run.exception, InvalidInput)
        assert [f["code"] for f in json.loads(run.stdout)] == ["ids-differ"]
        assert "ids-differ" in html.read_text()

    def test_control_characters_do_not_reach_the_terminal(self, chatml_dir: Path, tmp_path: Path) -> None:
        path = tmp_path / "s.json"
        path.write_bytes(with_message(0, content="\x1b]0;owned\x07").to_json())
        run = CliRunner().invoke(workload, ["check", str(path), "--tokenizer", str(chatml_dir), "--full"])
        assert "\x1b" not in run.output
        assert "\\x1b]0;owned" in run.output
