"""Short questions, each answered with one or two calls."""

from __future__ import annotations

from suite.workload.lab.build import SITE_ROUTER, SITE_VLANS, VLANS, vlan_subnet
from suite.workload.lab.clock import duration
from suite.workload.lab.linux import resolve
from suite.workload.lab.network import answers_gateway, neighbours
from suite.workload.lab.scene import Scene, shell, show, sql


def ask_uptime(scene: Scene) -> None:
    """Software version and uptime of a device."""
    device = scene.world.devices[scene.dice.pick(list(scene.world.devices))]
    scene.user(
        scene.pick(
            f"Which software runs on {device.name}, and how long has it been up?",
            f"{device.name}: version and uptime?",
            f"When did {device.name} last reboot, roughly?",
        )
    )
    scene.act(show(device.name, "show version"), keep=[device.name])
    scene.say(
        f"{device.name} ({device.model}) runs IOS XE {device.version} and has been up for "
        f"{duration(scene.world.now - device.boot_time)}.",
        keep=[device.version],
    )


def ask_listen(scene: Scene) -> None:
    """What listens on a host."""
    host = scene.world.hosts[scene.dice.pick(list(scene.world.hosts))]
    scene.user(
        scene.pick(f"What listens on {host.name}?", f"Which TCP ports are open on {host.name} ({host.address})?")
    )
    scene.act(shell(host.name, "ss -ltnp"), keep=[host.name])
    open_ports = sorted(
        (s.port, s.name) for s in host.services.values() if s.port and s.protocol == "tcp" and s.state == "active"
    )
    listed = ", ".join(f"{port} ({name})" for port, name in open_ports)
    scene.say(f"On {host.name}: {listed}.", keep=[str(port) for port, _ in open_ports])


def ask_setting(scene: Scene) -> None:
    """A database setting."""
    name = scene.pick("max_connections", "shared_buffers", "work_mem", "wal_level", "max_wal_senders", "server_version")
    value = scene.world.database.settings[name]
    scene.user(scene.pick(f"What is {name} set to on db-1?", f"{name} on the inventory database?"))
    scene.act(sql(f"SHOW {name}"), keep=[name])
    scene.say(scene.pick(f"{name} is {value}.", f"`{name} = {value}` on db-1."), keep=[value])


def ask_lookup(scene: Scene) -> None:
    """The address of a host, from the name server."""
    host = scene.world.hosts[scene.dice.pick(list(scene.world.hosts))]
    name = f"{host.name}.harbour.example"
    scene.user(scene.pick(f"What does {name} resolve to?", f"Address of {host.name}?"))
    scene.act(shell("dns-1", f"dig +short {name}"), keep=[name])
    answer = resolve(scene.world, host.name)
    scene.say(f"{name} is {answer}." if answer else f"The name server has no record for {name}.", keep=[name])


def ask_vlan(scene: Scene) -> None:
    """Which ports are in a VLAN."""
    switch = scene.world.devices[scene.pick("sw-quay-1", "sw-quay-2", "sw-pier-1", "sw-pier-2", "sw-depot-1")]
    vlan = scene.dice.pick(SITE_VLANS[switch.site])
    ports = [port.name for port in switch.interfaces.values() if port.mode == "access" and port.vlan == vlan]
    scene.user(f"How many access ports does VLAN {vlan} have on {switch.name}?")
    scene.act(show(switch.name, "show vlan brief"), keep=[switch.name])
    name = switch.vlans.get(vlan, VLANS[vlan])
    tail = f": {', '.join(ports)}" if ports else ""
    scene.say(f"{len(ports)} in VLAN {vlan} ({name}) on {switch.name}{tail}.", keep=ports)


def ask_gateway(scene: Scene) -> None:
    """The state of a gateway."""
    site = scene.pick("quay", "pier", "depot")
    vlan = scene.dice.pick(SITE_VLANS[site])
    router, gateway = SITE_ROUTER[site], f"{vlan_subnet(site, vlan)}.1"
    scene.user(
        scene.pick(
            f"Is the {VLANS[vlan].lower()} gateway at {site} up?",
            f"Gateway of VLAN {vlan} at {site}: where, and is it up?",
        )
    )
    scene.act(show(router, f"show ip interface brief | include 0/0/1.{vlan} "), keep=[router])
    scene.say(
        f"Yes: {gateway} on {router} GigabitEthernet0/0/1.{vlan}, up/up.",
        keep=[gateway, f"GigabitEthernet0/0/1.{vlan}"],
    )


def ask_clock(scene: Scene) -> None:
    """Clocks of two devices."""
    first, second = scene.dice.sample(list(scene.world.devices), 2)
    scene.user(scene.pick(f"Do {first} and {second} agree on the time?", f"Clock check {first} / {second} please."))
    scene.act(show(first, "show clock"), show(second, "show clock"))
    scene.say("They agree; the few seconds between the two answers are the time between my calls.")


def ask_neighbours(scene: Scene) -> None:
    """OSPF neighbours of a router."""
    router = scene.world.devices[scene.pick("edge-1", "core-1", "core-2", "branch-n1", "branch-d1")]
    scene.user(
        scene.pick(f"OSPF neighbours of {router.name}?", f"Which adjacencies does {router.name} have right now?")
    )
    scene.act(show(router.name, "show ip ospf neighbor"), keep=[router.name])
    found = neighbours(scene.world, router)
    listed = ", ".join(f"{other.name} on {near.name}" for near, other, _ in found)
    scene.say(f"{len(found)}, all FULL: {listed}." if found else "None.", keep=[near.name for near, _, _ in found])


def ask_port(scene: Scene) -> None:
    """Where a thing is connected."""
    item = scene.dice.pick(list(scene.world.things.values()))
    scene.user(scene.pick(f"Where is {item.name} connected?", f"Port of {item.name}?"))
    scene.act(show(item.switch, f"show interfaces status | include {item.name}"), keep=[item.name])
    scene.say(f"{item.name} is on {item.switch} {item.port}.", keep=[item.port])


def ask_arp(scene: Scene) -> None:
    """The MAC behind an address."""
    found = [item for item in scene.world.things.values() if answers_gateway(scene.world, item)]
    item = scene.dice.pick(found)
    router = SITE_ROUTER[item.site]
    scene.user(scene.pick(f"MAC address of {item.address}?", f"Which MAC answers for {item.address} on {router}?"))
    scene.act(show(router, f"show ip arp {item.address}"), keep=[item.address])
    scene.say(f"{item.address} is {item.mac}.", keep=[item.address, item.mac])


def ask_disk(scene: Scene) -> None:
    """Free space on a host."""
    host = scene.world.hosts[scene.dice.pick(list(scene.world.hosts))]
    scene.user(scene.pick(f"How full is {host.name}?", f"Enough space left on {host.name} for a 20G dump in /var?"))
    scene.act(shell(host.name, "df -h"), keep=[host.name])
    var = next(disk for disk in host.disks if disk.mount == "/var")
    free = (var.size_mib - var.used_mib) / 1024
    scene.say(
        f"/var on {host.name} is {100 * var.used_mib // var.size_mib} % full with {free:.1f}G free"
        + (", so a 20G dump fits." if free > 25 else ", which is tight for a dump.")
    )


def ask_thanks(scene: Scene) -> None:
    """A closing word."""
    scene.user(scene.pick("Thanks, that's all for now.", "Great, thanks.", "Perfect. Back in a bit.", "OK, noted."))
    scene.say(
        scene.pick(
            "You're welcome. All changes made so far are saved on the devices.",
            "Glad it works. I leave everything as it is now.",
            "Good. Nothing is left open on my side.",
        )
    )
