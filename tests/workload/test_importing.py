"""Files of other programs become sessions; what they do not say is listed, what had to change is said."""

# ruff: noqa: E501  files of others, as they are

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from suite.cli.workload import workload
from suite.errors import InvalidInput
from suite.workload.importing.draft import Built, Draft, build
from suite.workload.importing.markup import messages_of_prompt
from suite.workload.importing.read import Imported, import_file
from suite.workload.session import load_session

USER = {"role": "user", "content": "Which ports?"}
CALL = {"id": "a", "type": "function", "function": {"name": "run", "arguments": '{"cmd": "ss"}'}}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "22, 80"}
DONE = {"role": "assistant", "content": "22 and 80."}
RUN = [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT, DONE]
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}


def take(tmp_path: Path, content: object, name: str = "x.json") -> Imported:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return import_file(path)


def jsonl(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def roles(built: Built) -> list[str]:
    return [message.role for message in built.session.messages]


def drafted(*messages: dict[str, Any], **more: Any) -> Built:
    return build(Draft(messages=messages, generator="test", **more), name="x", where="test")


class TestOpenAI:
    @pytest.mark.parametrize(
        "value",
        [
            RUN,
            {"messages": RUN},
            {"request": {"messages": RUN[:3]}, "response": {"choices": [{"message": DONE}]}},
            {"messages": RUN[:3], "response": {"choices": [{"message": DONE}]}},
            [{"body": {"messages": RUN}}],
        ],
    )
    def test_forms(self, tmp_path: Path, value: object) -> None:
        imported = take(tmp_path, value)
        assert imported.format == "openai"
        assert roles(imported.built[0]) == ["user", "assistant", "tool", "assistant"]

    def test_jsonl_of_a_fine_tuning_set(self, tmp_path: Path) -> None:
        imported = take(tmp_path, jsonl({"messages": RUN, "tools": [TOOL]}, {"messages": [USER, DONE]}), "set.jsonl")
        assert [b.session.name for b in imported.built] == ["set-1", "set-2"]
        assert [len(b.session.tools) for b in imported.built] == [1, 0]
        assert imported.refused == ()

    def test_a_line_that_cannot_be_read_is_said(self, tmp_path: Path) -> None:
        whole = jsonl({"messages": RUN})
        imported = take(tmp_path, f"{whole}\n{whole[:30]}\n{whole}[]\n", "set.jsonl")
        assert len(imported.built) == 2
        assert imported.refused == ("2 of the lines, no JSON objects; the first is line 3",)

    def test_a_line_may_hold_what_other_texts_end_lines_with(self, tmp_path: Path) -> None:
        text = "a\u2028b\u0085c"
        line = json.dumps({"messages": [{"role": "user", "content": text}, DONE]}, ensure_ascii=False)
        imported = take(tmp_path, f"{line}\r\n{line}\r\n", "set.jsonl")
        assert [b.session.messages[0].content for b in imported.built] == [text, text]
        assert imported.refused == ()

    def test_settings_and_what_is_missing(self, tmp_path: Path) -> None:
        (with_all,) = take(tmp_path, {"messages": RUN, "tools": [TOOL], "temperature": 0, "stop": "END"}).built
        assert with_all.missing == ()
        assert with_all.session.sampling.stop == ["END"]
        (bare,) = take(tmp_path, RUN).built
        assert [m.split(":")[0] for m in bare.missing] == ["tools", "sampling"]
        assert "called: run" in bare.missing[0]
        assert bare.session.tools == []
        assert bare.session.sampling.temperature is None


class TestOthers:
    def test_sharegpt(self, tmp_path: Path) -> None:
        turns = [("system", "S"), ("human", "go"), ("function_call", '{"name": "run", "arguments": {"a": 1}}'),
                 ("observation", "out"), ("gpt", "done")]  # fmt: skip
        record = {
            "id": "Mine 7",
            "conversations": [{"from": f, "value": v} for f, v in turns],
            "tools": json.dumps([{"name": "run"}]),
        }
        (built,) = take(tmp_path, [record]).built
        assert roles(built) == ["system", "user", "assistant", "tool", "assistant"]
        assert (built.session.name, built.session.tools[0].function.name) == ("mine-7", "run")

    PARTS = (
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
                                          {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": [1]}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "out"}]},
                                     {"type": "text", "text": "and now?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    )  # fmt: skip

    @pytest.mark.parametrize("form", ["request", "list", "transcript"])
    def test_messages_api(self, tmp_path: Path, form: str) -> None:
        content: object = list(self.PARTS)
        if form == "request":
            content = {
                "system": "S",
                "messages": self.PARTS,
                "tools": [{"name": "run", "input_schema": {"type": "object"}}],
                "temperature": 0,
            }
        if form == "transcript":
            answer = [{**self.PARTS[1], "id": "m1", "content": [part]} for part in self.PARTS[1]["content"]]
            lines = [self.PARTS[0], *answer, self.PARTS[2], self.PARTS[3]]
            content = jsonl({"type": "summary"}, *({"type": "x", "sessionId": "s", "message": m} for m in lines))
        (built,) = take(tmp_path, content, "c.jsonl" if form == "transcript" else "c.json").built
        start = ["system"] if form == "request" else []
        assert roles(built) == [*start, "user", "assistant", "tool", "user", "assistant"]
        message = built.session.messages[len(start) + 1]
        assert (message.content, message.reasoning_content) == ("I look.", "hm")
        assert json.loads(message.tool_calls[0].function.arguments) == {"a": [1]}
        assert bool(built.missing) is (form != "request")

    def test_a_rollout(self, tmp_path: Path) -> None:
        items = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"command": ["ls"]}'},
            {"type": "function_call_output", "call_id": "c", "output": "a.txt"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One file."}]},
        ]
        lines = [{"type": "session_meta", "payload": {"instructions": "S"}}]
        lines += [{"type": "response_item", "payload": item} for item in items]
        imported = take(tmp_path, jsonl(*lines, {"type": "event_msg", "payload": {}}), "r.jsonl")
        assert imported.format == "rollout"
        assert roles(imported.built[0]) == ["system", "user", "assistant", "tool", "assistant"]

    def test_open_webui_takes_the_shown_branch(self, tmp_path: Path) -> None:
        messages = {
            "1": {"id": "1", "parentId": None, "role": "user", "content": "go"},
            "2": {"id": "2", "parentId": "1", "role": "assistant", "content": "not this"},
            "3": {"id": "3", "parentId": "1", "role": "assistant", "content": "this"},
        }
        chat = {"title": "My Chat", "params": {"temperature": 0.5}, "history": {"currentId": "3", "messages": messages}}
        (built,) = take(tmp_path, [{"chat": chat}]).built
        assert [m.content for m in built.session.messages] == ["go", "this"]
        assert (built.session.name, built.session.sampling.temperature) == ("my-chat", 0.5)

    def test_a_trajectory(self, tmp_path: Path) -> None:
        history = [{"role": "system", "content": "S"}, USER, {**RUN[1], "thought": "look"},
                   {"role": "tool", "content": "22", "tool_call_ids": ["a"]}, DONE]  # fmt: skip
        (built,) = take(tmp_path, {"trajectory": [{"action": "x"}], "history": history, "info": {}}, "t.traj").built
        assert roles(built) == ["system", "user", "assistant", "tool", "assistant"]
        assert built.session.messages[2].reasoning_content == "look"

    def test_a_vllm_log(self, tmp_path: Path) -> None:
        first = "<|im_start|>user\nIt's 1?<|im_end|>\n<|im_start|>assistant\n"
        second = first + "Yes.<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"
        params = "SamplingParams(n=1, temperature=0.0, top_p=0.95, seed=None, max_tokens=64)"
        body = {"messages": [USER, DONE, USER], "tools": [TOOL], "temperature": 0.2}
        log = "\n".join(
            [
                f"INFO 11-29 [x.py:1] Received request chatcmpl-1: prompt: {first!r}, params: {params}, lora_request: None.",
                f"INFO 11-29 [x.py:1] Received request chatcmpl-2: params: {params}, lora_request: None.",
                f"DEBUG 11-29 [x.py:1] Request chatcmpl-2 details: prompt: {second!r}, prompt_token_ids: [1], prompt_embeds shape: None.",
                "INFO 11-29 [x.py:1] Generated response chatcmpl-2: output: 'Quite.', finish_reason: stop",
                f"INFO 11-29 [x.py:1] Received request chatcmpl-3: params: {params}, lora_request: None.",
                f"DEBUG 11-29 [x.py:1] Request chatcmpl-3 JSON body: {json.dumps(body)}",
            ]
        )
        imported = take(tmp_path, log, "server.log")
        assert imported.format == "vllm-log"
        rendered, structured = imported.built
        assert [m.content for m in rendered.session.messages] == ["It's 1?", "Yes.", "Sure?", "Quite."]
        assert (rendered.session.sampling.temperature, rendered.session.sampling.max_tokens) == (0.0, 64)
        assert "stand in the text" in rendered.session.provenance.note
        assert rendered.missing[0].startswith("tools")
        assert len(structured.session.tools) == 1


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", ["user"]),
        ("<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\nyes<end_of_turn>\n", ["user", "assistant"]),
        ("plain text", []),
        ("<|im_start|>user\nhi<|im_end|>\nloose text<|im_start|>assistant\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_prompts_taken_apart(prompt: str, expected: list[str]) -> None:
    assert [m["role"] for m in messages_of_prompt(prompt)] == expected


class TestDraft:
    def test_objects_as_arguments(self) -> None:
        call = {"id": "a", "function": {"name": "run", "arguments": {"cmd": "ss"}}}
        built = drafted(USER, {"role": "assistant", "tool_calls": [call]}, RESULT)
        assert built.session.messages[1].tool_calls[0].function.arguments == '{"cmd": "ss"}'
        assert "were an object" in built.changes[0]

    def test_ids_used_twice(self) -> None:
        built = drafted(*RUN[:3], *RUN[1:3], DONE)
        ids = [c.id for m in built.session.messages if m.role == "assistant" for c in m.tool_calls or []]
        assert len(set(ids)) == 2
        assert "was used before" in built.changes[0]

    def test_a_call_without_an_answer_ends_the_session(self) -> None:
        built = drafted(USER, DONE, USER, RUN[1], USER, DONE)
        assert roles(built) == ["user", "assistant", "user"]
        assert built.places == (0, 1, 2, None, None)
        assert "has no answer" in built.changes[0]

    @pytest.mark.parametrize("arguments", ["{oops", "[1]", '"x"', "NaN", '{"a": 1, "a": 2}'])
    def test_broken_arguments_end_the_session(self, arguments: str) -> None:
        call = {"id": "a", "function": {"name": "run", "arguments": arguments}}
        built = drafted(USER, DONE, USER, {"role": "assistant", "tool_calls": [call]}, RESULT, DONE)
        assert roles(built) == ["user", "assistant", "user"]
        assert "3 are left out" in built.changes[0]

    def test_what_else_is_changed_is_said(self) -> None:
        built = drafted(
            {"role": "developer", "content": "A"},
            {"role": "system", "content": "B"},
            DONE,
            USER,
            {"role": "assistant", "content": " "},
            {"role": "system", "content": "later"},
            {"role": "tool", "tool_call_id": "zz", "content": "lost"},
            {"role": "critic", "content": "?"},
            DONE,
        )
        assert roles(built) == ["system", "user", "user", "assistant"]
        assert built.session.messages[0].content == "A\n\nB"
        assert len(built.changes) == 6

    def test_pictures_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="image_url"):
            drafted({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]})

    def test_odd_tools_and_settings(self) -> None:
        tools = [TOOL, TOOL, {"type": "web_search"}, {"type": "function", "function": {"name": ""}}]
        built = drafted(
            USER, DONE, tools=tools, sampling={"temperature": "hot", "top_p": 1}, template_kwargs={"tools": 1, "a": 2}
        )
        assert [t.function.name for t in built.session.tools] == ["run"]
        assert (built.session.sampling.temperature, built.session.sampling.top_p) == (None, 1.0)
        assert built.session.chat_template_kwargs == {"a": 2}
        assert len(built.changes) == 5

    @given(
        st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["system", "user", "assistant", "tool", "function", "x"])},
                optional={
                    "content": st.none() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2),
                    "tool_call_id": st.sampled_from(["a", "b", None]),
                    "tool_calls": st.lists(
                        st.fixed_dictionaries(
                            {
                                "id": st.sampled_from(["a", "b", None]),
                                "function": st.fixed_dictionaries(
                                    {
                                        "name": st.sampled_from(["f", ""]),
                                        "arguments": st.sampled_from(["{}", "", "{", {}, None]),
                                    }
                                ),
                            }
                        ),
                        max_size=2,
                    ),
                },
            ),
            max_size=8,
        )
    )
    def test_any_messages_give_a_valid_session_or_an_error(self, messages: list[dict[str, Any]]) -> None:
        try:
            built = drafted(*messages)
        except InvalidInput:
            return
        assert len(built.places) <= len(messages)
        for index, place in enumerate(built.places):
            if place is not None and place < len(built.session.messages) and messages[index]["role"] == "user":
                assert built.session.messages[place].role == "user"


