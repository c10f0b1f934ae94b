"""Configuration lines of routers and switches: what they accept, and what they change."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from suite.workload.lab.build import interface_order
from suite.workload.lab.model import Device, Interface, World
from suite.workload.lab.network import is_up
from suite.workload.lab.result import Refused
from suite.workload.lab.show import find_interface

MAX_VLAN = 4094


@dataclass(kw_only=True, slots=True)
class _Mode:
    interface: Interface | None = None
    vlan: int | None = None


def run_configure(world: World, device: Device, lines: Sequence[str], *, save: bool) -> str:
    """Apply lines in order; the device stops at the first that it refuses and keeps those before it.

    Raises:
        Refused: with the transcript up to and including the refused line.
    """
    mode = _Mode()
    transcript = ["Enter configuration commands, one per line.  End with CNTL/Z."]
    applied = 0
    before = {name: is_up(world, device, item) for name, item in device.interfaces.items()}
    for line in lines:
        where = "-if" if mode.interface else "-vlan" if mode.vlan else ""
        transcript.append(f"{device.name}(config{where})#{line.strip()}")
        try:
            message = _apply(world, device, mode, line.strip())
        except Refused as refusal:
            _finish(world, device, before, applied)
            note = f"{applied} line{'s' if applied != 1 else ''} applied before the error"
            raise Refused("\n".join([*transcript, str(refusal), note])) from None
        if message:
            transcript.append(message)
        applied += 1
    _finish(world, device, before, applied)
    transcript.append(f"{device.name}(config)#end")
    if save and applied:
        device.unsaved = False
        transcript += [f"{device.name}#write memory", "Building configuration...", "[OK]"]
    return "\n".join(transcript)


def _finish(world: World, device: Device, before: dict[str, bool], applied: int) -> None:
    if not applied:
        return
    device.unsaved = True
    device.log.append((world.now, "%SYS-5-CONFIG_I: Configured from console by agent on vty1 (10.10.201.31)"))
    for name, interface in device.interfaces.items():
        up = is_up(world, device, interface)
        if before.get(name, False) != up:
            state = "up" if up else ("administratively down" if not interface.admin_up else "down")
            device.log.append((world.now + 1, f"%LINK-3-UPDOWN: Interface {name}, changed state to {state}"))


def _apply(world: World, device: Device, mode: _Mode, line: str) -> str:
    words = line.split()
    if not words:
        return ""
    if words[0] in ("end", "exit"):
        mode.interface = mode.vlan = None
        return ""
    if words[0] == "interface":
        mode.vlan, mode.interface = None, _interface(device, words[1:])
        return ""
    if words[0] == "vlan" and device.role == "switch" and len(words) == 2:
        vlan = _vlan(words[1])
        mode.interface, mode.vlan = None, vlan
        device.vlans.setdefault(vlan, f"VLAN{vlan:04d}")
        return ""
    if mode.vlan is not None and words[0] == "name" and len(words) == 2:
        device.vlans[mode.vlan] = words[1]
        return ""
    for prefix, handler in _GLOBAL.items():
        if line.startswith(prefix + " "):
            return handler(device, line[len(prefix) + 1 :].split())
    if mode.interface is not None:
        return _interface_line(device, mode.interface, line, words)
    raise _bad(line)


def _bad(line: str, position: int = 0) -> Refused:
    return Refused(f"{' ' * position}^\n% Invalid input detected at '^' marker.")


def _interface(device: Device, words: list[str]) -> Interface:
    try:
        return find_interface(device, words)
    except Refused:
        name = "".join(words)
        parent, _, tag = name.partition(".")
        # A router makes a subinterface when it is named; a port must exist.
        if device.role != "router" or not tag.isdigit() or parent not in device.interfaces:
            raise
        interface = Interface(name=name, mode="routed", vlan=int(tag), mac=device.interfaces[parent].mac)
        device.interfaces[name] = interface
        device.interfaces = dict(sorted(device.interfaces.items(), key=lambda item: interface_order(item[0])))
        return interface


def _vlan(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MAX_VLAN:
        raise Refused(f"% Invalid VLAN id: {text}")
    return int(text)


def _interface_line(device: Device, interface: Interface, line: str, words: list[str]) -> str:
    negated = words[0] == "no"
    body = words[1:] if negated else words
    text = " ".join(body)
    if body[:1] == ["description"]:
        interface.description = "" if negated else line.partition("description ")[2].strip()
    elif body == ["shutdown"]:
        interface.admin_up = negated
        if not negated:
            interface.error_disabled = ""  # turning a port off and on again clears what the switch held against it
    elif body[:1] == ["duplex"] and len(body) == 2 and body[1] in ("auto", "full", "half"):
        interface.duplex = body[1]  # type: ignore[assignment]
    elif body[:1] == ["mtu"] and len(body) == 2 and body[1].isdigit():
        interface.mtu = int(body[1])
    elif body[:2] == ["ip", "address"] and len(body) == 4 and device.role == "router":
        interface.address, interface.prefix_length = _address(body[2], body[3])
    elif body[:2] == ["encapsulation", "dot1Q"] and len(body) == 3 and "." in interface.name:
        interface.vlan = _vlan(body[2])
    elif body[:1] == ["switchport"] and device.role == "switch":
        return _switchport(device, interface, body[1:], line)
    elif text.startswith("spanning-tree portfast"):
        return ""
    else:
        raise _bad(line)
    return ""


def _switchport(device: Device, interface: Interface, words: list[str], line: str) -> str:
    if words[:1] == ["mode"] and len(words) == 2 and words[1] in ("access", "trunk"):
        interface.mode = words[1]  # type: ignore[assignment]
        return ""
    if words[:2] == ["access", "vlan"] and len(words) == 3:
        vlan = _vlan(words[2])
        interface.vlan = vlan
        if vlan not in device.vlans:
            device.vlans[vlan] = f"VLAN{vlan:04d}"
            return f"% Access VLAN does not exist. Creating vlan {vlan}"
        return ""
    if words[:3] == ["trunk", "allowed", "vlan"] and len(words) in (4, 5):
        if interface.mode != "trunk":
            raise Refused(f"Command rejected: {interface.name} is not a trunk port.")
        change = words[3] if len(words) == 5 else "set"
        vlans = _vlan_list(words[-1])
        if change == "add":
            interface.allowed = sorted({*interface.allowed, *vlans})
        elif change == "remove":
            interface.allowed = [vlan for vlan in interface.allowed if vlan not in vlans]
        elif change == "set":
            interface.allowed = vlans
        else:
            raise _bad(line)
        return ""
    raise _bad(line)


def _vlan_list(text: str) -> list[int]:
    vlans: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        vlans.update(range(_vlan(low), _vlan(high or low) + 1))
    return sorted(vlans)


def _address(address: str, mask: str) -> tuple[str, int]:
    try:
        network = ipaddress.IPv4Network(f"{address}/{mask}", strict=False)
    except ValueError:
        raise Refused(f"% Invalid address or mask: {address} {mask}") from None
    return address, network.prefixlen


def _route(device: Device, words: list[str]) -> str:
    entry = _route_entry(words)
    if entry not in device.static_routes:
        device.static_routes.append(entry)
    return ""


def _no_route(device: Device, words: list[str]) -> str:
    entry = _route_entry(words)
    if entry not in device.static_routes:
        raise Refused("%No matching route to delete")
    device.static_routes.remove(entry)
    return ""


def _route_entry(words: list[str]) -> tuple[str, int, str]:
    if len(words) != 3:
        raise Refused("% Incomplete command.")
    address, length = _address(words[0], words[1])
    return address, length, _address(words[2], "255.255.255.255")[0]


def _ntp(device: Device, words: list[str]) -> str:
    server = _address(words[0], "255.255.255.255")[0]
    if server not in device.ntp_servers:
        device.ntp_servers.append(server)
    return ""


def _no_ntp(device: Device, words: list[str]) -> str:
    if words[0] in device.ntp_servers:
        device.ntp_servers.remove(words[0])
    return ""


def _no_vlan(device: Device, words: list[str]) -> str:
    device.vlans.pop(_vlan(words[0]), None)
    return ""


_GLOBAL: dict[str, Callable[[Device, list[str]], str]] = {
    "ip route": _route,
    "no ip route": _no_route,
    "ntp server": _ntp,
    "no ntp server": _no_ntp,
    "no vlan": _no_vlan,
}
