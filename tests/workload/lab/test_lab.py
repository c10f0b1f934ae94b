# ruff: noqa: E501
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.workload.lab.dice import Dice
from suite.workload.lab.lab import Lab, tool_definitions
from suite.workload.lab.network import answers_gateway, attachment
from suite.workload.lab.result import ToolResult
from suite.workload.lab.scenarios import ALL
from suite.workload.lab.scene import Call, Scene
from tests.examples import examples

API = "/etc/inventory-api/config.toml"


@pytest.fixture
def lab() -> Lab:
    return Lab(5)


def show(lab: Lab, device: str, command: str) -> ToolResult:
    return lab.call("device_show", {"device": device, "command": command})


def configure(lab: Lab, device: str, *lines: str, save: bool = False) -> ToolResult:
    return lab.call("device_configure", {"device": device, "lines": list(lines), "save": save})


def shell(lab: Lab, host: str, command: str) -> ToolResult:
    return lab.call("host_run", {"host": host, "command": command})


def sql(lab: Lab, statement: str, host: str = "db-1") -> ToolResult:
    return lab.call("sql_query", {"host": host, "statement": statement})


def get(lab: Lab, path: str, **query: Any) -> ToolResult:
    return lab.call("inventory_get", {"path": path, "query": query})


def test_the_same_seed_and_calls_give_the_same_answers() -> None:
    calls: list[Call] = [
        ("device_show", {"device": "core-1", "command": "show ip route"}),
        ("host_run", {"host": "db-1", "command": "systemctl status postgresql"}),
        ("device_show", {"device": "core-1", "command": "show clock"}),
    ]
    first, second, other = Lab(1), Lab(1), Lab(2)
    answers = [[lab.call(*call) for call in calls] for lab in (first, second, other)]
    assert answers[0] == answers[1] != answers[2]


def test_a_fork_does_not_touch_its_origin(lab: Lab) -> None:
    fork = lab.fork()
    configure(fork, "core-1", "interface GigabitEthernet0/0/1.201", "description changed")
    assert "changed" not in show(lab, "core-1", "show interfaces description").content


def test_a_change_is_shown_and_saved(lab: Lab) -> None:
    result = configure(lab, "core-1", "interface Gi0/0/1.201", "description rack B4", save=True)
    assert not result.is_error
    assert result.content.endswith("[OK]")
    assert (
        " description rack B4\n"
        in show(lab, "core-1", "show running-config interface GigabitEthernet0/0/1.201").content
    )
    assert "CONFIG_I" in show(lab, "core-1", "show logging last 1").content
    configure(lab, "core-1", "interface Gi0/0/1.201", "no description")
    assert "rack B4" not in show(lab, "core-1", "show interfaces description").content


def test_a_wrong_interface_is_refused_and_the_right_one_found(lab: Lab) -> None:
    wrong = configure(lab, "core-1", "interface GigabitEthernet0/0/9", "description x")
    assert wrong.is_error
    assert "GigabitEthernet0/0/9 does not exist on core-1" in wrong.content
    assert "0 lines applied" in wrong.content
    assert not configure(lab, "core-1", "interface GigabitEthernet0/0/2", "description x").is_error


def test_lines_before_a_refused_one_stay(lab: Lab) -> None:
    result = configure(lab, "sw-pier-1", "vlan 77", "name TUGS", "interface Gi9/9/9", "shutdown")
    assert result.is_error
    assert "2 lines applied" in result.content
    assert "77   TUGS" in show(lab, "sw-pier-1", "show vlan brief").content


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("show ip rout", "directly connected"),
        ("sh ip int br", "IP-Address"),
        ("show colour", "Invalid input"),
        ("show", "Incomplete"),
        ("", "Incomplete"),
        ("show interfaces", "Incomplete"),
        ("show interfaces Gi7/7/7", "does not exist"),
        ("show vlan brief", "Invalid input"),
        ("ping", "Incomplete"),
        ("ping 10.10.202.300", "Invalid input"),
        ("show ip route | grep x", "Invalid input"),
        ("show ip route | include nothing-like-it", ""),
        ("reload", "Invalid input"),
    ],
)
def test_device_commands_in_short_and_wrong(lab: Lab, command: str, says: str) -> None:
    assert says in show(lab, "core-1", command).content


def test_the_error_marker_points_at_the_wrong_word(lab: Lab) -> None:
    lines = show(lab, "core-1", "show ip colour").content.splitlines()
    assert lines[0][lines[1].index("^") :] == "colour"


