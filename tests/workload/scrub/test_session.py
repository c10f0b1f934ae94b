from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.cli.workload import workload
from suite.errors import InvalidInput, VerificationFailed
from suite.workload.scrub.private_map import PrivateMap, load_map
from suite.workload.scrub.review import review
from suite.workload.scrub.second import suspicions
from suite.workload.scrub.session import scrub_session
from suite.workload.scrub.tokens_kept import TokenizerCounter
from suite.workload.session import Session, load_session, parse_session
from suite.workload.tokenizer import load_tokenizer
from tests.workload.conftest import LAB, example

SECRET = "Tr4verse-Quokka!9"
HOST = "kestrel-fw02"


def private_session() -> Session:
    value = example()
    value["tools"][0]["function"]["parameters"]["properties"]["name"] = {  # type: ignore[index]
        "type": "string",
        "description": f"host, for example {HOST}",
        "enum": [HOST, "all"],
    }
    messages = value["messages"]
    messages[1]["content"] = f"Log in on {HOST}.quenelle.net with password={SECRET}"  # type: ignore[index]
    call = messages[2]["tool_calls"][0]["function"]  # type: ignore[index]
    call["arguments"] = json.dumps({"cmd": f"sshpass -p '{SECRET}' ssh mirabel@{HOST}", "n": 1})
    messages[3]["content"] = f"mirabel@{HOST}:~$ ip a\ninet 10.20.30.40/24"  # type: ignore[index]
    messages[7]["content"] = f"{HOST} has 10.20.30.40, port 5432 is open."  # type: ignore[index]
    value["marks"] = [
        {
            "message": 7,
            "must_survive": [HOST, "10.20.30.40", "5432"],
            "right_commands": [{"name": "run", "arguments": {"cmd": f"ping {HOST}"}}],
        }
    ]
    value["recorded"] = {"token_ids": [1], "tokenizer_sha256": "0" * 64, "chat_template_sha256": "1" * 64}
    return parse_session(json.dumps(value).encode())


def test_everything_of_a_session() -> None:
    before = private_session()
    private = PrivateMap(key=bytes(32))
    result = scrub_session(before, private)
    after = result.session
    text = after.to_json().decode()
    for value in (SECRET, HOST, "mirabel", "quenelle", "10.20.30.40"):
        assert value not in text
    made = {entry.value: entry.pseudonym for entry in private.entries}
    host, address = made[HOST], made["10.20.30.40"]
    assert after.marks[0].must_survive == [host, address, "5432"]
    assert after.marks[0].right_commands[0].arguments == {"cmd": f"ping {host}"}
    assert after.tools[0].function.parameters["properties"]["name"]["enum"] == [host, "all"]
    assert after.recorded is None
    assert any("token ids were dropped" in note for note in result.notes)
    assert {kind for kind, _, _ in result.found} >= {"password", "host name", "user name", "IPv4 address"}


def test_scrubbing_twice_changes_nothing() -> None:
    once = scrub_session(private_session(), PrivateMap()).session
    assert scrub_session(once, PrivateMap()).session == once


def test_what_is_added_later_is_still_found() -> None:
    once = scrub_session(private_session(), PrivateMap()).session
    value = json.loads(once.to_json())
    value["messages"][8]["content"] += " token=Zq8kLm2nPx7rTv4wYb"
    twice = scrub_session(parse_session(json.dumps(value).encode()), PrivateMap()).session
    assert "Zq8kLm2nPx7rTv4wYb" not in twice.to_json().decode()
    assert twice.messages[7] == once.messages[7]


def test_a_session_without_secrets_stays() -> None:
    session = parse_session(json.dumps(example()).encode())
    after = scrub_session(session, PrivateMap()).session
    assert after.messages == session.messages
    assert after.marks == session.marks


def test_a_marked_part_of_a_secret_moves_with_it() -> None:
    value = json.loads(private_session().to_json())
    value["messages"][7]["content"] += f" The second word is Quokka. {SECRET}"
    value["messages"][7]["content"] = f"It is {SECRET} there."
    value["messages"][1]["content"] = f"password={SECRET}"
    value["marks"] = [{"message": 7, "must_survive": [SECRET]}]
    before = parse_session(json.dumps(value).encode())
    after = scrub_session(before, PrivateMap()).session
    assert after.marks[0].must_survive[0] in str(after.messages[7].content)


