"""Scenarios on the switches."""
# Scripts are prose, and their SQL reaches only the simulator.
# ruff: noqa: E501, S608

from __future__ import annotations

from suite.workload.lab.build import SITE_ROUTER, SITE_VLANS, UPLINK, VLANS, vlan_subnet
from suite.workload.lab.model import Thing
from suite.workload.lab.network import answers_gateway, attachment, is_up
from suite.workload.lab.scene import Scene, configure, show, sql, write
from suite.workload.lab.show import short_name

_PEOPLE = ("Marit", "Joost", "Ayşe", "Piotr", "Linh", "the harbour master's office", "the night shift", "Okan")


def _thing(scene: Scene, *kinds: str) -> Thing:
    found = [
        item
        for item in scene.world.things.values()
        if (not kinds or item.kind in kinds) and answers_gateway(scene.world, item)
    ]
    return scene.dice.pick(found)


def access_vlan(scene: Scene) -> None:
    """A device sits in the wrong access VLAN."""
    item = _thing(scene, "cam", "crane", "kiosk", "phone")
    switch, port = attachment(scene.world, item)
    wrong = scene.dice.pick([vlan for vlan in SITE_VLANS[item.site] if vlan not in (item.vlan, 201, 202)])
    port.vlan = wrong
    router, name = SITE_ROUTER[item.site], VLANS[item.vlan]
    scene.user(
        scene.pick(
            f"{item.name} at {item.site} has been offline since this morning. It should answer on {item.address}. "
            "Can you find out why?",
            f"{scene.pick(*_PEOPLE)} says {item.name} ({item.address}) is dead. Power is fine, link light is on. "
            "Please have a look.",
            f"Monitoring lost {item.name}, {item.address}, {item.site}. Nobody admits to touching anything.",
        )
    )
    scene.act(
        show(router, f"ping {item.address}"),
        show(router, f"show ip arp {item.address}"),
        show(switch.name, f"show running-config interface {port.name}"),
        say=scene.pick(
            f"I'll test from {router} and look at its port on {switch.name}.",
            "Checking reachability and the switch port side by side.",
            "",
        ),
        think=f"{item.name} should be in VLAN {item.vlan} ({name}). Compare the gateway's view with the access port.",
        keep=[item.address, port.name],
    )
    if scene.dice.chance(60):
        scene.act(
            show(switch.name, f"show mac address-table interface {short_name(port.name)}"),
            think=f"The port is in VLAN {wrong}. If the MAC is learnt there, the device is alive and only misplaced.",
            keep=[short_name(port.name)],
        )
    scene.act(
        configure(switch.name, f"interface {port.name}", f"switchport access vlan {item.vlan}"),
        say=scene.pick(
            f"{port.name} on {switch.name} is in VLAN {wrong}; {item.name} belongs in {item.vlan} ({name}). Moving it.",
            f"Found it: access VLAN {wrong} instead of {item.vlan}. Correcting the port.",
        ),
        keep=[port.name, str(item.vlan)],
    )
    scene.act(
        show(router, f"ping {item.address}"),
        show(switch.name, f"show mac address-table address {item.mac}"),
        keep=[item.address, item.mac],
    )
    scene.say(
        scene.pick(
            f"{item.name} answers again on {item.address}. Its port {port.name} on {switch.name} had been left in VLAN "
            f"{wrong}; it is back in VLAN {item.vlan} ({name}) and the configuration is saved.",
            f"Fixed. Cause: {switch.name} {port.name} was in access VLAN {wrong}. It is now in {item.vlan}, the MAC "
            f"{item.mac} shows up there, and the ping from {router} is clean.",
        ),
        keep=[port.name, str(item.vlan)],
    )
    if scene.dice.chance(40):
        scene.user(scene.pick("Who changed it?", "Any idea when that happened?", "Is there a trace of who did this?"))
        scene.act(show(switch.name, "show logging last 4"))
        scene.say(
            f"The log on {switch.name} only shows the configuration sessions, not the lines entered. The last one is my "
            "own change; anything before it would need the TACACS accounting records, which I cannot read from here."
        )