def test_a_wrong_access_vlan_cuts_a_station_off(lab: Lab) -> None:
    thing = lab.world.things["cam-p02"]
    assert "100 percent" in show(lab, "branch-n1", f"ping {thing.address}").content
    configure(lab, thing.switch, f"interface {thing.port}", "switchport access vlan 20")
    assert "0 percent" in show(lab, "branch-n1", f"ping {thing.address}").content
    assert thing.mac not in show(lab, "branch-n1", "show ip arp").content
    assert f"  20    {thing.mac}" in show(lab, thing.switch, "show mac address-table").content
    configure(lab, thing.switch, f"interface {thing.port}", "switchport access vlan 40")
    assert "100 percent" in show(lab, "branch-n1", f"ping {thing.address}").content


def test_a_trunk_without_the_vlan_cuts_all_behind_it_off(lab: Lab) -> None:
    behind = lab.world.things["cam-p05"]
    before = lab.world.things["cam-p01"]
    assert (behind.switch, before.switch) == ("sw-pier-2", "sw-pier-1")
    configure(lab, "sw-pier-2", "interface Te1/1/1", "switchport trunk allowed vlan remove 40")
    assert not answers_gateway(lab.world, behind)
    assert answers_gateway(lab.world, before)
    configure(lab, "sw-pier-2", "interface Te1/1/1", "switchport trunk allowed vlan add 40")
    assert answers_gateway(lab.world, behind)


def test_a_trunk_list_without_add_replaces_the_list(lab: Lab) -> None:
    configure(lab, "sw-pier-2", "interface Te1/1/1", "switchport trunk allowed vlan 40")
    trunk = show(lab, "sw-pier-2", "show interfaces trunk").content
    assert "Te1/1/1     40" in trunk


def test_a_shut_link_removes_the_neighbour_and_moves_the_route(lab: Lab) -> None:
    target = lab.world.things["crane-d01"].address
    assert "10.255.0.6" in show(lab, "core-1", f"show ip route {target}").content
    configure(lab, "core-2", "interface GigabitEthernet0/0/2", "shutdown")
    assert "10.255.0.6" not in show(lab, "core-1", "show ip ospf neighbor").content
    assert "is down, line protocol is down" in show(lab, "core-1", "show interfaces Gi0/0/2").content
    assert "10.255.0.1" in show(lab, "core-1", f"show ip route {target}").content
    assert "100 percent" in show(lab, "core-1", f"ping {target}").content


def test_a_static_route_wins_over_ospf_and_can_break_it(lab: Lab) -> None:
    target = lab.world.things["crane-p01"].address
    network = target.rsplit(".", 1)[0] + ".0"
    configure(lab, "core-1", f"ip route {network} 255.255.255.0 10.255.0.1")
    assert "static" in show(lab, "core-1", f"show ip route {target}").content
    assert "100% packet loss" in shell(lab, "mon-1", f"ping -c 3 {target}").content
    assert configure(lab, "core-1", f"no ip route {network} 255.255.255.0 10.255.0.6").is_error
    configure(lab, "core-1", f"no ip route {network} 255.255.255.0 10.255.0.1")
    assert " 0% packet loss" in shell(lab, "mon-1", f"ping -c 3 {target}").content


def test_a_disabled_port_comes_back_by_cycling_it(lab: Lab) -> None:
    thing = lab.world.things["pc-d01"]
    switch, port = attachment(lab.world, thing)
    port.error_disabled = "bpduguard"
    assert "err-disabled" in show(lab, switch.name, "show interfaces status").content
    configure(lab, switch.name, f"interface {port.name}", "no shutdown")
    assert "err-disabled" in show(lab, switch.name, "show interfaces status").content
    configure(lab, switch.name, f"interface {port.name}", "shutdown", "no shutdown")
    assert answers_gateway(lab.world, thing)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("port = 5432", "port = 5433", "connection refused"),
        ("db-1.harbour", "db1.harbour", "no such host"),
        ("db-1.harbour", "db-2.harbour", "read-only"),
        ("listen =", "listens =", "expected listen"),
    ],
)
def test_a_service_with_a_wrong_configuration_fails_and_recovers(lab: Lab, old: str, new: str, reason: str) -> None:
    edit = {"host": "app-1", "path": API, "old": old, "new": new}
    assert not lab.call("host_edit", edit).is_error
    assert not shell(lab, "app-1", "systemctl status inventory-api").is_error, "a running service keeps what it loaded"
    assert shell(lab, "app-1", "systemctl restart inventory-api").is_error
    assert reason in shell(lab, "app-1", "journalctl -u inventory-api -n 5").content
    assert "Failed to connect" in shell(lab, "mon-1", "curl -s http://app-1:8080/health").content
    assert not lab.call("host_edit", {**edit, "old": new, "new": old}).is_error
    assert not shell(lab, "app-1", "systemctl restart inventory-api").is_error
    assert '"status":"ok"' in shell(lab, "mon-1", "curl -s http://app-1:8080/health").content


