"""What follows from the state of the devices: which links are up, which routes exist, who reaches whom."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from suite.workload.lab.build import SITE_ROUTER, UPLINK, vlan_subnet
from suite.workload.lab.model import Device, Host, Interface, Thing, World

MAX_HOPS = 12
PRIVATE = tuple(ipaddress.IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One line of a routing table."""

    code: str
    """`C` connected, `S` static, `O` OSPF."""
    network: ipaddress.IPv4Network
    next_hop: str | None
    interface: str | None
    cost: int = 0


def is_up(world: World, device: Device, interface: Interface) -> bool:
    """Line protocol of an interface: enabled on both ends of its cable."""
    if "." in interface.name:
        parent = device.interfaces[interface.name.split(".")[0]]
        return interface.admin_up and is_up(world, device, parent)
    if not interface.admin_up or interface.error_disabled or interface.peer is None:
        return False
    other = world.devices.get(interface.peer[0])
    if other is None:
        return True
    far = other.interfaces[interface.peer[1]]
    return far.admin_up and not far.error_disabled


def connected(world: World, router: Device) -> Iterator[tuple[Interface, ipaddress.IPv4Network]]:
    """Routed interfaces that are up, with their networks."""
    for interface in router.interfaces.values():
        if interface.address and is_up(world, router, interface):
            yield interface, ipaddress.ip_network(f"{interface.address}/{interface.prefix_length}", strict=False)  # type: ignore[misc]


def neighbours(world: World, router: Device) -> list[tuple[Interface, Device, Interface]]:
    """OSPF neighbours: routers at the other end of links that are up."""
    found = []
    for interface in router.interfaces.values():
        other = world.devices.get(interface.peer[0]) if interface.peer else None
        if other is not None and other.role == "router" and is_up(world, router, interface):
            assert interface.peer is not None
            found.append((interface, other, other.interfaces[interface.peer[1]]))
    return found


def routes(world: World, router: Device) -> list[Route]:
    """The routing table: connected, then static, then what OSPF finds by the fewest hops."""
    table = [
        Route(code="C", network=network, next_hop=None, interface=interface.name)
        for interface, network in connected(world, router)
    ]
    for address, length, next_hop in router.static_routes:
        network = ipaddress.IPv4Network(f"{address}/{length}")
        if any(ipaddress.IPv4Address(next_hop) in route.network for route in table if route.code == "C"):
            table.append(Route(code="S", network=network, next_hop=next_hop, interface=None, cost=1))
    known = {route.network for route in table}
    queue = [(near, other, far, 1) for near, other, far in neighbours(world, router)]
    seen = {router.name}
    while queue:
        near, other, far, hops = queue.pop(0)
        if other.name in seen:
            continue
        seen.add(other.name)
        offered = [network for _, network in connected(world, other)]
        offered += [
            ipaddress.IPv4Network((a, length)) for a, length, _ in other.static_routes if length == 0
        ]  # fmt: skip
        for network in offered:
            if network not in known:
                known.add(network)
                table.append(Route(code="O", network=network, next_hop=far.address, interface=near.name, cost=hops + 1))
        for _, third, entry in neighbours(world, other):
            queue.append((near, third, _with_hop(entry, far), hops + 1))
    return sorted(table, key=lambda route: (int(route.network.network_address), route.network.prefixlen))


def _with_hop(entry: Interface, far: Interface) -> Interface:
    # Routes learnt further away keep the first hop's address as next hop.
    return far if far.address else entry


def lookup(world: World, router: Device, address: str) -> Route | None:
    """Longest match, then the order connected, static, OSPF."""
    target = ipaddress.IPv4Address(address)
    matching = [route for route in routes(world, router) if target in route.network]
    order = {"C": 0, "S": 1, "O": 2}
    return min(matching, key=lambda route: (-route.network.prefixlen, order[route.code]), default=None)


def owner(world: World, address: str) -> Device | None:
    """The device that has this address on an interface or for management."""
    for device in world.devices.values():
        if address == device.management_address or any(i.address == address for i in device.interfaces.values()):
            return device
    return None