class TestCommand:
    def run(self, *arguments: str):
        return CliRunner().invoke(workload, ["import", *arguments])

    def test_what_it_says(self, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text(json.dumps(RUN))
        result = self.run(str(tmp_path / "x.json"), "--out", str(tmp_path / "o"), "--name", "mine")
        assert result.exit_code == 0, result.output
        assert "missing: tools" in result.output
        assert load_session(tmp_path / "o" / "mine.json").licence == "private"
        again = self.run(str(tmp_path / "x.json"), "--out", str(tmp_path / "o"), "--name", "mine")
        assert isinstance(again.exception, InvalidInput)

    @pytest.mark.parametrize(
        "content", ["", "{}", "[]", "hello", '{"messages": []}', '{"messages": [{"role": "system", "content": "x"}]}']
    )
    def test_files_without_a_conversation(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "x").write_text(content)
        assert isinstance(self.run(str(tmp_path / "x"), "--out", str(tmp_path / "o")).exception, InvalidInput)
        assert not (tmp_path / "o").exists()

    def test_unreadable(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
        assert isinstance(self.run(str(tmp_path / "x"), "--out", str(tmp_path / "o")).exception, InvalidInput)
        assert isinstance(self.run(str(tmp_path / "none"), "--out", str(tmp_path / "o")).exception, InvalidInput)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput):
        import_file(path)