def trunk_vlan(scene: Scene) -> None:
    """A VLAN is missing on a trunk, so that everything behind it is cut off."""
    name = scene.pick("sw-quay-2", "sw-pier-2", "sw-pier-1", "sw-depot-1")
    switch = scene.world.devices[name]
    uplink, above, other = UPLINK[name]
    below = [item for item in scene.world.things.values() if item.switch == name and answers_gateway(scene.world, item)]
    item = scene.dice.pick(below)
    vlan = item.vlan
    switch.interfaces[uplink].allowed.remove(vlan)
    affected = [thing.name for thing in below if thing.vlan == vlan]
    scene.user(
        scene.pick(
            f"All {VLANS[vlan].lower()} devices on {name} dropped out at once: {', '.join(affected)}. Start with {item.name}.",
            f"We lost {', '.join(affected)}. They all hang off {name}, everything else there works.",
        )
    )
    scene.act(
        show(name, "show interfaces trunk"),
        show(name, f"show mac address-table vlan {vlan}"),
        show(above, "show interfaces trunk" if above.startswith("sw-") else f"show ip arp {item.address}"),
        think=f"One VLAN, one switch: either the VLAN is gone on {name} or its uplink {uplink} does not carry {vlan}.",
        say=scene.pick("Several devices of one VLAN point at the trunk. Comparing both ends.", ""),
        keep=[name, str(vlan)],
    )
    if scene.dice.chance(45):
        wrong = "TenGigabitEthernet1/1/3"
        scene.act(
            configure(name, f"interface {wrong}", f"switchport trunk allowed vlan add {vlan}"),
            say=f"VLAN {vlan} is missing on the uplink of {name}. Adding it.",
            right=False,
        )
        say = scene.pick(
            f"That port does not exist; the uplink is {uplink}.",
            f"Wrong port. The table above says {short_name(uplink)}.",
        )
    else:
        say = f"VLAN {vlan} is missing from the allowed list of {short_name(uplink)} on {name}. Adding it, without touching the rest."
    scene.act(
        configure(name, f"interface {uplink}", f"switchport trunk allowed vlan add {vlan}"),
        say=say,
        think="'add' matters here: without it the command would replace the whole list and cut off the other VLANs.",
        keep=[uplink, f"switchport trunk allowed vlan add {vlan}"],
    )
    scene.act(
        show(name, "show interfaces trunk | include Te1/1/1"),
        *(show(SITE_ROUTER[thing.site], f"ping {thing.address}") for thing in below if thing.name in affected[:2]),
    )
    scene.say(
        scene.pick(
            f"Back: {', '.join(affected)}. The uplink {uplink} of {name} towards {above} {other} did not carry VLAN {vlan} "
            "any more. I added it and saved; the other VLANs on the trunk are unchanged.",
            f"VLAN {vlan} is on {short_name(uplink)} again and the pings work. Worth asking who edited that trunk: a list "
            "entered without 'add' does exactly this.",
        ),
        keep=[str(vlan)],
    )


def error_disabled(scene: Scene) -> None:
    """The switch has turned a port off."""
    item = _thing(scene, "pc", "kiosk", "crane")
    switch, port = attachment(scene.world, item)
    reason = scene.pick("bpduguard", "psecure-violation", "link-flap")
    port.error_disabled = reason
    text = {
        "bpduguard": f"%SPANTREE-2-BLOCK_BPDUGUARD: Received BPDU on port {short_name(port.name)} with BPDU Guard enabled",
        "psecure-violation": f"%PORT_SECURITY-2-PSECURE_VIOLATION: caused by MAC 02fe.{item.mac[5:]} on port {port.name}",
        "link-flap": f"%PM-4-ERR_DISABLE: link-flap error detected on {short_name(port.name)}",
    }[reason]
    scene.world.devices[switch.name].log += [
        (scene.world.now - 61, text),
        (
            scene.world.now - 60,
            f"%PM-4-ERR_DISABLE: {reason} error detected on {short_name(port.name)}, putting it in err-disable state",
        ),
    ]
    scene.user(
        scene.pick(
            f"{item.name} has no link. Cable was swapped already. It's on {switch.name}, I think port {port.name.rsplit('/', 1)[1]}.",
            f"Can you check why {item.name} ({switch.name}) is down? No light on the port at all.",
        )
    )
    scene.act(
        show(switch.name, f"show interfaces status | include {item.name}"),
        show(switch.name, "show logging last 5"),
        think="No light at all can mean shutdown, err-disabled or no cable. Status and log tell them apart.",
    )
    question = {
        "bpduguard": "a small switch or a phone with a bridge was plugged in there",
        "psecure-violation": "another device was connected to that socket",
        "link-flap": "the cable or the connector was loose",
    }[reason]
    scene.say(
        f"{port.name} is err-disabled: {reason}. The switch turned it off by itself. Do you know whether {question}? If "
        "that is gone I can bring the port back.",
        keep=[port.name],
    )
    scene.user(
        scene.pick(
            "Yes, that was us, it's removed now. Go ahead.",
            "Confirmed and removed. Please re-enable.",
            "Right, contractor. Gone. Bring it back up please.",
        )
    )
    scene.act(
        configure(switch.name, f"interface {port.name}", "shutdown", "no shutdown", save=False),
        say="Cycling the port.",
        keep=[port.name, "no shutdown"],
    )
    up = is_up(scene.world, switch, port)
    scene.act(
        show(switch.name, f"show interfaces status | include {short_name(port.name)} "),
        show(SITE_ROUTER[item.site], f"ping {item.address}"),
    )
    scene.say(
        f"{port.name} is {'connected' if up else 'still down'} and {item.name} answers on {item.address}. Nothing was "
        f"changed in the configuration. If it happens again, the log will say {reason} and I would leave it off.",
        keep=[item.address],
    )


