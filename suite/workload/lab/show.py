"""Read commands of routers and switches."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from suite.workload.lab.build import UPLINK
from suite.workload.lab.clock import device_clock, device_time, duration
from suite.workload.lab.model import Device, Interface, World
from suite.workload.lab.network import (
    answers_gateway,
    hops,
    is_learnt,
    is_up,
    lookup,
    neighbours,
    routes,
    stations,
    switch_path,
)
from suite.workload.lab.result import Refused

_SHORT = {"GigabitEthernet": "Gi", "TenGigabitEthernet": "Te"}
Handler = Callable[[World, Device, list[str]], str]


def run_show(world: World, device: Device, command: str) -> str:
    """Answer one command, with `| include TEXT` at its end if wanted.

    Raises:
        Refused: the device's own error text.
    """
    body, _, filters = command.partition("|")
    words = body.split()
    if not words:
        raise Refused("% Incomplete command.")
    output = _dispatch(world, device, command, words)
    if filters.strip():
        kind, _, needle = filters.strip().partition(" ")
        if kind not in ("include", "i", "inc", "exclude") or not needle.strip():
            raise _invalid(device, command, command.index("|") + 2)
        keep = kind != "exclude"
        alternatives = [item.lower() for item in needle.strip().split("|")]
        output = "\n".join(
            line for line in output.splitlines() if any(item in line.lower() for item in alternatives) is keep
        )
    return output


def _dispatch(world: World, device: Device, command: str, words: list[str]) -> str:
    best = 0
    for pattern, handler, roles in COMMANDS:
        if device.role not in roles:
            continue
        matched = _match(pattern, words)
        if matched == len(pattern):
            return handler(world, device, words[len(pattern) :])
        if matched == len(words):
            raise Refused("% Incomplete command.")
        best = max(best, matched)
    position = sum(len(word) + 1 for word in words[:best])
    raise _invalid(device, command, position)


def _match(pattern: tuple[str, ...], words: list[str]) -> int:
    count = 0
    for keyword, word in zip(pattern, words, strict=False):
        if not keyword.startswith(word.lower()) or len(word) < min(2, len(keyword)):
            break
        count += 1
    return count


def _invalid(device: Device, command: str, position: int) -> Refused:
    prompt = f"{device.name}#"
    return Refused(f"{prompt}{command}\n{' ' * (len(prompt) + position)}^\n% Invalid input detected at '^' marker.")


def find_interface(device: Device, words: list[str]) -> Interface:
    """The interface that the words name, in full or short (`Gi0/0/1.201`, `gigabitethernet 0/0/1`).

    Raises:
        Refused: it does not exist.
    """
    if not words:
        raise Refused("% Incomplete command.")
    name = "".join(words)
    digits = next((index for index, character in enumerate(name) if character.isdigit()), len(name))
    kind, number = name[:digits].lower(), name[digits:]
    for interface in device.interfaces.values():
        split = next(index for index, character in enumerate(interface.name) if character.isdigit())
        if kind and interface.name[:split].lower().startswith(kind) and interface.name[split:] == number:
            return interface
    raise Refused(f"% Invalid interface: {name} does not exist on {device.name}")


def short_name(name: str) -> str:
    """`Gi0/0/1` for `GigabitEthernet0/0/1`."""
    for long, short in _SHORT.items():
        if name.startswith(long):
            return short + name[len(long) :]
    return name


def _status(world: World, device: Device, interface: Interface) -> tuple[str, str]:
    if not interface.admin_up:
        return "administratively down", "down"
    up = is_up(world, device, interface)
    return ("up", "up") if up else ("down", "down")


def _version(world: World, device: Device, rest: list[str]) -> str:
    return (
        f"Cisco IOS XE Software, Version {device.version}\n"
        f"{device.name} uptime is {duration(world.now - device.boot_time)}\n"
        'System image file is "bootflash:packages.conf"\n'
        f"Model Number                       : {device.model}\n"
        f"System Serial Number               : {device.serial}\n"
        "Configuration register is 0x102"
    )


def _clock(world: World, device: Device, rest: list[str]) -> str:
    return device_clock(world.now)


def _running(world: World, device: Device, rest: list[str]) -> str:
    lines = interface_config(device, find_interface(device, rest))
    text = "\n".join(lines)
    return f"Building configuration...\n\nCurrent configuration : {len(text) + 5} bytes\n!\n{text}\nend"


def interface_config(device: Device, interface: Interface) -> list[str]:
    """The interface's part of the running configuration."""
    lines = [f"interface {interface.name}"]
    if interface.description:
        lines.append(f" description {interface.description}")
    if "." in interface.name:
        lines.append(f" encapsulation dot1Q {interface.vlan}")
    if interface.mode == "access":
        lines += [f" switchport access vlan {interface.vlan}", " switchport mode access", " spanning-tree portfast"]
    elif interface.mode == "trunk":
        lines += [f" switchport trunk allowed vlan {vlan_ranges(interface.allowed)}", " switchport mode trunk"]
    elif interface.address:
        lines.append(f" ip address {interface.address} {_mask(interface.prefix_length)}")
    else:
        lines.append(" no ip address")
    if interface.duplex != "auto":
        lines.append(f" duplex {interface.duplex}")
    if interface.mtu != 1500:
        lines.append(f" mtu {interface.mtu}")
    if not interface.admin_up:
        lines.append(" shutdown")
    return lines


