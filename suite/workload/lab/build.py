"""The laboratory as it stands at the start: three sites of an invented harbour operator, all numbers from the seed."""

from __future__ import annotations

from suite.workload.lab.clock import START, iso_time
from suite.workload.lab.dice import Dice
from suite.workload.lab.model import Backend, Database, Device, Disk, Host, Interface, Service, Table, Thing, World

DOMAIN = "harbour.example"
DAY = 86_400
ANYWHERE = "0.0.0.0"  # noqa: S104
"""The network of a default route."""

VLANS = {
    10: "MGMT", 20: "OFFICE", 30: "VOICE", 40: "CAMERAS", 50: "CRANES", 60: "SCADA-LAB",
    201: "SERVERS", 202: "DATABASE", 310: "GUEST",
}  # fmt: skip
SITES = {"quay": 10, "pier": 20, "depot": 30}
"""Site to the second octet of its addresses."""
SITE_VLANS = {"quay": (20, 30, 40, 201, 202), "pier": (20, 40, 50), "depot": (20, 50, 310)}
SITE_ROUTER = {"quay": "core-1", "pier": "branch-n1", "depot": "branch-d1"}
LINKS = (
    ("edge-1", "GigabitEthernet0/0/0", "core-1", "GigabitEthernet0/0/0"),
    ("core-1", "GigabitEthernet0/0/2", "core-2", "GigabitEthernet0/0/2"),
    ("core-1", "GigabitEthernet0/0/3", "branch-n1", "GigabitEthernet0/0/0"),
    ("core-2", "GigabitEthernet0/0/3", "branch-d1", "GigabitEthernet0/0/0"),
    ("core-2", "GigabitEthernet0/0/0", "edge-1", "GigabitEthernet0/0/2"),
)
"""Router links; the n-th uses 10.255.0.4n/30."""
TRUNKS = (
    ("sw-quay-1", "TenGigabitEthernet1/1/1", "core-1", "GigabitEthernet0/0/1"),
    ("sw-quay-2", "TenGigabitEthernet1/1/1", "sw-quay-1", "TenGigabitEthernet1/1/2"),
    ("sw-pier-1", "TenGigabitEthernet1/1/1", "branch-n1", "GigabitEthernet0/0/1"),
    ("sw-pier-2", "TenGigabitEthernet1/1/1", "sw-pier-1", "TenGigabitEthernet1/1/2"),
    ("sw-depot-1", "TenGigabitEthernet1/1/1", "branch-d1", "GigabitEthernet0/0/1"),
)
UPLINK = {switch: (port, device, other) for switch, port, device, other in TRUNKS}
_THING_KINDS = {20: "pc", 30: "phone", 40: "cam", 50: "crane", 310: "kiosk"}
_HOSTS = (
    ("db-1", 202, 11), ("db-2", 202, 12), ("app-1", 201, 21), ("app-2", 201, 22),
    ("mon-1", 201, 31), ("log-1", 201, 32), ("dns-1", 201, 53), ("proxy-1", 201, 80),
)  # fmt: skip


CONFIGS = {
    "inventory-api": "/etc/inventory-api/config.toml",
    "dnsmasq": "/etc/dnsmasq.d/records.conf",
    "nginx": "/etc/nginx/sites-enabled/inventory.conf",
    "chrony": "/etc/chrony/chrony.conf",
}


def vlan_subnet(site: str, vlan: int) -> str:
    """The first three octets of a VLAN's /24 at a site: `10.20.40`."""
    return f"10.{SITES[site]}.{vlan if vlan < 256 else vlan - 200}"


def interface_order(name: str) -> tuple[str, int]:
    """Sort key: subinterfaces by number, after their port."""
    parent, _, tag = name.partition(".")
    return parent, int(tag or 0)


def build_world(seed: int) -> World:
    """The same seed gives the same laboratory."""
    dice = Dice("world", seed)
    world = World(now=START + dice.below(3600), vlan_names=dict(VLANS))
    for name in ("edge-1", "core-1", "core-2", "branch-n1", "branch-d1"):
        _add_router(world, dice, name)
    for name in UPLINK:
        _add_switch(world, dice, name)
    for name, vlan, last in _HOSTS:
        _add_host(world, dice, name, vlan, last)
    for switch in UPLINK:
        _add_things(world, dice, switch)
    for device in world.devices.values():
        for interface in device.interfaces.values():
            if interface.peer:
                interface.packets_in, interface.packets_out = (
                    dice.between(10**6, 9 * 10**8),
                    dice.between(10**6, 9 * 10**8),
                )
    _add_database(world, dice)
    return world


def _mac(dice: Dice) -> str:
    digits = "02" + dice.hexadecimal(10)
    return f"{digits[:4]}.{digits[4:8]}.{digits[8:]}"


