"""Starting and stopping services, with the reasons for which they refuse to start."""

from __future__ import annotations

import re

from suite.workload.lab.build import DOMAIN
from suite.workload.lab.model import Host, Service, World
from suite.workload.lab.result import Refused

_FULL_PERCENT = 99


def restart(world: World, host: Host, service: Service) -> None:
    """Start the service afresh with the configuration that is there now.

    Raises:
        Refused: it does not start; its journal says why.
    """
    pid = world.next_pid
    world.next_pid += 37
    text = host.files.get(service.config, "") if service.config else ""
    reason = _reason(world, host, service, text)
    service.journal.append((world.now, f"systemd[1]: Starting {service.name}.service - {service.description}..."))
    service.since = world.now
    if reason:
        service.state = "failed"
        service.journal += [
            (world.now + 1, f"{service.name}[{pid}]: {reason}"),
            (world.now + 1, f"systemd[1]: {service.name}.service: Main process exited, code=exited, status=1/FAILURE"),
            (world.now + 1, f"systemd[1]: Failed to start {service.name}.service - {service.description}."),
        ]
        raise Refused(
            f"Job for {service.name}.service failed because the control process exited with error code.\n"
            f'See "systemctl status {service.name}.service" and "journalctl -xeu {service.name}.service" for details.\n'
            "[exit code 1]"
        )
    service.state, service.pid, service.loaded = "active", pid, text
    service.journal.append((world.now + 1, f"systemd[1]: Started {service.name}.service - {service.description}."))


def stop(world: World, service: Service) -> None:
    """Stop the service."""
    service.state, service.since = "inactive", world.now
    service.journal.append((world.now, f"systemd[1]: Stopped {service.name}.service - {service.description}."))


def break_down(world: World, host: Host, service: Service, reason: str) -> None:
    """Let the service fail by itself, `reason` being its last words."""
    service.state, service.since = "failed", world.now
    service.journal += [
        (world.now, f"{service.name}[{service.pid}]: {reason}"),
        (world.now, f"systemd[1]: {service.name}.service: Main process exited, code=exited, status=1/FAILURE"),
        (world.now, f"systemd[1]: {service.name}.service: Failed with result 'exit-code'."),
    ]


def _reason(world: World, host: Host, service: Service, text: str) -> str:
    for other in host.services.values():
        if other is not service and other.state == "active" and other.port == service.port is not None:
            return f"bind 0.0.0.0:{service.port}: address already in use"
    var = next(disk for disk in host.disks if disk.mount == "/var")
    if service.name in ("postgresql", "rsyslog", "loki") and 100 * var.used_mib // var.size_mib >= _FULL_PERCENT:
        return "could not write to /var: No space left on device"
    if service.name == "inventory-api":
        return _api_reason(world, text)
    if service.name == "dnsmasq":
        for number, line in enumerate(text.splitlines(), 1):
            if not re.fullmatch(r"domain=\S+|host-record=[\w.-]+,\d+\.\d+\.\d+\.\d+|#.*|", line):
                return f"bad option at line {number} of {service.config}"
    if service.name == "nginx" and text.count("{") != text.count("}"):
        return f"unexpected end of file in {service.config}"
    return ""


def _api_reason(world: World, text: str) -> str:
    listen = re.search(r'^listen = "[\d.]+:(\d+)"$', text, re.MULTILINE)
    host = re.search(r'^host = "([^"]+)"$', text, re.MULTILINE)
    port = re.search(r"^port = (\d+)$", text, re.MULTILINE)
    if not listen or not host or not port:
        return "config: expected listen, host and port in /etc/inventory-api/config.toml"
    name = host[1].removesuffix(f".{DOMAIN}")
    if name not in world.hosts:
        return f"lookup {host[1]}: no such host"
    server = world.hosts[name]
    database = server.services.get("postgresql")
    if database is None or database.state != "active" or str(database.port) != port[1]:
        return f"connect to database: dial tcp {server.address}:{port[1]}: connection refused"
    if name != world.database.primary:
        return f"migrate: database {host[1]} is read-only (standby)"
    return ""