def _mask(length: int) -> str:
    return str(ipaddress.IPv4Network(f"0.0.0.0/{length}").netmask)


def vlan_ranges(vlans: list[int]) -> str:
    """`10,20-22,40`."""
    parts: list[list[int]] = []
    for vlan in sorted(vlans):
        if parts and parts[-1][1] == vlan - 1:
            parts[-1][1] = vlan
        else:
            parts.append([vlan, vlan])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts) or "none"


def _interfaces(world: World, device: Device, rest: list[str]) -> str:
    interface = find_interface(device, rest)
    line, protocol = _status(world, device, interface)
    hardware = "BUILT-IN-4x1GE" if device.role == "router" else "Gigabit Ethernet"
    suffix = " (connected)" if device.role == "switch" and line == "up" else ""
    if interface.error_disabled:
        suffix = " (err-disabled)"
    speed = f"{interface.speed_mbps}Mb/s" if interface.speed_mbps < 10_000 else "10Gb/s"
    duplex = {"auto": "Full-duplex", "full": "Full-duplex", "half": "Half-duplex"}[interface.duplex]
    lines = [
        f"{interface.name} is {line}, line protocol is {protocol}{suffix}",
        f"  Hardware is {hardware}, address is {interface.mac}",
    ]
    if interface.description:
        lines.append(f"  Description: {interface.description}")
    if interface.address:
        lines.append(f"  Internet address is {interface.address}/{interface.prefix_length}")
    if "." in interface.name:
        lines.append(f"  Encapsulation 802.1Q Virtual LAN, Vlan ID  {interface.vlan}.")
    lines += [
        f"  MTU {interface.mtu} bytes, BW {interface.speed_mbps * 1000} Kbit/sec, DLY 10 usec,",
        f"  {duplex}, {speed}, media type is {'RJ45' if interface.speed_mbps < 10_000 else 'SFP-10GBase-SR'}",
        f"     {interface.packets_in} packets input, {interface.packets_in * 611} bytes, 0 no buffer",
        f"     {interface.crc_errors} input errors, {interface.crc_errors} CRC, 0 frame, 0 overrun, 0 ignored",
        f"     {interface.packets_out} packets output, {interface.packets_out * 587} bytes, 0 underruns",
    ]
    return "\n".join(lines)


def _descriptions(world: World, device: Device, rest: list[str]) -> str:
    lines = ["Interface                      Status         Protocol Description"]
    for interface in device.interfaces.values():
        line, protocol = _status(world, device, interface)
        status = "admin down" if line.startswith("admin") else line
        lines.append(f"{short_name(interface.name):<31}{status:<15}{protocol:<9}{interface.description}".rstrip())
    return "\n".join(lines)


