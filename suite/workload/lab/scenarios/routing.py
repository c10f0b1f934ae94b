"""Scenarios on the routers."""
# Scripts are prose.
# ruff: noqa: E501

from __future__ import annotations

from suite.workload.lab.build import LINKS, SITE_ROUTER, SITE_VLANS, VLANS
from suite.workload.lab.clock import device_time
from suite.workload.lab.network import answers_gateway
from suite.workload.lab.scene import Scene, configure, fetch, shell, show, write


def describe_subinterface(scene: Scene) -> None:
    """A description is changed; the first name given does not exist, or the user changes their mind."""
    site = scene.pick("quay", "pier", "depot")
    router = SITE_ROUTER[site]
    vlan, other = scene.dice.sample(SITE_VLANS[site], 2)
    number = scene.dice.between(10, 99)
    text = scene.pick(
        f"{VLANS[vlan].lower()} {site}, owner team {number}",
        f"{VLANS[vlan]} gateway, ticket CHG-{4200 + number}",
        f"{VLANS[vlan].lower()} segment, rack {scene.pick('B', 'C', 'D')}{number}",
    )
    right = f"GigabitEthernet0/0/1.{vlan}"
    mistaken = scene.pick("error", "changed", "plain")
    named = {"error": f"GigabitEthernet0/0/4.{vlan}", "changed": f"GigabitEthernet0/0/1.{other}", "plain": right}[
        mistaken
    ]
    scene.user(
        scene.pick(
            f'Set the description of {named} on {router} to "{text}".',
            f'{router} {named}: description should read "{text}". Update the inventory too.',
        )
    )
    if mistaken == "error":
        scene.act(configure(router, f"interface {named}", f"description {text}"), keep=[named, f"description {text}"])
        scene.act(
            show(router, f"show interfaces description | include .{vlan} "),
            say=scene.pick(f"{router} has no {named}. Looking for the subinterface of VLAN {vlan}.", ""),
            think=f"The parent port does not exist. VLAN {vlan} at {site} must be on another one.",
        )
        scene.say(
            f"{named} does not exist on {router}. VLAN {vlan} is on {right}, described so far as "
            f'"{scene.world.devices[router].interfaces[right].description}". Shall I change that one?',
            keep=[right],
        )
        scene.user(scene.pick("Yes, that one. My typo.", "Yes please.", f"Correct, {right}."))
    elif mistaken == "changed":
        scene.act(show(router, f"show running-config interface {named}"), keep=[named])
        scene.say(
            f"{named} is VLAN {other} ({VLANS[other]}), but the text speaks of {VLANS[vlan]}. Is {named} really the one?",
            keep=[named],
        )
        scene.user(f"Good catch. I meant {right}.")
    scene.act(
        configure(router, f"interface {right}", f"description {text}"),
        fetch("/api/v1/interfaces", device=router, name=right),
        keep=[right, f"description {text}", router],
    )
    row = next(
        row
        for row in scene.world.database.tables["interfaces"].rows
        if row["device"] == router and row["name"] == right
    )
    scene.act(
        write("PATCH", f"/api/v1/interfaces/{row['id']}", description=text),
        show(router, f"show running-config interface {right}"),
        keep=[f"/api/v1/interfaces/{row['id']}", right],
    )
    scene.say(
        scene.pick(
            f'{right} on {router} and inventory object {row["id"]} both read "{text}" now.',
            f"Done on {router} {right} and in the inventory (id {row['id']}). The configuration is saved.",
        ),
        keep=[right, str(row["id"])],
    )


def link_down(scene: Scene) -> None:
    """An OSPF neighbour is missing because its link was shut."""
    left, left_port, right, right_port = scene.dice.pick(LINKS)
    culprit, port = scene.pick((left, left_port), (right, right_port))
    observer, observer_port = (right, right_port) if culprit == left else (left, left_port)
    world = scene.world
    world.devices[culprit].interfaces[port].admin_up = False
    since = device_time(world.now - 300).split()[-1]
    for name, where in ((culprit, port), (observer, observer_port)):
        state = "administratively down" if name == culprit else "down"
        world.devices[name].log += [
            (world.now - 300, f"%LINK-5-CHANGED: Interface {where}, changed state to {state}"),
            (world.now - 299, f"%OSPF-5-ADJCHG: Process 1, Nbr on {where} from FULL to DOWN, Neighbor Down"),
        ]
    scene.user(
        scene.pick(
            f"{observer} reports an OSPF neighbour lost on {observer_port}. Traffic still flows, but we run without redundancy.",
            f"Alarm: adjacency {left} - {right} down. Can you see why?",
            f"The link between {left} and {right} is gone. Fibre team says the fibre is fine.",
        )
    )
    scene.act(
        show(observer, "show ip ospf neighbor"),
        show(observer, f"show interfaces {observer_port}"),
        show(culprit, "show ip interface brief"),
        think=f"Look at both ends: {observer} {observer_port} and its peer on {culprit}.",
        keep=[observer_port],
    )
    scene.act(
        show(culprit, f"show running-config interface {port}"),
        show(culprit, "show logging last 5"),
        say=f"{culprit} {port} is administratively down. Checking when that happened before I touch it.",
        keep=[port],
    )
    scene.say(
        f"The link is down because {port} on {culprit} is shut down in its configuration, since {since}. That is "
        "not a fibre fault. I can enable it, unless somebody is working there.",
        keep=[port, since],
    )
    scene.user(scene.pick("Nobody is. Enable it.", "Enable it please, maintenance ended an hour ago.", "Go."))
    scene.act(configure(culprit, f"interface {port}", "no shutdown"), keep=[port, "no shutdown"])
    scene.act(
        show(culprit, "show ip ospf neighbor"),
        show(observer, f"show ip route {world.devices[culprit].interfaces[port].address}"),
    )
    scene.say(
        f"{culprit} {port} is up and the neighbour on {observer} {observer_port} is FULL again. Redundancy is restored.",
        keep=[port, observer_port],
    )