def station(world: World, address: str) -> Host | Thing | None:
    """The host or thing that has this address."""
    return next((item for item in stations(world) if item.address == address), None)


def stations(world: World) -> list[Host | Thing]:
    """Everything that sits on an access port."""
    return [*world.hosts.values(), *world.things.values()]


def attachment(world: World, item: Host | Thing) -> tuple[Device, Interface]:
    """Switch and port of a host or thing."""
    for device in world.devices.values():
        for interface in device.interfaces.values():
            if interface.peer and interface.peer[0] == item.name:
                return device, interface
    raise AssertionError(f"{item.name} is not attached")


def switch_path(world: World, item: Host | Thing) -> list[tuple[Device, Interface]]:
    """Switches from a station towards its router, each with the port on which it is seen."""
    switch, port = attachment(world, item)
    path = [(switch, port)]
    while True:
        _, device, other = UPLINK[switch.name]
        if device not in world.devices or world.devices[device].role == "router":
            return path
        switch = world.devices[device]
        path.append((switch, switch.interfaces[other]))


def is_learnt(world: World, item: Host | Thing, switch: Device) -> bool:
    """Whether the station's frames reach `switch`: its port is up, and every trunk on the way carries its VLAN."""
    vlan = attachment(world, item)[1].vlan
    for device, port in switch_path(world, item):
        if not is_up(world, device, port) or vlan not in device.vlans:
            return False
        if port.mode == "trunk" and vlan not in port.allowed:
            return False
        if device is switch:
            return True
        uplink = device.interfaces[UPLINK[device.name][0]]
        if vlan not in uplink.allowed or not is_up(world, device, uplink):
            return False
    return False


def answers_gateway(world: World, item: Host | Thing) -> bool:
    """Whether a station and the router of its VLAN can talk: right VLAN all the way, subinterface up."""
    path = switch_path(world, item)
    top = path[-1][0]
    if not is_learnt(world, item, top) or path[0][1].vlan != item.vlan:
        return False
    uplink = top.interfaces[UPLINK[top.name][0]]
    if item.vlan not in uplink.allowed or not is_up(world, top, uplink):
        return False
    router = world.devices[SITE_ROUTER[item.site]]
    gateway = f"{vlan_subnet(item.site, item.vlan)}.1"
    return any(
        i.address == gateway and i.vlan == item.vlan and is_up(world, router, i) for i in router.interfaces.values()
    )


def hops(world: World, router: Device, address: str) -> tuple[list[str], bool]:
    """Addresses that a traceroute from `router` shows, and whether the target answers."""
    seen: list[str] = []
    current = router
    for _ in range(MAX_HOPS):
        if any(i.address == address and is_up(world, current, i) for i in current.interfaces.values()):
            return [*seen, address] if not seen or seen[-1] != address else seen, True
        if address == current.management_address:
            return [*seen, address], True
        route = lookup(world, current, address)
        if route is None:
            return seen, False
        if route.next_hop is None:
            item = station(world, address)
            device = owner(world, address)
            if device is not None and device is not current and any(
                i.address == address and is_up(world, device, i) for i in device.interfaces.values()
            ):  # fmt: skip
                return [*seen, address], True
            return ([*seen, address], True) if item and answers_gateway(world, item) else (seen, False)
        seen.append(route.next_hop)
        if route.next_hop == "192.0.2.17":
            inside = any(ipaddress.IPv4Address(address) in network for network in PRIVATE)
            return (seen, False) if inside else ([*seen, address], True)
        following = owner(world, route.next_hop)
        if following is None or following.name in {current.name}:
            return seen, False
        current = following
    return seen, False


def host_reaches(world: World, host: Host, address: str) -> bool:
    """Whether packets from a host arrive at an address and come back."""
    if not answers_gateway(world, host):
        return False
    item = station(world, address)
    if item is host:
        return True
    if item is not None and item.site == host.site and item.vlan == host.vlan:
        return answers_gateway(world, item)
    return hops(world, world.devices[SITE_ROUTER[host.site]], address)[1]