def _brief(world: World, device: Device, rest: list[str]) -> str:
    lines = ["Interface                  IP-Address      OK? Method Status                Protocol"]
    for interface in device.interfaces.values():
        line, protocol = _status(world, device, interface)
        address = interface.address or "unassigned"
        method = "NVRAM" if interface.address else "unset"
        lines.append(f"{interface.name:<27}{address:<16}YES {method:<7}{line:<22}{protocol}")
    return "\n".join(lines)


def _route(world: World, device: Device, rest: list[str]) -> str:
    if rest:
        address = _address(device, f"show ip route {rest[0]}", rest[0].split("/")[0])
        route = lookup(world, device, address)
        if route is None:
            return "% Network not in table"
        known = {"C": "connected", "S": "static", "O": 'ospf 1"'}[route.code].rstrip('"')
        distance = {"C": 0, "S": 1, "O": 110}[route.code]
        via = f"{route.next_hop}" if route.next_hop else f"directly connected, via {route.interface}"
        return (
            f"Routing entry for {route.network}\n"
            f'  Known via "{known}", distance {distance}, metric {route.cost if route.code == "O" else 0}\n'
            f"  Routing Descriptor Blocks:\n  * {via}{f', via {route.interface}' if route.code == 'O' else ''}"
        )
    lines = ["Codes: C - connected, S - static, O - OSPF", ""]
    for route in routes(world, device):
        star = "*" if route.network.prefixlen == 0 else " "
        if route.next_hop is None:
            lines.append(f"{route.code}        {route.network} is directly connected, {route.interface}")
        elif route.code == "S":
            lines.append(f"S{star}       {route.network} [1/0] via {route.next_hop}")
        else:
            lines.append(f"O{star}       {route.network} [110/{route.cost}] via {route.next_hop}, {route.interface}")
    return "\n".join(lines)


