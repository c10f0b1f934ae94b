"""The scripted work of the agent, one function per scenario, in files by field."""

from __future__ import annotations

from collections.abc import Callable

from suite.workload.lab.scenarios import database, hosts, inventory, questions, routing, switching
from suite.workload.lab.scene import Scene

Scenario = Callable[[Scene], None]

SCENARIOS: dict[str, Scenario] = {
    "access-vlan": switching.access_vlan,
    "api-port": hosts.api_port,
    "audit-descriptions": inventory.audit_descriptions,
    "busy-port": hosts.busy_port,
    "describe-subinterface": routing.describe_subinterface,
    "disk-full": hosts.disk_full,
    "dns-record": hosts.dns_record,
    "duplex": switching.duplex,
    "error-disabled": switching.error_disabled,
    "find-station": switching.find_station,
    "idle-transaction": database.idle_transaction,
    "inventory-drift": inventory.inventory_drift,
    "link-down": routing.link_down,
    "new-vlan": switching.new_vlan,
    "ntp-server": routing.ntp_server,
    "replication": database.replication,
    "serial-report": database.serial_report,
    "static-route": routing.static_route,
    "time-drift": hosts.time_drift,
    "trunk-vlan": switching.trunk_vlan,
    "unused-ports": switching.unused_ports,
}
"""Scenarios of several turns."""

SHORT: dict[str, Scenario] = {
    "ask-arp": questions.ask_arp,
    "ask-clock": questions.ask_clock,
    "ask-disk": questions.ask_disk,
    "ask-gateway": questions.ask_gateway,
    "ask-listen": questions.ask_listen,
    "ask-lookup": questions.ask_lookup,
    "ask-neighbours": questions.ask_neighbours,
    "ask-port": questions.ask_port,
    "ask-setting": questions.ask_setting,
    "ask-thanks": questions.ask_thanks,
    "ask-uptime": questions.ask_uptime,
    "ask-vlan": questions.ask_vlan,
}
"""Questions of one or two calls, which also fill the end of a session."""

ALL: dict[str, Scenario] = {**SCENARIOS, **SHORT}