def _device(world: World, dice: Dice, name: str, site: str, model: str, version: str) -> Device:
    number = len(world.devices) + 1
    device = Device(
        name=name,
        site=site,
        role="switch" if name.startswith("sw-") else "router",
        model=model,
        version=version,
        serial=f"FDO{dice.between(2210, 2752)}{dice.hexadecimal(4).upper()}",
        management_address=f"10.{SITES[site]}.10.{number}",
        boot_time=START - dice.between(9 * DAY, 290 * DAY),
        ntp_servers=["10.10.201.31", "10.10.201.53"],
    )
    device.log.append(
        (START - dice.between(3000, 90_000), "%SYS-5-CONFIG_I: Configured from console by netops on vty0")
    )
    world.devices[name] = device
    return device


def _add_router(world: World, dice: Dice, name: str) -> None:
    site = {"branch-n1": "pier", "branch-d1": "depot"}.get(name, "quay")
    model, version = ("C8200-1N-4T", "17.09.04a") if name.startswith("branch") else ("C8300-1N1S-6T", "17.12.03")
    router = _device(world, dice, name, site, model, version)
    for number, (left, left_port, right, right_port) in enumerate(LINKS):
        for own, port, peer, peer_port, last in (
            (left, left_port, right, right_port, 1),
            (right, right_port, left, left_port, 2),
        ):
            if own == name:
                router.interfaces[port] = Interface(
                    name=port, mode="routed", description=f"to {peer} {peer_port}", peer=(peer, peer_port),
                    address=f"10.255.0.{4 * number + last}", prefix_length=30, mac=_mac(dice),
                )  # fmt: skip
    for port in (f"GigabitEthernet0/0/{number}" for number in range(4)):
        router.interfaces.setdefault(port, Interface(name=port, mode="routed", admin_up=False, mac=_mac(dice)))
    if name == "edge-1":
        outside = router.interfaces["GigabitEthernet0/0/3"]
        outside.admin_up, outside.peer, outside.description = True, ("isp", "handoff"), "Internet, circuit NL-44871"
        outside.address, outside.prefix_length = "192.0.2.18", 30
        router.static_routes.append((ANYWHERE, 0, "192.0.2.17"))
    if SITE_ROUTER.get(site) == name:
        _add_subinterfaces(router, dice, site)
    router.interfaces = dict(sorted(router.interfaces.items(), key=lambda item: interface_order(item[0])))


def _add_subinterfaces(router: Device, dice: Dice, site: str) -> None:
    parent = router.interfaces["GigabitEthernet0/0/1"]
    switch = next(switch for switch, (_, device, _) in UPLINK.items() if device == router.name)
    parent.admin_up, parent.peer, parent.description = True, (switch, UPLINK[switch][0]), f"trunk to {switch}"
    for vlan in SITE_VLANS[site]:
        name = f"GigabitEthernet0/0/1.{vlan}"
        router.interfaces[name] = Interface(
            name=name, mode="routed", vlan=vlan, address=f"{vlan_subnet(site, vlan)}.1", mac=parent.mac,
            packets_in=dice.between(10**5, 9 * 10**7), packets_out=dice.between(10**5, 9 * 10**7),
            description=f"{VLANS[vlan].lower()} {site}",
        )  # fmt: skip


def _add_switch(world: World, dice: Dice, name: str) -> None:
    site = name.split("-")[1]
    switch = _device(world, dice, name, site, "C9200L-24T-4X", "17.09.05")
    vlans = (10, *SITE_VLANS[site])
    switch.vlans = {vlan: VLANS[vlan] for vlan in vlans}
    for number in range(1, 13):
        port = f"GigabitEthernet1/0/{number}"
        switch.interfaces[port] = Interface(name=port, mode="access", vlan=20, mac=_mac(dice))
    for number in (1, 2):
        port = f"TenGigabitEthernet1/1/{number}"
        switch.interfaces[port] = Interface(
            name=port, mode="trunk", allowed=list(vlans), speed_mbps=10_000, mac=_mac(dice)
        )
    uplink, device, other = UPLINK[name]
    switch.interfaces[uplink].peer = (device, other)
    switch.interfaces[uplink].description = f"uplink {device} {other}"
    if device in world.devices and world.devices[device].role == "switch":
        below = world.devices[device].interfaces[other]
        below.peer, below.description = (name, uplink), f"downlink {name} {uplink}"


