from __future__ import annotations

import base64
import json
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.workload.scrub.private_map import PrivateMap
from suite.workload.scrub.pseudonyms import Forge, ascii_lower, shape_of
from suite.workload.scrub.text import TextScrubber
from suite.workload.scrub.views import blocks, views
from tests.growth import assert_linear
from tests.workload.scrub.labelled import CLEAN, plants

PLANTS = tuple(plants())
HEX = set("0123456789abcdef")
KEY = bytes(range(32))

pieces = st.lists(
    st.one_of(
        st.sampled_from([p.text for p in PLANTS]),
        st.sampled_from(CLEAN),
        st.text(alphabet=st.characters(codec="utf-8"), max_size=30),
        st.text(alphabet='ab1:./@-_=%\\" \n', max_size=30),
    ),
    min_size=1,
    max_size=5,
)


def scrub(*texts: str, **options: object) -> list[str]:
    return TextScrubber(PrivateMap(key=KEY), **options).run(list(texts))  # type: ignore[arg-type]


class TestProperties:
    @given(pieces)
    def test_idempotent_with_nothing_but_the_pseudonyms(self, texts: list[str]) -> None:
        scrubber = TextScrubber(PrivateMap(key=KEY))
        once = scrubber.run([" ".join(texts), *texts])
        again = TextScrubber(PrivateMap(key=bytes(32)), frozen=list(scrubber.pseudonyms))
        assert again.run(once) == once

    @given(pieces)
    def test_nothing_but_letters_and_digits_changes(self, texts: list[str]) -> None:
        for before, after in zip(texts, scrub(*texts), strict=True):
            if any(True for _ in blocks(before)) or "%" in before or "\\u" in before:
                continue  # an encoded run is written anew as a whole
            assert len(before) == len(after)
            for old, new in zip(before, after, strict=True):
                if old == new:
                    continue
                assert old.isalnum()
                assert new.isalnum()
                # Addresses are hexadecimal: there a digit may become a letter.
                assert not old.isascii() or shape_of(old) == shape_of(new) or {old.lower(), new.lower()} <= HEX

    @given(pieces)
    def test_equal_texts_stay_equal_and_json_stays_json(self, texts: list[str]) -> None:
        as_json = json.dumps({"command": texts[0], "n": 1})
        first, second, scrubbed = scrub(texts[0], texts[0], as_json)
        assert first == second
        value = json.loads(scrubbed)
        assert value["n"] == 1
        assert len(value) == 2

    @pytest.mark.parametrize(
        "text",
        [
            "PASSWORD=hunter22\nUSER=x",
            "[Interface]\nPrivateKey = vDW38+uE+fhf1cjkxoPJ8vfuZHzUttbuo6hKkOsUr3g=\n",
            "login x password Xy12ab99\nfoo",
            "key 7 Xy12ab99\nfoo\n",
        ],
    )
    @pytest.mark.parametrize("times", [1, 2])
    def test_line_ends_inside_json_stay(self, text: str, times: int) -> None:
        """The letter of an escape is no part of the value before it."""
        as_json = text
        for _ in range(times):
            as_json = json.dumps({"command": as_json})
        (scrubbed,) = scrub(as_json)
        assert scrubbed != as_json
        for _ in range(times):
            scrubbed = json.loads(scrubbed)["command"]
        assert [len(line) for line in scrubbed.split("\n")] == [len(line) for line in text.split("\n")]

    def test_a_value_begins_after_the_line_end_before_it(self) -> None:
        text = json.dumps({"command": "to:\nmax.muster@firma.de", "again": "max.muster@firma.de"})
        first, second = json.loads(scrub(text)[0]).values()
        assert first == "to:\n" + second

    @given(st.text(alphabet="abcdefgh \n.,;!?()", max_size=200))
    def test_prose_stays(self, text: str) -> None:
        assert scrub(text) == [text]

    @given(st.binary(max_size=60))
    def test_base64_of_anything_stays_base64(self, data: bytes) -> None:
        text = base64.b64encode(data).decode()
        done = scrub(f"data {text}|")[0]
        assert len(base64.b64decode(done.removeprefix("data ").removesuffix("|"))) == len(data)


