from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.grade.align import cost, distance
from suite.grade.literals import Context, compare, listed, text_of
from suite.grade.words import kind_of, parts, scan
from tests.growth import assert_linear, seconds

LAB = """
sw-quay-2# show running-config interface GigabitEthernet1/0/14
 description CAM-7 for 10.20.30.41/24 via Vlan201
 mac 00:1b:54:aa:3f:9c  uplink Te1/1/2.201
psql -h db-1.harbour.example -p 5432 -d inventory
See https://ipam.harbour.example:8443/api/v1/interfaces?page_size=8 and /etc/frr/frr.conf.
Job 6f1c2b7e-3a4d-4f5b-9c8d-0e1f2a3b4c5d ran FRR 8.5.4 on fe80::1, 2001:db8::/32.
SELECT id, vlan_id FROM interfaces WHERE device = 'sw-quay-2'
"""


def context(text=LAB, **options):
    made = Context(**options)
    made.add_text(text)
    return made


def judged(arguments, made=None, **options):
    return compare(text_of(arguments), made or context(), **options)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("GigabitEthernet1/0/14", "interface"), ("Te1/1/2.201", "interface"), ("eth0", "interface"),
        ("ge-0/0/1", "interface"), ("Vlan201", "interface"), ("Port-channel1", "interface"),
        ("enp3s0f1", "interface"), ("10.20.30.41", "address"), ("10.20.30.41/24", "network"), ("fe80::1", "address"),
        ("2001:db8::/32", "network"), ("00:1b:54:aa:3f:9c", "mac"), ("001b.54aa.3f9c", "mac"),
        ("00-1b-54-aa-3f-9c", "mac"), ("db-1:5432", "endpoint"), ("10.0.0.5:8080", "endpoint"),
        ("db-1.harbour.example", "host"), ("sw-quay-2", "host"), ("/etc/frr/frr.conf", "path"), ("./run.sh", "path"),
        ("~/x", "path"), ("src/a.py", "path"), ("https://a.example/x?y=1", "url"),
        ("6f1c2b7e-3a4d-4f5b-9c8d-0e1f2a3b4c5d", "uuid"), ("8.5.4", "version"), ("v1.2", "version"),
        ("1.2.3-rc1", "version"), ("page_size", "identifier"), ("pageSize", "identifier"),
        ("public.interfaces_2", "identifier"), ("543ql", "identifier"), ("5432", "number"), ("show", ""),
        ("and/or", ""), ("300.1.1.1", "version"),
    ],
)  # fmt: skip
def test_kinds_of_words(word, kind):
    assert kind_of(word) == kind
    assert (word, kind) in list(scan(f"({word}), {word}."))


def test_a_number_after_the_word_port_is_a_port():
    assert ("5432", "port") in list(scan("psql -h db -p 5432"))
    assert ("5432", "port") in list(scan("on port 5432."))
    assert ("5432", "number") in list(scan("5432 packets, one import"))


def test_parts_of_a_literal():
    assert parts("https://a.example:8443/api/v1?page_size=3", "url") == (
        "a.example", "8443", "/api/v1", "api", "v1", "page_size", "3",
    )  # fmt: skip
    assert parts("10.0.0.5/24", "network") == ("10.0.0.5", "24")
    assert parts("GigabitEthernet0/0/1.201", "interface") == ()


def test_literals_of_the_context_are_intact():
    found = judged({"command": "ping 10.20.30.41", "interface": "GigabitEthernet1/0/14", "query": {"page_size": 8}})
    assert (found.mutated, found.invented, found.missing) == ((), (), ())
    assert found.intact == ("10.20.30.41", "GigabitEthernet1/0/14")


@pytest.mark.parametrize(
    ("source", "mutant"),
    [
        ("GigabitEthernet1/0/14", "GigabitEthernet1/0/41"),
        ("Te1/1/2.201", "Te1/1/2"),
        ("10.20.30.41", "10.20.30.14"),
        ("10.20.30.41/24", "10.20.30.41/25"),
        ("00:1b:54:aa:3f:9c", "00:1b:54:aa:3f:9e"),
        ("db-1.harbour.example", "db-1.harbor.example"),
        ("/etc/frr/frr.conf", "/etc/frr/frrr.conf"),
        ("6f1c2b7e-3a4d-4f5b-9c8d-0e1f2a3b4c5d", "6f1c2b7e-3a4d-4f5b-9c8d-0e1f2a3b4c5e"),
        ("8.5.4", "8.5.5"),
        ("2001:db8::/32", "2001:db9::/32"),
        ("vlan_id", "vlan_ids"),
        ("5432", "543ql"),
    ],
)
def test_a_near_literal_is_a_mutation_of_the_likeliest_source(source, mutant):
    found = judged({"command": f"use {mutant} now"})
    assert found.mutated == ((source, mutant),)
    assert mutant not in found.invented