def _add_host(world: World, dice: Dice, name: str, vlan: int, last: int) -> None:
    switch = world.devices["sw-quay-1"]
    port = next(item for item in switch.interfaces.values() if item.mode == "access" and item.peer is None)
    port.peer, port.vlan, port.description = (name, "eno1"), vlan, f"server {name} eno1"
    host = Host(
        name=name, site="quay", address=f"{vlan_subnet('quay', vlan)}.{last}", vlan=vlan, mac=_mac(dice),
        kernel="6.1.0-31-amd64", boot_time=START - dice.between(4 * DAY, 160 * DAY),
    )  # fmt: skip
    host.disks = [
        Disk(device="/dev/sda2", mount="/", size_mib=40_000, used_mib=dice.between(9_000, 21_000)),
        Disk(device="/dev/sdb1", mount="/var", size_mib=120_000, used_mib=dice.between(30_000, 70_000)),
    ]
    for unit, description, number, protocol in _units(name):
        host.services[unit] = Service(
            name=unit, description=description, port=number, protocol=protocol,  # type: ignore[arg-type]
            since=host.boot_time + dice.between(8, 40), pid=dice.between(600, 3900),
        )  # fmt: skip
    host.files = _files(name)
    for unit, path in CONFIGS.items():
        if unit in host.services:
            host.services[unit].config, host.services[unit].loaded = path, host.files[path]
    log, lib = dice.between(900, 4000), dice.between(8_000, 20_000)
    host.usage_mib = {
        "/var/log": log,
        "/var/lib": lib,
        "/var/cache": dice.between(100, 900),
        "/var/backups": dice.between(500, 6000),
    }
    world.hosts[name] = host


def _units(name: str) -> list[tuple[str, str, int | None, str]]:
    common: list[tuple[str, str, int | None, str]] = [
        ("ssh", "OpenBSD Secure Shell server", 22, "tcp"),
        ("chrony", "chrony, an NTP client/server", 123, "udp"),
        ("node-exporter", "Prometheus node exporter", 9100, "tcp"),
    ]
    own: dict[str, list[tuple[str, str, int | None, str]]] = {
        "db": [
            ("postgresql", "PostgreSQL RDBMS", 5432, "tcp"),
            ("pgbouncer", "PgBouncer connection pooler", 6432, "tcp"),
        ],
        "app": [("inventory-api", "Inventory REST API", 8080, "tcp")],
        "mon": [("prometheus", "Prometheus monitoring", 9090, "tcp"), ("grafana", "Grafana dashboards", 3000, "tcp")],
        "log": [("rsyslog", "System Logging Service", 514, "udp"), ("loki", "Loki log store", 3100, "tcp")],
        "dns": [("dnsmasq", "dnsmasq DNS and DHCP server", 53, "udp")],
        "proxy": [("nginx", "nginx reverse proxy", 443, "tcp")],
    }
    return common + own[name.split("-")[0]]


def _files(name: str) -> dict[str, str]:
    files = {
        "/etc/hostname": f"{name}.{DOMAIN}\n",
        "/etc/chrony/chrony.conf": "pool 10.10.201.31 iburst\nmakestep 1 3\nrtcsync\n",
    }
    kind = name.split("-")[0]
    if kind == "app":
        files["/etc/inventory-api/config.toml"] = (
            '[http]\nlisten = "0.0.0.0:8080"\nworkers = 4\n\n'
            f'[database]\nhost = "db-1.{DOMAIN}"\nport = 5432\nname = "inventory"\n'
            'user = "inventory_rw"\npool_size = 10\n'
        )
    if kind == "dns":
        records = "".join(
            f"host-record={host}.{DOMAIN},{vlan_subnet('quay', vlan)}.{last}\n" for host, vlan, last in _HOSTS
        )
        files["/etc/dnsmasq.d/records.conf"] = f"domain={DOMAIN}\n{records}"
        files["/etc/dnsmasq.d/dhcp.conf"] = (
            "dhcp-range=set:office,10.10.20.100,10.10.20.199,12h\n"
            "dhcp-range=set:pier,10.20.20.100,10.20.20.199,12h\ndhcp-option=option:ntp-server,10.10.201.31\n"
        )
    if kind == "proxy":
        files["/etc/nginx/sites-enabled/inventory.conf"] = (
            f"upstream inventory {{\n    server app-1.{DOMAIN}:8080;\n    server app-2.{DOMAIN}:8080;\n}}\n"
            f"server {{\n    listen 443 ssl;\n    server_name inventory.{DOMAIN};\n"
            "    location / { proxy_pass http://inventory; proxy_read_timeout 30s; }\n}\n"
        )
    if kind == "db":
        files["/etc/postgresql/16/main/pg_hba.conf"] = (
            "# TYPE  DATABASE     USER          ADDRESS          METHOD\n"
            "local   all          postgres                       peer\n"
            "host    inventory    inventory_rw  10.10.201.0/24   scram-sha-256\n"
            "host    replication  replicator    10.10.202.12/32  scram-sha-256\n"
        )
    return files


