"""What the laboratory is made of: plain mutable state, without behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

LogLine = tuple[int, str]
"""Time in seconds since the epoch, and the line without its time."""


@dataclass(kw_only=True, slots=True)
class Interface:
    """A port or subinterface of a router or switch."""

    name: str
    mode: Literal["routed", "access", "trunk"]
    description: str = ""
    admin_up: bool = True
    address: str | None = None
    prefix_length: int = 24
    vlan: int = 1
    """Access VLAN of a switch port, or the dot1Q tag of a subinterface."""
    allowed: list[int] = field(default_factory=list)
    """VLANs that a trunk carries."""
    peer: tuple[str, str] | None = None
    """Device and interface at the other end of the cable, or host and its NIC."""
    speed_mbps: int = 1000
    duplex: Literal["auto", "full", "half"] = "auto"
    mtu: int = 1500
    mac: str = ""
    error_disabled: str = ""
    """Why the switch itself has turned the port off; empty if it has not."""
    crc_errors: int = 0
    packets_in: int = 0
    packets_out: int = 0


@dataclass(kw_only=True, slots=True)
class Device:
    """A router or a switch."""

    name: str
    site: str
    role: Literal["router", "switch"]
    model: str
    version: str
    serial: str
    management_address: str
    boot_time: int
    interfaces: dict[str, Interface] = field(default_factory=dict)
    vlans: dict[int, str] = field(default_factory=dict)
    static_routes: list[tuple[str, int, str]] = field(default_factory=list)
    """Network, prefix length, next hop."""
    ntp_servers: list[str] = field(default_factory=list)
    log: list[LogLine] = field(default_factory=list)
    unsaved: bool = False


@dataclass(kw_only=True, slots=True)
class Service:
    """A systemd unit."""

    name: str
    description: str
    port: int | None = None
    protocol: Literal["tcp", "udp"] = "tcp"
    state: Literal["active", "failed", "inactive"] = "active"
    since: int = 0
    pid: int = 0
    config: str | None = None
    """Path of the file that it reads when it starts."""
    loaded: str = ""
    """What that file held then."""
    journal: list[LogLine] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Disk:
    """A mounted file system; sizes in MiB."""

    device: str
    mount: str
    size_mib: int
    used_mib: int


@dataclass(kw_only=True, slots=True)
class Host:
    """A Linux machine."""

    name: str
    site: str
    address: str
    vlan: int
    mac: str
    kernel: str
    boot_time: int
    services: dict[str, Service] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    disks: list[Disk] = field(default_factory=list)
    usage_mib: dict[str, int] = field(default_factory=dict)
    """Folder to MiB, for `du`."""


@dataclass(kw_only=True, slots=True)
class Thing:
    """Something on an access port that cannot be logged into: a camera, a phone, a crane controller, a PC."""

    name: str
    kind: str
    site: str
    address: str
    vlan: int
    mac: str
    switch: str
    port: str


@dataclass(kw_only=True, slots=True)
class Table:
    """A database table."""

    columns: dict[str, str]
    """Column name to type: `integer`, `text`, `boolean`, `inet`, `timestamp`."""
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Backend:
    """A database connection, as `pg_stat_activity` shows it."""

    pid: int
    user: str
    client: str
    state: str
    query: str
    started: int


@dataclass(kw_only=True, slots=True)
class Database:
    """One PostgreSQL database with its primary, its replica and its sessions."""

    name: str
    primary: str
    replica: str
    tables: dict[str, Table] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    backends: list[Backend] = field(default_factory=list)
    wal_position: int = 0
    replica_lag_bytes: int = 0


@dataclass(kw_only=True, slots=True)
class World:
    """Everything, and what time it is there."""

    now: int
    devices: dict[str, Device] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    vlan_names: dict[int, str] = field(default_factory=dict)
    database: Database = field(default_factory=lambda: Database(name="", primary="", replica=""))
    next_pid: int = 4000