def static_route(scene: Scene) -> None:
    """A leftover static route sends traffic the wrong way."""
    world = scene.world
    items = [item for item in world.things.values() if item.site != "quay" and answers_gateway(world, item)]
    item = scene.dice.pick(items)
    network = item.address.rsplit(".", 1)[0] + ".0"
    wrong = world.devices["core-1"].interfaces["GigabitEthernet0/0/0"].peer
    assert wrong is not None
    hop = world.devices[wrong[0]].interfaces[wrong[1]].address
    assert hop is not None
    world.devices["core-1"].static_routes.append((network, 24, hop))
    prober = scene.pick("mon-1", "app-1", "log-1")
    scene.user(
        scene.pick(
            f"From {prober} I cannot reach {item.address} ({item.name}, {item.site}). Others at {item.site} are fine.",
            f"{network}/24 is unreachable from the servers. Started after last night's change.",
        )
    )
    scene.act(
        shell(prober, f"ping -c 3 {item.address}"),
        show("core-1", f"traceroute {item.address}"),
        show("core-1", f"show ip route {item.address}"),
        think=f"Servers leave through core-1. Its route for {network} decides.",
        keep=[item.address],
    )
    scene.act(
        show("core-1", "show ip route | include S "),
        show(SITE_ROUTER[item.site], f"ping {item.address}"),
        say=f"core-1 sends {network} to {hop}, which is edge-1. The site router should reach it directly.",
        keep=[item.address],
    )
    if scene.dice.chance(40):
        scene.act(
            configure("core-1", f"no ip route {network} 255.255.255.0 10.255.0.10"),
            right=False,
            say="Removing the static route.",
        )
        say = f"The next hop in the configuration is {hop}."
    else:
        say = "A static route overrides OSPF there. Removing it."
    scene.act(
        configure("core-1", f"no ip route {network} 255.255.255.0 {hop}"),
        say=say,
        keep=[f"no ip route {network} 255.255.255.0 {hop}"],
    )
    scene.act(
        show("core-1", f"show ip route {item.address}"), shell(prober, f"ping -c 3 {item.address}"), keep=[item.address]
    )
    scene.say(
        f"{item.address} answers from {prober} again. core-1 had a static route {network}/24 via {hop} that won over OSPF "
        "(distance 1 against 110). It is removed and the configuration is saved.",
        keep=[item.address, hop],
    )


def ntp_server(scene: Scene) -> None:
    """NTP servers are compared over all routers and corrected."""
    world = scene.world
    routers = scene.dice.sample([name for name, device in world.devices.items() if device.role == "router"], 3)
    broken = routers[0]
    stale = f"10.10.201.{scene.dice.between(200, 240)}"
    world.devices[broken].ntp_servers = [stale]
    scene.user(
        scene.pick(
            f"Log times of {', '.join(sorted(routers))} do not line up. Please check NTP on them.",
            f"Are {', '.join(sorted(routers))} all synchronised?",
        )
    )
    scene.act(
        *(show(name, "show ntp associations") for name in sorted(routers)), say=scene.pick("Asking all three.", "")
    )
    good = scene.pick("10.10.201.31", "10.10.201.53")
    scene.act(
        configure(broken, f"ntp server {good}", f"no ntp server {stale}"),
        say=f"{broken} only knows {stale}, which does not answer. Pointing it to {good} like the others.",
        keep=[broken, good, stale],
    )
    scene.act(show(broken, "show ntp associations"), show(broken, "show clock"))
    scene.say(
        f"{broken} had {stale} as its only time server. It now uses {good} and is synchronised. The other two were fine.",
        keep=[stale, good],
    )