def test_the_api_answers_while_one_backend_runs(lab: Lab) -> None:
    shell(lab, "app-1", "systemctl stop inventory-api")
    assert not get(lab, "/api/v1/devices").is_error
    shell(lab, "app-2", "systemctl stop inventory-api")
    assert "HTTP 502" in get(lab, "/api/v1/devices").content


def test_names_change_only_when_the_server_restarts(lab: Lab) -> None:
    edit = {"host": "dns-1", "path": "/etc/dnsmasq.d/records.conf", "old": "10.10.201.32", "new": "10.10.201.99"}
    lab.call("host_edit", edit)
    assert shell(lab, "app-1", "dig +short log-1").content == "10.10.201.32"
    shell(lab, "dns-1", "systemctl restart dnsmasq")
    assert shell(lab, "app-1", "dig +short log-1").content == "10.10.201.99"
    shell(lab, "dns-1", "systemctl stop dnsmasq")
    assert shell(lab, "app-1", "ping -c 3 log-1").is_error


@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "cat /etc/shadow", "ls; id", "cat x > y", "echo $(id)", "`id`", "a & b", "cat 'x", "systemctl", "python3 -c 1",
     "systemctl status nothing", "curl ftp://x", "ping", "dig", "du -sh /home", "journalctl -f", "cat /etc/hostname | sh"],
)  # fmt: skip
def test_other_shell_commands_are_refused(lab: Lab, command: str) -> None:
    assert shell(lab, "db-1", command).is_error


def test_shell_filters(lab: Lab) -> None:
    assert shell(lab, "db-1", "ss -ltnp | grep 5432").content.count("\n") == 0
    assert shell(lab, "db-1", "cat /etc/postgresql/16/main/pg_hba.conf | tail -n 1").content.startswith(
        "host    replication"
    )
    assert "/var" in shell(lab, "db-1", "df -h /var").content
    assert "/dev/sda2" not in shell(lab, "db-1", "df -h /var/log").content


def test_edit_needs_a_text_that_stands_there_once(lab: Lab) -> None:
    for old in ("host-record", "nothing", ""):
        edit = {"host": "dns-1", "path": "/etc/dnsmasq.d/records.conf", "old": old, "new": "x"}
        assert "must stand there once" in lab.call("host_edit", edit).content


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT name FROM devices WHERE name = 'core-1'", " core-1\n(1 row)"),
        ("select count(*) from interfaces where device = 'edge-1'", "     4\n(1 row)"),
        ("SELECT name, vlan FROM interfaces", 'HINT:  Perhaps you meant to reference the column "interfaces.vlan_id".'),
        ("SELECT name FROM device", 'relation "device" does not exist'),
        ("SELECT name FRM devices", 'syntax error at or near "FRM"'),
        ("SELECT name FROM devices WHERE", "syntax error at end of input"),
        ("SELECT name FROM devices WHERE site = 5", "operator does not exist"),
        ("SELECT name, count(*) FROM devices", "must appear in the GROUP BY"),
        ("SELECT id FROM interfaces WHERE vlan_id = 'x'", "invalid input syntax for type integer"),
        ("SELECT name FROM devices WHERE name LIKE 'sw-%' AND site IN ('pier') ORDER BY name DESC LIMIT 1", " sw-pier-2"),
        ("SELECT id FROM interfaces WHERE vlan_id IS NULL AND device = 'sw-pier-1'", "(2 rows)"),
        ("SELECT site, count(*) AS n FROM devices GROUP BY site ORDER BY n DESC LIMIT 1", " quay"),
        ("SHOW max_connections", "120"),
        ("SHOW nothing", "unrecognized configuration parameter"),
        ("DROP TABLE devices", "syntax error"),
        ("SELECT name FROM devices; DROP TABLE devices", "syntax error"),
        ("", "syntax error"),
        ("SELECT 'it''s", "syntax error"),
    ],
)  # fmt: skip
def test_sql(lab: Lab, statement: str, says: str) -> None:
    assert says in sql(lab, statement).content


