import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.bundle.redact import LOG_LIMIT_CHARACTERS, Private, redact

PRIVATE = Private(home="/srv/people/ada", host="lab-node-7", user="ada", secrets=("correct horse battery",))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("token hf_AbCdEfGhIjKlMnOp used", "token <secret> used"),
        ("HF_TOKEN=abc123def456 python", "HF_TOKEN=<secret> python"),
        ("{'api_key': 'qwertyuiop1', 'n': 1}", "{'api_key': '<secret>', 'n': 1}"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer <secret>"),
        ("key sk-proj-abcdefghijklmnop1234", "key <secret>"),
        ("ghp_abcdefghijklmnopqrstuvwxyz012345", "<secret>"),
        ("AKIAABCDEFGHIJKLMNOP", "<secret>"),
        ("jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc-_def", "jwt <secret>"),
        ("pull https://ada2:pw123@registry.example/x", "pull https://<secret>@registry.example/x"),
        ("password: hunter2xyz", "password: <secret>"),
        ("it is correct horse battery staple", "it is <secret> staple"),
        ("file /srv/people/ada/models/x", "file ~/models/x"),
        ("file /home/bob/x and /Users/Eve/y, /root/z", "file ~/x and ~/y, ~/z"),
        ("on lab-node-7:8000 by ada", "on <host>:8000 by <user>"),
        (
            "master_addr=127.0.0.1, mq_connect_ip=10.1.2.3 (local), driver=580.159.3.4",
            "master_addr=127.0.0.1, mq_connect_ip=<address> (local), driver=580.159.3.4",
        ),
        (
            "VLLM_HOST_IP=10.1.2.3 host='10.1.2.4' ip: 10.1.2.5, pip=24.0.1.2, zip=1.2.3.4, at tcp://10.1.2.6.",
            "VLLM_HOST_IP=<address> host='<address>' ip: <address>, pip=24.0.1.2, zip=1.2.3.4, at tcp://<address>.",
        ),
        ("init tcp://10.1.2.3:5000 and tcp://127.0.0.1:9", "init tcp://<address>:5000 and tcp://127.0.0.1:9"),
    ],
)
def test_what_identifies_is_taken_out(line, expected):
    assert redact(line, PRIVATE) == expected


@pytest.mark.parametrize(
    "line",
    [
        "max_num_batched_tokens=2048, tokens: 123456789",
        "vLLM 0.25.1.0 on 4 GPUs, adam optimiser, cascada",
        "num_tokens=100000 eos_token=None pad_token: <pad>",
        "model /models/smollm2 loaded in 12.75 s",
        "the root of the tree",
    ],
)
def test_what_readers_need_stays(line):
    assert redact(line, PRIVATE) == line


def test_the_root_user_and_short_words_are_no_names():
    assert redact("root at ab", Private(user="root", host="ab", home="/root")) == "root at ab"


def test_the_middle_of_an_overlong_log_is_left_out_and_said():
    text = "a" * LOG_LIMIT_CHARACTERS + "\nthe end"
    shortened = redact(text, Private())
    assert len(shortened) < LOG_LIMIT_CHARACTERS + 100
    assert "characters left out" in shortened
    assert shortened.endswith("the end")


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEFG0123456789", min_size=8, max_size=40), st.text(max_size=20))
def test_no_hub_token_survives_anywhere(secret, around):
    assert f"hf_{secret}" not in redact(f"{around} hf_{secret} {around}", PRIVATE)


@given(st.text(max_size=300))
def test_redacting_twice_changes_nothing_more(text):
    once = redact(text, PRIVATE)
    assert redact(once, PRIVATE) == once


def test_this_machine_has_a_home_and_a_name():
    private = Private.of_this_machine()
    assert private.home.startswith("/")
    assert private.host


def test_folders_of_the_machine_become_words():
    private = Private(folders=(("/data/state", "<state>"), ("/data", "<data>")))
    assert (
        redact("a /data/state/models/x b /data/y c /database", private) == "a <state>/models/x b <data>/y c /database"
    )