@pytest.mark.vllm
def test_token_counts_are_kept_where_the_tokenizer_allows(smollm2: Path) -> None:
    counter = TokenizerCounter(load_tokenizer(smollm2))
    private = PrivateMap(key=bytes(32))
    result = scrub_session(private_session(), private, counter=counter)
    same = [counter.count(" " + e.value) == counter.count(" " + e.pseudonym) for e in private.entries if e.count]
    assert sum(same) >= 0.9 * len(same), [(e.value, e.pseudonym) for e in private.entries]
    assert result.num_tokens is not None
    before, after = result.num_tokens
    assert abs(before - after) <= 0.01 * before


def test_review_shows_what_changed_and_nothing_else() -> None:
    before = private_session()
    after = scrub_session(before, PrivateMap()).session
    lines = list(review(before, after))
    assert any(line.startswith("-") and SECRET in line for line in lines)
    assert not any(line.startswith("+") and SECRET in line for line in lines)
    assert "── 9 assistant" not in lines


def test_the_second_detector() -> None:
    value = example()
    value["messages"][1]["content"] = "key AKIA" + "QX7RTV4WYBZ2KLMN"  # type: ignore[index]
    session = parse_session(json.dumps(value).encode())
    assert [s.kind for s in suspicions(session)] == ["AWS Access Key"]
    assert suspicions(scrub_session(session, PrivateMap()).session) == ()


class TestCommand:
    def run(self, *arguments: str):
        return CliRunner().invoke(workload, ["scrub", *arguments])

    def test_without_a_terminal(self, tmp_path: Path) -> None:
        source, out, diff = tmp_path / "in.json", tmp_path / "pub" / "out.json", tmp_path / "d.txt"
        source.write_bytes(private_session().to_json())
        result = self.run(str(source), "--out", str(out), "--diff", str(diff), "--second")
        assert result.exit_code == 0, result.output
        assert SECRET not in out.read_text()
        assert SECRET not in result.output
        map_file = tmp_path / "in.scrub-map.json"
        assert any(e.value == SECRET for e in load_map(map_file).entries)
        for private in (map_file, diff):
            assert private.stat().st_mode & 0o077 == 0
        assert [p.name for p in out.parent.iterdir()] == ["out.json"]
        again = self.run(str(source), "--out", str(tmp_path / "two.json"))
        assert again.exit_code == 0
        assert load_session(tmp_path / "two.json").messages == load_session(out).messages

    def test_the_second_detector_fails_the_command(self, tmp_path: Path) -> None:
        key = "AKIA" + "QX7RTV4WYBZ2KLMN"
        value = example()
        value["messages"][1]["content"] = f"key {key}"  # type: ignore[index]
        source = tmp_path / "in.json"
        source.write_text(json.dumps(value))
        result = self.run(
            str(source), "--out", str(tmp_path / "o.json"), "--second", "--keep", key.removeprefix("AKIA")
        )
        assert isinstance(result.exception, VerificationFailed)

    def test_bad_input(self, tmp_path: Path) -> None:
        source = tmp_path / "in.json"
        source.write_bytes(private_session().to_json())
        assert isinstance(self.run(str(source), "--out", str(source)).exception, InvalidInput)
        (tmp_path / "map").write_text("{}")
        done = self.run(str(source), "--out", str(tmp_path / "o"), "--map", str(tmp_path / "map"))
        assert isinstance(done.exception, InvalidInput)
        assert not (tmp_path / "o").exists()

    @pytest.mark.parametrize("option", ["--out", "--map", "--diff"])
    def test_neither_the_session_nor_another_output_is_written_over(self, tmp_path: Path, option: str) -> None:
        source, before = tmp_path / "in.json", private_session().to_json()
        source.write_bytes(before)
        files = {"--out": tmp_path / "o", "--map": tmp_path / "m", "--diff": tmp_path / "d"}
        other = files["--map" if option == "--out" else "--out"]
        for taken in (source, other, tmp_path / "." / "in.json"):
            arguments = [str(part) for item in (files | {option: taken}).items() for part in item]
            done = self.run(str(source), *arguments)
            assert isinstance(done.exception, InvalidInput)
            assert "would overwrite" in str(done.exception)
        assert [path.name for path in tmp_path.iterdir()] == ["in.json"]
        assert source.read_bytes() == before

    def test_the_synthetic_lab(self, tmp_path: Path) -> None:
        result = self.run(str(LAB / "session-7k.json"), "--out", str(tmp_path / "o.json"))
        assert result.exit_code == 0, result.output
        before, after = load_session(LAB / "session-7k.json"), load_session(tmp_path / "o.json")
        assert [m.role for m in before.messages] == [m.role for m in after.messages]
        assert sum(len(m.must_survive) for m in before.marks) == sum(len(m.must_survive) for m in after.marks)
