from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.errors import InvalidInput
from suite.workload import session as session_module
from suite.workload.session import Session, load_session, parse_session
from tests.workload.conftest import call, example


def parsed(value: Any) -> Session:
    return parse_session(json.dumps(value).encode())


def test_round_trip_keeps_bytes_and_digest() -> None:
    first = parsed(example())
    second = parse_session(first.to_json())
    assert second == first
    assert second.to_json() == first.to_json()
    assert second.digest() == first.digest()


def test_keys_keep_their_order_and_nulls_of_a_schema_survive() -> None:
    value = example()
    parameters = value["tools"][0]["function"]["parameters"]  # type: ignore[index]
    parameters["properties"] = {"zone": {"type": "string"}, "area": {"type": ["string", "null"], "default": None}}
    again = json.loads(parsed(value).to_json())["tools"][0]["function"]["parameters"]
    assert list(again["properties"]) == ["zone", "area"]
    assert again["properties"]["area"]["default"] is None


def test_digest_tells_the_order_of_tool_properties_apart() -> None:
    one, two = example(), example()
    for value, names in ((one, ("a", "b")), (two, ("b", "a"))):
        value["tools"][0]["function"]["parameters"]["properties"] = {name: {"type": "string"} for name in names}  # type: ignore[index]
    assert parsed(one).digest() != parsed(two).digest()


def test_digest_does_not_depend_on_the_spelling_of_a_number() -> None:
    text = json.dumps(example())
    assert '"temperature": 0.0' in text
    one = parse_session(text.encode())
    two = parse_session(text.replace('"temperature": 0.0', '"temperature": 0').encode())
    assert one.digest() == two.digest()


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            document = document[part]
        document[last] = value

    return change


def _drop(path: str) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            document = document[part]
        del document[last]

    return change


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        (_set("messages.1.role", "developer"), "messages.1", "roles are system, user"),
        (_set("messages.1.colour", "red"), "messages.1.colour", "remove the key"),
        (_set("messages.2.tool_calls.0.function.arguments", {"cmd": "x"}), "arguments", "JSON text"),
        (_set("messages.2.tool_calls.0.function.arguments", "{cmd}"), "arguments", "not JSON"),
        (_set("messages.2.tool_calls.0.function.arguments", "[1]"), "arguments", "not an object"),
        (_set("messages.2.tool_calls.0.function.arguments", '{"a":1,"a":2}'), "arguments", "stands twice"),
        (_set("messages.2.tool_calls.0.function.arguments", '{"a":NaN}'), "arguments", "NaN"),
        (_set("messages.2.tool_calls.0.function.arguments", '{"a":"\\ud800"}'), "arguments", "surrogate"),
        (_set("messages.2.tool_calls.1.id", "call00001"), "tool_calls.1.id", "used before"),
        (_set("messages.3.tool_call_id", "call99999"), "messages.3.tool_call_id", "answers no open call"),
        (_drop("messages.4"), "messages.4", "has no answer"),
        (_set("messages.7", {"role": "assistant", "content": "  "}), "messages.7", "says nothing"),
        (_set("messages.8", {"role": "system", "content": "new rules"}), "messages.8", "only first"),
        (_set("messages.1", {"role": "assistant", "content": "hello"}), "messages.1", "before any user"),
        (_set("messages", []), "messages", "at least 1"),
        (_set("messages", [{"role": "system", "content": "x"}]), "messages", "empty"),
        (_set("schema_version", 2), "session", "newer"),
        (_set("schema_version", 0), "schema_version", "1"),
        (_set("name", "../x"), "name", "pattern"),
        (_set("sampling.temperature", -1.0), "sampling.temperature", "greater"),
        (_set("sampling.temperature", "0"), "sampling.temperature", "number"),
        (_set("chat_template_kwargs", {"tokenize": True}), "chat_template_kwargs.tokenize", "set by the renderer"),
        (_set("marks.0.message", 99), "marks.0.message", "no message 99"),
        (_set("marks.0.must_survive", ["GigabitEthernet0/0/1"]), "marks.0.must_survive", "whole word"),
        (_set("recorded", {"token_ids": [], "tokenizer_sha256": "0" * 64, "chat_template_sha256": "0" * 64}),
         "recorded.token_ids", "at least 1"),
        (_set("messages.1.content", "\ud800"), "messages.1", "surrogate"),
        (_set("tools.0.function.parameters", {"x": "\udfff"}), "session", "surrogate"),
    ],
)  # fmt: skip
def test_bad_sessions_are_named_and_located(change: Callable[[Any], None], where: str, says: str) -> None:
    value = copy.deepcopy(example())
    change(value)
    with pytest.raises(InvalidInput) as caught:
        parsed(value)
    assert caught.value.where is not None
    assert where in caught.value.where
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_two_tools_of_one_name_are_refused() -> None:
    value = example()
    value["tools"] = [*value["tools"], *value["tools"]]  # type: ignore[misc]
    with pytest.raises(InvalidInput, match="defined twice"):
        parsed(value)


def test_a_call_of_an_unknown_tool_is_kept_since_models_make_such_calls() -> None:
    value = example()
    value["messages"][5]["tool_calls"][0]["function"]["name"] = "walk"  # type: ignore[index]
    assert parsed(value).messages[5].tool_calls[0].function.name == "walk"  # type: ignore[union-attr, index]


def test_an_open_call_at_the_end_is_refused() -> None:
    value = example()
    value["messages"].append({"role": "assistant", "tool_calls": [call(9, "run", cmd="x")]})  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="'call00009' has no answer"):
        parsed(value)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b'{"a":1,"a":2}', b"[" * 100_000])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_session(data)


def test_a_folder_gives_its_session(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_bytes(parsed(example()).to_json())
    assert load_session(tmp_path).name == "example"


def test_a_folder_without_session_names_the_candidates(tmp_path: Path) -> None:
    (tmp_path / "session-7k.json").write_bytes(parsed(example()).to_json())
    with pytest.raises(InvalidInput, match=r"name one of: session-7k\.json"):
        load_session(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_session(tmp_path / "none.json")


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_SESSION_BYTES", 10)
    path = tmp_path / "s.json"
    path.write_bytes(parsed(example()).to_json())
    with pytest.raises(InvalidInput, match="larger than"):
        load_session(path)