def _address(device: Device, command: str, text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise _invalid(device, command, command.rindex(text) if text in command else 0) from None


def _arp(world: World, device: Device, rest: list[str]) -> str:
    lines = ["Protocol  Address          Age (min)  Hardware Addr   Type   Interface"]
    rows: list[tuple[str, str, str, str]] = []
    for interface in device.interfaces.values():
        if not interface.address or not is_up(world, device, interface):
            continue
        rows.append((interface.address, "-", interface.mac, interface.name))
        network = ipaddress.IPv4Network(f"{interface.address}/{interface.prefix_length}", strict=False)
        for item in stations(world):
            if ipaddress.IPv4Address(item.address) in network and answers_gateway(world, item):
                age = str(1 + (int(item.mac[-2:], 16) + world.now // 60) % 18)
                rows.append((item.address, age, item.mac, interface.name))
    for address, age, mac, name in rows:
        if not rest or rest[0] in (address, name):
            lines.append(f"Internet  {address:<17}{age:>9}  {mac}  ARPA   {name}")
    return "\n".join(lines)


def _ospf(world: World, device: Device, rest: list[str]) -> str:
    lines = ["Neighbor ID     Pri   State           Dead Time   Address         Interface"]
    for near, other, far in neighbours(world, device):
        dead = 30 + (world.now + len(near.name)) % 10
        lines.append(
            f"{other.management_address:<16}  1   FULL/  -        00:00:{dead}    {far.address or '':<16}{near.name}"
        )
    return "\n".join(lines)


def _logging(world: World, device: Device, rest: list[str]) -> str:
    count = 8
    if rest and rest[0] == "last":
        rest = rest[1:]
    if rest:
        if not rest[0].isdigit():
            raise Refused("% Invalid input detected: show logging last takes a number")
        count = int(rest[0])
    lines = [f"*{device_time(when)}: {text}" for when, text in device.log[-count:]]
    return "\n".join(["Syslog logging: enabled (0 messages dropped, 0 flushes)", *lines])


def _ntp(world: World, device: Device, rest: list[str]) -> str:
    lines = ["  address         ref clock       st   when   poll reach  delay  offset   disp"]
    for index, server in enumerate(device.ntp_servers):
        alive = any(
            host.address == server and host.services["chrony"].state == "active" for host in world.hosts.values()
        )
        mark, reach = ("*~" if index == 0 else "+~", "377") if alive else (" ~", "  0")
        clock = f"{'.GPS.' if alive else '.INIT.':<16}{1 if alive else 16:>2}"
        lines.append(f"{mark}{server:<16}{clock}     31     64   {reach}  0.812   0.104  0.061")
    return "\n".join(lines)


def _vlan_brief(world: World, device: Device, rest: list[str]) -> str:
    lines = [
        "VLAN Name                             Status    Ports",
        "---- -------------------------------- --------- " + "-" * 31,
    ]
    for vlan, name in sorted(device.vlans.items()):
        ports = [short_name(i.name) for i in device.interfaces.values() if i.mode == "access" and i.vlan == vlan]
        rows = [", ".join(ports[start : start + 4]) for start in range(0, len(ports), 4)] or [""]
        lines.append(f"{vlan:<5}{name:<33}{'active':<10}{rows[0]}".rstrip())
        lines += [" " * 48 + row for row in rows[1:]]
    return "\n".join(lines)


def _port_status(world: World, device: Device, rest: list[str]) -> str:
    lines = ["Port         Name               Status       Vlan       Duplex  Speed Type"]
    for interface in device.interfaces.values():
        if interface.error_disabled:
            status = "err-disabled"
        elif not interface.admin_up:
            status = "disabled"
        else:
            status = "connected" if is_up(world, device, interface) else "notconnect"
        vlan = "trunk" if interface.mode == "trunk" else str(interface.vlan)
        up = status == "connected"
        duplex = interface.duplex if interface.duplex != "auto" else ("a-full" if up else "auto")
        speed = f"a-{interface.speed_mbps}" if up and interface.speed_mbps < 10_000 else "10G" if up else "auto"
        kind = "10/100/1000BaseTX" if interface.speed_mbps < 10_000 else "SFP-10GBase-SR"
        name = f"{short_name(interface.name):<13}{interface.description[:18]:<19}"
        lines.append(f"{name}{status:<13}{vlan:<11}{duplex:>6}  {speed:>5} {kind}")
    return "\n".join(lines)


def _trunk(world: World, device: Device, rest: list[str]) -> str:
    trunks = [i for i in device.interfaces.values() if i.mode == "trunk" and is_up(world, device, i)]
    lines = ["Port        Mode             Encapsulation  Status        Native vlan"]
    lines += [f"{short_name(i.name):<12}on               802.1q         trunking      1" for i in trunks]
    lines += ["", "Port        Vlans allowed on trunk"]
    lines += [f"{short_name(i.name):<12}{vlan_ranges(i.allowed)}" for i in trunks]
    lines += ["", "Port        Vlans allowed and active in management domain"]
    lines += [f"{short_name(i.name):<12}{vlan_ranges([v for v in i.allowed if v in device.vlans])}" for i in trunks]
    return "\n".join(lines)


def _mac_table(world: World, device: Device, rest: list[str]) -> str:
    rows = []
    for item in stations(world):
        for switch, port in switch_path(world, item):
            if switch is device and is_learnt(world, item, device):
                rows.append((switch_path(world, item)[0][1].vlan, item.mac, short_name(port.name)))
    if len(rest) >= 2:
        kind, value = rest[0].lower(), "".join(rest[1:])
        if "address".startswith(kind):
            rows = [row for row in rows if row[1] == value.lower()]
        elif "vlan".startswith(kind):
            rows = [row for row in rows if str(row[0]) == value]
        elif "interface".startswith(kind):
            name = short_name(find_interface(device, rest[1:]).name)
            rows = [row for row in rows if row[2] == name]
        else:
            raise Refused(f"% Invalid input detected: mac address-table {rest[0]}")
    lines = [
        "          Mac Address Table",
        "-" * 43,
        "",
        "Vlan    Mac Address       Type        Ports",
        "----    -----------       --------    -----",
    ]
    lines += [f"{vlan:>4}    {mac}    DYNAMIC     {port}" for vlan, mac, port in sorted(rows)]
    return "\n".join([*lines, f"Total Mac Addresses for this criterion: {len(rows)}"])


def _lldp(world: World, device: Device, rest: list[str]) -> str:
    lines = ["Device ID           Local Intf     Hold-time  Capability      Port ID"]
    for interface in device.interfaces.values():
        peer = interface.peer
        if peer and is_up(world, device, interface) and (peer[0] in world.devices or peer[0] in world.hosts):
            role = world.devices[peer[0]].role if peer[0] in world.devices else "station"
            mark = {"router": "R", "switch": "B", "station": "S"}[role]
            lines.append(f"{peer[0]:<20}{short_name(interface.name):<15}120        {mark:<16}{short_name(peer[1])}")
    return "\n".join([*lines, "", f"Total entries displayed: {len(lines) - 1}"])


def _ping(world: World, device: Device, rest: list[str]) -> str:
    if not rest:
        raise Refused("% Incomplete command.")
    address = _address(device, f"ping {rest[0]}", rest[0])
    if device.role == "switch":
        router = world.devices[
            next(
                d
                for s, (_, d, _) in UPLINK.items()
                if world.devices[d].role == "router" and world.devices[d].site == device.site
            )
        ]
        reached = hops(world, router, address)[1]
    else:
        reached = hops(world, device, address)[1]
    marks, percent, count = ("!!!!!", 100, 5) if reached else (".....", 0, 0)
    tail = ", round-trip min/avg/max = 1/2/4 ms" if reached else ""
    return (
        "Type escape sequence to abort.\n"
        f"Sending 5, 100-byte ICMP Echos to {address}, timeout is 2 seconds:\n{marks}\n"
        f"Success rate is {percent} percent ({count}/5){tail}"
    )


def _traceroute(world: World, device: Device, rest: list[str]) -> str:
    if not rest:
        raise Refused("% Incomplete command.")
    address = _address(device, f"traceroute {rest[0]}", rest[0])
    path, reached = hops(world, device, address)
    lines = ["Type escape sequence to abort.", f"Tracing the route to {address}"]
    lines += [f"  {number} {hop} {number} msec {number + 1} msec {number} msec" for number, hop in enumerate(path, 1)]
    if not reached:
        lines += [f"  {number} *  *  * " for number in range(len(path) + 1, len(path) + 4)]
    return "\n".join(lines)


_ROUTER, _SWITCH, _BOTH = ("router",), ("switch",), ("router", "switch")
COMMANDS: tuple[tuple[tuple[str, ...], Handler, tuple[str, ...]], ...] = (
    (("show", "version"), _version, _BOTH),
    (("show", "clock"), _clock, _BOTH),
    (("show", "running-config", "interface"), _running, _BOTH),
    (("show", "interfaces", "description"), _descriptions, _BOTH),
    (("show", "interfaces", "status"), _port_status, _SWITCH),
    (("show", "interfaces", "trunk"), _trunk, _SWITCH),
    (("show", "interfaces"), _interfaces, _BOTH),
    (("show", "ip", "interface", "brief"), _brief, _ROUTER),
    (("show", "ip", "route"), _route, _ROUTER),
    (("show", "ip", "ospf", "neighbor"), _ospf, _ROUTER),
    (("show", "ip", "arp"), _arp, _ROUTER),
    (("show", "arp"), _arp, _ROUTER),
    (("show", "logging"), _logging, _BOTH),
    (("show", "ntp", "associations"), _ntp, _BOTH),
    (("show", "vlan", "brief"), _vlan_brief, _SWITCH),
    (("show", "mac", "address-table"), _mac_table, _SWITCH),
    (("show", "lldp", "neighbors"), _lldp, _BOTH),
    (("ping",), _ping, _BOTH),
    (("traceroute",), _traceroute, _ROUTER),
)