def test_sql_changes_are_seen_by_the_api_and_the_replica_is_read_only(lab: Lab) -> None:
    assert sql(lab, "UPDATE interfaces SET description = 'new' WHERE id = 1001").content == "UPDATE 1"
    assert '"description": "new"' in get(lab, "/api/v1/interfaces/1001").content
    assert (
        "read-only transaction" in sql(lab, "UPDATE interfaces SET description = 'x' WHERE id = 1001", "db-2").content
    )
    assert sql(lab, "INSERT INTO changes (summary, status) VALUES ('x', 'open')").content == "INSERT 0 1"
    assert sql(lab, "DELETE FROM changes WHERE summary = 'x'").content == "DELETE 1"
    assert "duplicate key" in sql(lab, "INSERT INTO vlans (vid, name, site) VALUES (20, 'X', 'pier')").content
    shell(lab, "db-1", "systemctl stop postgresql")
    assert "Connection refused" in sql(lab, "SHOW port").content


def test_pages_of_the_inventory(lab: Lab) -> None:
    first = json.loads(get(lab, "/api/v1/interfaces", device="core-1", page_size=4).content)
    assert (first["count"], len(first["results"])) == (9, 4)
    assert first["next"] == "/api/v1/interfaces?page=2&page_size=4&device=core-1"
    last = json.loads(get(lab, "/api/v1/interfaces", device="core-1", page_size=4, page=3).content)
    assert (len(last["results"]), last["next"]) == (1, None)


@pytest.mark.parametrize(
    ("path", "query", "says"),
    [
        ("/api/v1/interfaces", {"size": 5}, "unknown parameter 'size'"),
        ("/api/v1/interfaces", {"page_size": 1000}, "above the maximum"),
        ("/api/v1/interfaces", {"page": 0}, "positive integer"),
        ("/api/v1/interfaces", {"page": True}, "positive integer"),
        ("/api/v1/interfaces", {"page": 99}, "does not exist; the last page is"),
        ("/api/v1/things", {}, "no such resource"),
        ("/api/v1/devices/999", {}, "no such object"),
        ("/api/v1/devices?page=2", {}, "in 'query'"),
    ],
)
def test_inventory_errors_name_what_is_wrong(lab: Lab, path: str, query: dict[str, Any], says: str) -> None:
    result = get(lab, path, **query)
    assert result.is_error
    assert says in result.content


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("PATCH", "/api/v1/interfaces/1001", {"vlan": 5}, "unknown field 'vlan'"),
        ("PATCH", "/api/v1/interfaces/1001", {"vlan_id": "5"}, "must be integer"),
        ("PATCH", "/api/v1/interfaces/1001", {"id": 5}, "unknown field 'id'"),
        ("PATCH", "/api/v1/interfaces", {}, "needs an id"),
        ("POST", "/api/v1/interfaces/1001", {}, "goes to the collection"),
        ("POST", "/api/v1/vlans", {"vid": 20, "site": "pier"}, "already exists"),
        ("DELETE", "/api/v1/vlans/1", {}, "must be POST or PATCH"),
    ],
)
def test_inventory_writes_are_checked(lab: Lab, method: str, path: str, body: dict[str, Any], says: str) -> None:
    result = lab.call("inventory_write", {"method": method, "path": path, "body": body})
    assert result.is_error
    assert says in result.content


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("device_shw", {}, 'no tool named "device_shw"'),
        ("device_show", {"device": "core-1"}, 'missing argument "command"'),
        ("device_show", {"device": "core-1", "command": "show clock", "x": 1}, 'unknown argument "x"'),
        ("device_show", {"device": 1, "command": "show clock"}, "must be of type string"),
        ("device_show", {"device": "core-9", "command": "show clock"}, 'no device named "core-9"'),
        ("host_run", {"host": "core-1", "command": "uptime"}, 'no host named "core-1"'),
        ("device_configure", {"device": "core-1", "lines": "x"}, "must be of type array"),
        ("device_configure", {"device": "core-1", "lines": [1]}, "must be of type array"),
        ("device_configure", {"device": "core-1", "lines": [], "save": 1}, "must be of type boolean"),
        ("sql_query", '{"host": "db-1"', "not JSON"),
        ("sql_query", "[]", "must be a JSON object"),
        ("sql_query", '{"host": "a", "host": "b"}', "stands twice"),
    ],
)
def test_bad_calls_are_answered_with_the_reason(lab: Lab, name: str, arguments: Any, says: str) -> None:
    result = lab.call(name, arguments)
    assert result.is_error
    assert says in result.content