def test_a_port_is_compared_with_ports():
    assert judged({"command": "psql -p 5433"}).mutated == (("5432", "5433"),)
    assert judged({"port": 5433}).mutated == (("5432", "5433"),)
    assert judged({"command": "head -n 5433"}).mutated == ()


def test_an_argument_name_that_lost_a_part():
    assert judged({"query": {"size": 8}}).mutated == (("page_size", "size"),)
    assert judged({"query": {"size": 8}}, tool_words=frozenset({"size"})).mutated == ()


def test_an_sql_name_and_a_command_word():
    assert judged({"statement": "SELECT id FROM interfcaes"}).mutated == (("interfaces", "interfcaes"),)
    made = context()
    made.add_call({"command": "systemctl restart frr"})
    assert judged({"command": "systemclt restart frr"}, made).mutated == (("systemctl", "systemclt"),)


def test_a_far_literal_is_invented_and_a_composed_one_is_not():
    assert judged({"command": "ping 172.31.255.1"}).invented == ("172.31.255.1",)
    found = judged({"url": "https://db-1.harbour.example:5432/etc/frr"})
    assert (found.mutated, found.invented) == ((), ())


def test_only_what_must_survive_can_be_missing():
    assert judged({"command": "ls"}).missing == ()
    made = context(required=("10.20.30.41", "no shutdown"))
    assert judged({"command": "show version"}, made).missing == ("10.20.30.41", "no shutdown")
    assert judged({"lines": ["no shutdown"]}, made).intact == ("no shutdown",)


def test_a_prefix_does_not_stand_for_the_whole_and_another_known_literal_explains_it():
    made = context("GigabitEthernet0/0/1 and GigabitEthernet0/0/1.201", required=("GigabitEthernet0/0/1.201",))
    found = judged({"command": "show run interface GigabitEthernet0/0/1"}, made)
    assert found.mutated == (("GigabitEthernet0/0/1.201", "GigabitEthernet0/0/1"),)
    assert found.intact == ()


def test_the_latest_of_equally_near_sources_wins():
    found = judged({"command": "ping 10.0.0.3"}, context("10.0.0.1 then 10.0.0.2"))
    assert found.mutated == (("10.0.0.2", "10.0.0.3"),)


@given(st.text("ab1", max_size=8), st.text("ab1", max_size=8))
def test_distance_is_levenshteins(left, right):
    table = [[i + j if i * j == 0 else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            change = table[i - 1][j - 1] + (left[i - 1] != right[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, change)
    exact = table[-1][-1]
    for bound in (0, 1, 2, 8):
        assert distance(left, right, bound=bound) == min(exact, bound + 1)


@given(st.text(max_size=60))
def test_any_text_is_its_own_context(text):
    found = compare(text_of({"v": text}), context(text))
    assert (found.mutated, found.invented) == ((), ())


def test_costs():
    assert cost("page_size", "size") == pytest.approx(0.3 * 5 / 9)
    assert cost("a", "a") is None
    assert cost("10.0.0.5", "192.168.7.1") is None


def test_thousands_of_strange_words_take_no_longer_than_they_are_many():
    def work(count):
        made = context(" ".join(f"10.{n // 250}.{n % 250}.7" for n in range(count)))
        found = judged({"v": " ".join(f"10.{n // 250}.{n % 250}.8" for n in range(count))}, made)
        assert len(found.mutated) + len(found.invented) == count

    # What is compared with what is bounded: forty times as many words are not even forty times as much work.
    few = seconds(work, 125)
    assert seconds(work, 5_000) < 20 * few


@pytest.mark.parametrize(
    "unit",
    [
        "\n",
        " ",
        "from ",
        "a:",
        ".a",
        "/a",
        "-",
        "1.",
        "a-1",
        "::",
        "http://",
        "_",
        "aB",
        "select from\n",
        "`a ",
        "$a\n",
    ],
)
@pytest.mark.parametrize("size", [10_000, pytest.param(250_000, marks=pytest.mark.soak)])
def test_no_text_is_slow(unit, size):
    """No pattern goes back over what it read: words of 500 characters and a long text of one unit."""
    word = unit * (500 // len(unit))

    def work(size):
        judged({"command": unit * (size // len(unit))})
        judged({"command": "select " + " ".join(f"{n}{word}!{n}x" for n in range(size // 500))})

    assert assert_linear(work, size) < 1


def test_a_list_of_literals_is_all_there_is():
    found = compare(text_of({"command": "ping 10.0.0.5"}), listed(["10.0.0.5", "eth0"]))
    assert (found.intact, found.missing, found.invented) == (("10.0.0.5",), ("eth0",), ())