class TestEverywhereTheSame:
    SECRET = "Tr4verse-Quokka!9"

    def test_in_every_form(self) -> None:
        secret = self.SECRET
        line = f"password={secret}"
        b64 = base64.b64encode(f"login: {secret}".encode()).decode()
        texts = [
            line,
            f"it said {secret} twice",
            json.dumps({"cmd": f"echo '{secret}'"}),
            json.dumps({"a": json.dumps({"b": secret})}),
            quote(secret, safe=""),
            b64,
            "xxd: " + secret.encode().hex(),
            secret.upper(),
        ]
        done = scrub(*texts)
        made = done[0].removeprefix("password=")
        assert made != secret
        assert shape_of(made) == shape_of(secret)
        assert done[1] == f"it said {made} twice"
        assert json.loads(done[2])["cmd"] == f"echo '{made}'"
        assert json.loads(json.loads(done[3])["a"])["b"] == made
        assert unquote(done[4]) == made
        assert base64.b64decode(done[5]).decode() == f"login: {made}"
        assert bytes.fromhex(done[6].removeprefix("xxd: ")).decode() == made
        assert done[7] == made.upper()

    def test_a_user_name_and_its_host(self) -> None:
        done = scrub(
            "ssh mirabel@kestrel-fw02.quenelle.net", "mirabel logged in on kestrel-fw02", "Kestrel-FW02 is down"
        )
        user, host = done[0].removeprefix("ssh ").split("@")
        label = host.split(".")[0]
        assert done[1] == f"{user} logged in on {label}"
        assert done[2].lower() == f"{label} is down"
        assert host.endswith(".net")
        assert "quenelle" not in host

    def test_one_station_in_three_notations(self) -> None:
        done = scrub("02:1a:2b:3c:4d:5e", "021a.2b3c.4d5e", "02-1A-2B-3C-4D-5E")
        digits = {"".join(c for c in text if c.isalnum()).lower() for text in done}
        assert len(digits) == 1
        assert digits != {"021a2b3c4d5e"}
        assert done[2] == done[2].upper()

    def test_subnets_stay_together(self) -> None:
        done = scrub("10.20.30.41/24 and 10.20.30.42, via 10.20.99.1; 172.20.1.9 192.168.7.8 80.81.82.83")
        first, second, gateway = (done[0].replace(",", "").replace(";", "").split()[i] for i in (0, 2, 4))
        assert first.split(".")[:3] == second.split(".")[:3]
        assert gateway.split(".")[:2] == first.split(".")[:2]
        assert first.startswith("10.")
        assert first.endswith("/24")
        assert done[0].split()[5].startswith("172.")
        assert 16 <= int(done[0].split()[5].split(".")[1]) <= 31
        assert done[0].split()[6].startswith("192.168.")

    def test_basic_authentication_is_taken_apart(self) -> None:
        token = base64.b64encode(b"mirabel:Tr4verse-Quokka!9").decode()
        done = scrub(f"Authorization: Basic {token}", "mirabel", self.SECRET)
        user, _, password = base64.b64decode(done[0].split()[-1]).decode().partition(":")
        assert (user, password) == (done[1], done[2])
        assert user != "mirabel"

    def test_the_map_makes_sessions_agree(self) -> None:
        private = PrivateMap(key=KEY)
        (first,) = TextScrubber(private).run(["password=Tr4verse-Quokka!9"])
        (second,) = TextScrubber(private).run(["it is Tr4verse-Quokka!9"])
        assert second == f"it is {first.removeprefix('password=')}"

    def test_another_key_other_pseudonyms(self) -> None:
        text = "password=Tr4verse-Quokka!9 from 10.20.30.40"
        assert TextScrubber(PrivateMap()).run([text]) != TextScrubber(PrivateMap()).run([text])


class TestChoices:
    def test_keep_and_word(self) -> None:
        text = "ping 10.20.30.40 from Projekt Nachtigall"
        assert scrub(text, keep=["10.20.30.40"]) == [text]
        done = scrub(text, words=["Nachtigall"])
        assert "Nachtigall" not in done[0]
        assert "Projekt" in done[0]

    def test_no_two_values_get_one_pseudonym(self) -> None:
        names = [f"/home/{a}{b}{c}/x" for a in "bdfg" for b in "aei" for c in "klmnp"]
        done = scrub(*names)
        assert len(set(done)) == len(names)

    def test_pseudonyms_of_addresses_never_meet(self) -> None:
        forge = Forge(KEY)
        addresses = [f"10.0.{a}.{b}" for a in (1, 2, 30) for b in range(1, 255)]
        made = [forge.make(address, "ipv4", ()) for address in addresses]
        assert len(set(made)) == len(made)
        assert not any(a == b for a, b in zip(addresses, made, strict=True))
        assert [len(a) for a in addresses] == [len(m) for m in made]


@given(st.text(max_size=80))
def test_views_tile_the_text(text: str) -> None:
    for view in views(text):
        assert len(view.starts) == len(view.text) + 1
        assert list(view.starts) == sorted(view.starts)
        assert view.starts[-1] == len(text)


@given(st.text(max_size=40))
def test_ascii_lower_keeps_the_length(text: str) -> None:
    assert len(ascii_lower(text)) == len(text)


@pytest.mark.parametrize("unit", ["a", "password=", "%41", "-----BEGIN PRIVATE KEY-----", "1.2.3.", "A", "aa:", "x@y."])
@pytest.mark.parametrize("size", [3_000, pytest.param(50_000, marks=pytest.mark.soak)])
def test_hostile_texts_take_no_more_than_linear_work(unit: str, size: int) -> None:
    ending = "=" if unit == "A" else ""
    assert_linear(lambda length: scrub(unit * (length // len(unit)) + ending), size)