_SHARED = Lab(9)
_TEXT = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"(show|ping|interface|ip|no|switchport|vlan|select|from|where|update|set|insert|[a-z0-9/.'|=(),*]){1,10}( [a-z0-9/.']{1,9}){0,5}", fullmatch=True),
)  # fmt: skip
_CALLS = st.one_of(
    st.tuples(st.just("device_show"), st.fixed_dictionaries({"device": st.sampled_from(["core-1", "sw-pier-1"]), "command": _TEXT})),
    st.tuples(st.just("device_configure"), st.fixed_dictionaries({"device": st.sampled_from(["core-1", "sw-pier-1"]), "lines": st.lists(_TEXT, max_size=4)})),
    st.tuples(st.just("host_run"), st.fixed_dictionaries({"host": st.sampled_from(["db-1", "dns-1", "app-1"]), "command": _TEXT})),
    st.tuples(st.just("host_edit"), st.fixed_dictionaries({"host": st.just("app-1"), "path": st.just(API), "old": _TEXT, "new": _TEXT})),
    st.tuples(st.just("sql_query"), st.fixed_dictionaries({"host": st.just("db-1"), "statement": _TEXT})),
    st.tuples(st.just("inventory_get"), st.fixed_dictionaries({"path": st.one_of(st.just("/api/v1/vlans"), _TEXT), "query": st.dictionaries(_TEXT, st.one_of(_TEXT, st.integers(), st.none(), st.booleans()), max_size=2)})),
    st.tuples(st.just("inventory_write"), st.fixed_dictionaries({"method": st.sampled_from(["POST", "PATCH", "x"]), "path": st.sampled_from(["/api/v1/vlans", "/api/v1/vlans/1"]), "body": st.dictionaries(st.sampled_from(["vid", "site", "x"]), st.one_of(_TEXT, st.integers()), max_size=2)})),
    st.tuples(_TEXT, st.dictionaries(_TEXT, _TEXT, max_size=2)),
    st.tuples(st.sampled_from(["sql_query", "host_run"]), _TEXT),
)  # fmt: skip


@settings(max_examples=examples(60))
@given(_CALLS)
def test_nothing_that_a_model_writes_raises(call: tuple[str, Any]) -> None:
    result = _SHARED.fork().call(*call)
    assert isinstance(result.content, str)


@settings(max_examples=examples(20))
@given(st.lists(_CALLS, max_size=12))
def test_no_sequence_of_calls_breaks_the_laboratory(calls: list[tuple[str, Any]]) -> None:
    lab = _SHARED.fork()
    for call in calls:
        lab.call(*call)
    for device, command in (
        ("core-1", "show ip route"),
        ("sw-pier-1", "show interfaces status"),
        ("branch-n1", "show ip arp"),
    ):
        assert not show(lab, device, command).is_error


def test_tool_definitions_are_strict_objects() -> None:
    for tool in tool_definitions():
        parameters = tool["function"]["parameters"]
        assert parameters["additionalProperties"] is False
        assert set(parameters["required"]) <= set(parameters["properties"])


# Where a right call still meets an error, because finding the error is its purpose.
_DIAGNOSES = {"api-port", "describe-subinterface", "disk-full", "replication", "static-route"}


@pytest.mark.parametrize("name", sorted(ALL))
def test_scripted_mistakes_fail_and_right_calls_succeed(name: str) -> None:
    class Watching(Scene):
        def act(
            self, *calls: Call, say: str = "", think: str = "", keep: Any = (), right: bool = True
        ) -> list[ToolResult]:
            results = super().act(*calls, say=say, think=think, keep=keep, right=right)
            if not right:
                assert all(result.is_error for result in results), (calls, results)
            elif name not in _DIAGNOSES:
                assert not any(result.is_error for result in results), (calls, results)
            self.last = results
            return results

    for seed in range(25):
        scene = Watching(Lab(seed))
        scene.dice = Dice(seed, name)
        ALL[name](scene)
        if scene.num_calls:
            assert not any(result.is_error for result in scene.last), "the last calls verify that it works"
            assert not any("Success rate is 0" in result.content for result in scene.last)


def test_dice_are_even_and_repeat() -> None:
    assert [Dice(1, "a").below(1000) for _ in range(2)] == [Dice(1, "a").below(1000)] * 2
    assert Dice(1, "a").below(10**9) != Dice(1, "b").below(10**9)
    dice = Dice(0)
    counts = [0] * 6
    for _ in range(6000):
        counts[dice.between(1, 6) - 1] += 1
    assert min(counts) > 850
    assert sorted(Dice(3).shuffled(range(20))) == list(range(20))
    assert Dice(7, "golden").hexadecimal(16) == Dice(7, "golden").hexadecimal(16)
    assert [Dice(2026, "golden").below(100) for _ in range(1)] == [GOLDEN]


GOLDEN = 81