def duplex(scene: Scene) -> None:
    """A port runs at half duplex and collects errors."""
    item = _thing(scene, "cam", "crane", "pc")
    switch, port = attachment(scene.world, item)
    port.duplex, port.crc_errors = "half", scene.dice.between(8_000, 90_000)
    scene.user(
        scene.pick(
            f"{item.name} is slow and stutters. Ping looks normal to me. {switch.name}.",
            f"The picture of {item.name} freezes every few seconds."
            if item.kind == "cam"
            else f"{item.name} keeps losing packets.",
            f"Please look at the port of {item.name}, something is off with it.",
        )
    )
    scene.act(
        show(switch.name, f"show interfaces status | include {item.name}"),
        think="I need the port first, then the counters.",
    )
    scene.act(
        show(switch.name, f"show interfaces {port.name}"),
        show(switch.name, f"show running-config interface {port.name}"),
        think="Half duplex in the status line. Error counters will show whether it hurts.",
        keep=[port.name],
    )
    scene.act(
        configure(switch.name, f"interface {port.name}", "duplex auto"),
        say=f"{port.name} is fixed to half duplex and counts {port.crc_errors} CRC errors. Setting it back to auto.",
        keep=[port.name, "duplex auto"],
    )
    scene.act(show(switch.name, f"show interfaces {port.name} | include duplex|CRC"))
    scene.say(
        f"The port negotiates full duplex now. The counter still reads {port.crc_errors} because I did not clear it; look "
        f"again in an hour, it should not move. If it does, replace the patch cable of {item.name}.",
        keep=[str(port.crc_errors)],
    )


def find_station(scene: Scene) -> None:
    """From an address to a port, across several switches."""
    item = _thing(scene)
    router = SITE_ROUTER[item.site]
    switches = [
        name for name, device in scene.world.devices.items() if device.role == "switch" and device.site == item.site
    ]
    scene.user(
        scene.pick(
            f"Which port is {item.address} on?",
            f"Something with the address {item.address} sends a lot of broadcast. Where is it plugged in?",
            f"I need switch and port for {item.address}, and its MAC.",
        )
    )
    scene.act(
        show(router, f"show ip arp {item.address}"),
        keep=[item.address],
        think=f"{item.address} is at {item.site}, so {router} has the ARP entry.",
    )
    results = scene.act(
        *(show(name, f"show mac address-table address {item.mac}") for name in switches),
        say=scene.pick(f"MAC {item.mac}. Looking for it on the {item.site} switches.", ""),
        keep=[item.mac],
    )
    trunk = sum("Te1/1/2" in result.content for result in results)
    detail = " The other switch only sees it through its downlink." if trunk else ""
    scene.say(
        f"{item.address} is {item.mac}, on {item.switch} port {item.port} in VLAN {item.vlan}.{detail} According to the "
        f"description it is {item.name}.",
        keep=[item.address, item.mac, item.port],
    )
    if scene.dice.chance(35):
        text = scene.pick("under observation", f"{item.name} - broadcast source?", "do not patch, ask network team")
        scene.user(f'Put "{text}" in the description of that port please.')
        scene.act(
            configure(item.switch, f"interface {item.port}", f"description {text}"),
            keep=[item.port, f"description {text}"],
        )
        scene.say(f'Done: {item.switch} {item.port} now carries the description "{text}". Saved.')