def _add_things(world: World, dice: Dice, switch_name: str) -> None:
    switch = world.devices[switch_name]
    kinds = [vlan for vlan in SITE_VLANS[switch.site] if vlan in _THING_KINDS]
    free = [port for port in switch.interfaces.values() if port.mode == "access" and port.peer is None]
    for number, port in enumerate(free[: max(3, len(free) - 3)]):
        vlan = kinds[number % len(kinds)]
        taken = [thing for thing in world.things.values() if thing.site == switch.site and thing.vlan == vlan]
        name = f"{_THING_KINDS[vlan]}-{switch.site[0]}{len(taken) + 1:02d}"
        port.peer, port.vlan, port.description = (name, "eth0"), vlan, f"{VLANS[vlan].lower()} {name}"
        world.things[name] = Thing(
            name=name, kind=_THING_KINDS[vlan], site=switch.site, vlan=vlan, mac=_mac(dice),
            address=f"{vlan_subnet(switch.site, vlan)}.{101 + 7 * len(taken) + dice.below(6)}",
            switch=switch_name, port=port.name,
        )  # fmt: skip
    for port in free:
        if port.peer is None and dice.chance(60):
            port.vlan = dice.pick(kinds)
            port.description = dice.pick(["", "", "spare", "old printer", "meeting room"])


def _add_database(world: World, dice: Dice) -> None:
    database = Database(
        name="inventory",
        primary="db-1",
        replica="db-2",
        wal_position=dice.between(3 * 10**10, 9 * 10**10),
        settings={
            "max_connections": "120",
            "shared_buffers": "4GB",
            "work_mem": "16MB",
            "port": "5432",
            "wal_level": "replica",
            "max_wal_senders": "10",
            "server_version": "16.8",
            "statement_timeout": "0",
            "synchronous_commit": "on",
        },
    )
    database.tables = {
        "devices": _devices_table(world),
        "interfaces": _interfaces_table(world),
        "vlans": _vlans_table(),
        "changes": _changes_table(dice),
    }
    for number, client in enumerate(("10.10.201.21", "10.10.201.21", "10.10.201.22", "10.10.201.31")):
        backend = Backend(
            pid=21_300 + 17 * number + dice.below(9),
            user="monitor" if number == 3 else "inventory_rw",
            client=client,
            state="idle",
            query="COMMIT" if number % 2 else "SELECT 1",
            started=START - dice.between(20, 4000),
        )
        database.backends.append(backend)
    world.database = database


def _devices_table(world: World) -> Table:
    columns = ("id", "name", "site", "role", "model", "serial", "mgmt_ip")
    table = Table(columns={name: {"id": "integer", "mgmt_ip": "inet"}.get(name, "text") for name in columns})
    for number, device in enumerate(world.devices.values(), 1):
        values = (number, device.name, device.site, device.role, device.model, device.serial, device.management_address)
        table.rows.append(dict(zip(columns, values, strict=True)))
    return table


def _interfaces_table(world: World) -> Table:
    types = {"id": "integer", "vlan_id": "integer", "enabled": "boolean"}
    columns = ("id", "device", "name", "description", "vlan_id", "enabled")
    table = Table(columns={name: types.get(name, "text") for name in columns})
    for device in world.devices.values():
        for port in device.interfaces.values():
            vlan = port.vlan if port.mode == "access" or "." in port.name else None
            values = (len(table.rows) + 1001, device.name, port.name, port.description, vlan, port.admin_up)
            table.rows.append(dict(zip(columns, values, strict=True)))
    return table


def _vlans_table() -> Table:
    columns = ("id", "vid", "name", "site", "prefix")
    table = Table(
        columns={name: {"id": "integer", "vid": "integer", "prefix": "inet"}.get(name, "text") for name in columns}
    )
    for site, numbers in SITE_VLANS.items():
        for vid in numbers:
            values = (len(table.rows) + 1, vid, VLANS[vid], site, f"{vlan_subnet(site, vid)}.0/24")
            table.rows.append(dict(zip(columns, values, strict=True)))
    return table


def _changes_table(dice: Dice) -> Table:
    table = Table(columns={"id": "integer", "summary": "text", "status": "text", "opened_at": "timestamp"})
    summaries = ("Replace UPS at pier", "Firmware 17.09.05 on access switches", "Retire guest portal")
    for number, summary in enumerate(summaries):
        opened = iso_time(START - dice.between(2, 40) * DAY)
        table.rows.append(
            {"id": 4101 + number, "summary": summary, "status": dice.pick(["open", "closed"]), "opened_at": opened}
        )
    return table