def new_vlan(scene: Scene) -> None:
    """A VLAN is created at a site: switches, router, inventory."""
    site = scene.pick("quay", "pier", "depot")
    used = {vlan for device in scene.world.devices.values() for vlan in device.vlans}
    vlan = scene.dice.pick([number for number in range(61, 199) if number not in used])
    name = scene.pick("TUGBOATS", "BARRIERS", "WEIGHBRIDGE", "METERING", "DIVERS", "FUEL", "TURNSTILES") + f"-{vlan}"
    switches = [item for item, device in scene.world.devices.items() if device.role == "switch" and device.site == site]
    router, gateway = SITE_ROUTER[site], f"{vlan_subnet(site, vlan)}.1"
    scene.user(
        f"{scene.pick('New segment needed', 'Please set up a new VLAN', 'Change approved')}: VLAN {vlan}, name {name}, at {site}. "
        f"Gateway {gateway}/24 on {router}. All switches there, trunks included, and the inventory."
    )
    scene.act(
        *(show(item, "show vlan brief") for item in switches),
        sql(f"SELECT vid, name, site FROM vlans WHERE vid = {vlan}"),
        say=scene.pick(f"First making sure that {vlan} is free.", ""),
        think=f"Check that {vlan} is unused on {', '.join(switches)} and in the inventory before creating it.",
    )
    calls = []
    for item in switches:
        trunks = [
            port.name for port in scene.world.devices[item].interfaces.values() if port.mode == "trunk" and port.peer
        ]
        lines = [f"vlan {vlan}", f"name {name}"]
        for trunk in trunks:
            lines += [f"interface {trunk}", f"switchport trunk allowed vlan add {vlan}"]
        calls.append(configure(item, *lines))
    subinterface = f"GigabitEthernet0/0/1.{vlan}"
    calls.append(
        configure(
            router,
            f"interface {subinterface}",
            f"encapsulation dot1Q {vlan}",
            f"ip address {gateway} 255.255.255.0",
            f"description {name.lower()} {site}",
        )
    )
    scene.act(*calls, say="It is free. Creating it.", keep=[str(vlan), name, subinterface, gateway])
    prefix = f"{vlan_subnet(site, vlan)}.0/24"
    if scene.dice.chance(50):
        scene.act(write("POST", "/api/v1/vlans", vlan=vlan, name=name, site=site, prefix=prefix), right=False)
        say = "The field is called vid."
    else:
        say = ""
    scene.act(
        write("POST", "/api/v1/vlans", vid=vlan, name=name, site=site, prefix=prefix),
        say=say,
        keep=[str(vlan), name, prefix],
    )
    scene.act(
        show(switches[0], f"show interfaces trunk | include {vlan}"),
        show(router, f"show ip interface brief | include {subinterface}"),
    )
    scene.say(
        f"VLAN {vlan} ({name}) exists on {' and '.join(switches)}, the trunks carry it, and {subinterface} on {router} is up "
        f"with {gateway}/24. The inventory has it with prefix {prefix}. No access port uses it yet.",
        keep=[subinterface, prefix],
    )


def unused_ports(scene: Scene) -> None:
    """Ports that nobody uses are shut down."""
    name = scene.pick("sw-quay-2", "sw-pier-1", "sw-pier-2", "sw-depot-1")
    switch = scene.world.devices[name]
    scene.user(
        scene.pick(
            f"Audit finding: unused ports must be off. Please do {name}.",
            f"Shut every port on {name} that has nothing connected. Description 'unused', VLAN unchanged.",
        )
    )
    scene.act(show(name, "show interfaces status | include notconnect"))
    free = [
        port
        for port in switch.interfaces.values()
        if port.mode == "access" and port.peer is None and port.admin_up
    ]  # fmt: skip
    if not free:
        scene.say(f"There is nothing to do: no access port of {name} is enabled without a device on it.")
        return
    names = [port.name for port in free]
    lines = [line for port in names for line in (f"interface {port}", "description unused", "shutdown")]
    scene.act(
        configure(name, *lines),
        say=f"{len(names)} access port{'s are' if len(names) > 1 else ' is'} idle. The idle uplink stays as it is.",
        think="Te1/1/2 is a trunk kept for growth. The request is about access ports.",
        keep=names,
    )
    scene.act(show(name, "show interfaces status | include disabled"))
    ports = ", ".join(short_name(port) for port in names)
    scene.say(
        f"Off and described as unused on {name}: {ports}. Saved. To use one again: no shutdown and a new description."
    )
    if scene.dice.chance(35):
        port = scene.dice.pick(names)
        scene.user(f"Sorry, {short_name(port)} is needed tomorrow. Leave that one on please.")
        scene.act(
            configure(name, f"interface {port}", "description reserved", "no shutdown"), keep=[port, "no shutdown"]
        )
        scene.act(show(name, f"show running-config interface {port}"))
        scene.say(f"{port} is enabled again with the description reserved. The others stay off.", keep=[port])
