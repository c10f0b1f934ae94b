"""Scenarios on the inventory."""
# Scripts are prose, and their SQL reaches only the simulator.
# ruff: noqa: E501, S608

from __future__ import annotations

from suite.workload.lab.scene import Scene, configure, fetch, show, sql, write


def audit_descriptions(scene: Scene) -> None:
    """A collection is read page by page, after a wrong parameter name."""
    world = scene.world
    device = scene.pick("sw-quay-2", "sw-pier-1", "sw-pier-2", "sw-depot-1", "sw-quay-1")
    rows = [row for row in world.database.tables["interfaces"].rows if row["device"] == device]
    size = scene.pick(6, 8, 10)
    scene.user(
        scene.pick(
            f"How many interfaces of {device} have no description in the inventory? Use the API, it's what the auditors use.",
            f"Go through the inventory entries of {device} and tell me which ports lack a description.",
        )
    )
    if scene.dice.chance(65):
        wrong = scene.pick({"size": size}, {"per_page": size}, {"limit": size})
        scene.act(fetch("/api/v1/interfaces", device=device, **wrong), right=False)
        say = f"The parameter is page_size, not {next(iter(wrong))}."
    else:
        say = ""
    scene.act(
        fetch("/api/v1/interfaces", device=device, page=1, page_size=size),
        say=say,
        keep=["page_size", str(size), device],
    )
    pages = -(-len(rows) // size)
    if pages > 1:
        scene.act(
            *(fetch("/api/v1/interfaces", device=device, page=page, page_size=size) for page in range(2, pages + 1)),
            think=f"{len(rows)} entries at {size} a page make {pages} pages.",
            keep=["page_size", str(size)],
        )
    empty = [row for row in rows if not row["description"]]
    names = ", ".join(f"{row['name']} (id {row['id']})" for row in empty)
    scene.say(
        f"{len(empty)} of {len(rows)} entries of {device} have an empty description"
        + (f": {names}." if empty else "."),
        keep=[str(row["id"]) for row in empty],
    )
    if empty and scene.dice.chance(60):
        row = scene.dice.pick(empty)
        text = scene.pick("spare", "free, checked", "reserved for commissioning")
        scene.user(f'Set {row["name"]} to "{text}", on the switch as well.')
        scene.act(
            write("PATCH", f"/api/v1/interfaces/{row['id']}", description=text),
            configure(device, f"interface {row['name']}", f"description {text}"),
            keep=[f"/api/v1/interfaces/{row['id']}", str(row["name"]), f"description {text}"],
        )
        scene.say(f'{device} {row["name"]} and inventory id {row["id"]} both say "{text}".', keep=[str(row["id"])])


def inventory_drift(scene: Scene) -> None:
    """The inventory and a device disagree; the device is right, or the inventory is."""
    world = scene.world
    device = scene.pick("sw-quay-2", "sw-pier-1", "sw-pier-2", "sw-depot-1")
    attached = [
        port
        for port in world.devices[device].interfaces.values()
        if port.mode == "access" and port.peer and port.peer[0] in world.things
    ]
    port = scene.dice.pick(attached)
    assert port.peer is not None
    thing = world.things[port.peer[0]]
    row = next(
        row
        for row in world.database.tables["interfaces"].rows
        if row["device"] == device and row["name"] == port.name
    )  # fmt: skip
    row["vlan_id"] = scene.dice.pick([vlan for vlan in world.devices[device].vlans if vlan not in (10, port.vlan)])
    ticket = scene.dice.between(4200, 4999)
    scene.user(
        scene.pick(
            f"CHG-{ticket}: compare VLANs of {device} access ports with the inventory, {port.name} was reported to differ.",
            f"The nightly check says {device} {port.name} differs from the inventory. Find out which side is right and fix it.",
        )
    )
    if scene.dice.chance(50):
        scene.act(sql(f"SELECT id, name, vlan FROM interfaces WHERE device = '{device}'"), right=False)
    scene.act(
        sql(f"SELECT id, vlan_id, description FROM interfaces WHERE device = '{device}' AND name = '{port.name}'"),
        show(device, f"show running-config interface {port.name}"),
        show(device, f"show mac address-table interface {port.name}"),
        think="Inventory, configuration and what is really learnt on the port: two against one decides.",
        keep=[device, port.name],
    )
    scene.act(
        write("PATCH", f"/api/v1/interfaces/{row['id']}", vlan_id=port.vlan),
        say=f"The switch has VLAN {port.vlan} and {thing.name} works there, so the inventory ({row['vlan_id']}) is stale.",
        keep=[f"/api/v1/interfaces/{row['id']}", str(port.vlan)],
    )
    scene.act(sql(f"SELECT id, vlan_id FROM interfaces WHERE id = {row['id']}"), keep=[str(row["id"])])
    scene.say(
        f"Inventory id {row['id']} ({device} {port.name}) corrected to VLAN {port.vlan}. The switch was right: {thing.name} "
        f"({thing.mac}) is learnt there.",
        keep=[str(row["id"]), thing.mac],
    )
    if scene.dice.chance(50):
        scene.user(
            f'Thanks. Record it as a change: "CHG-{ticket} inventory VLAN of {device} {port.name}", status closed.'
        )
        summary = f"CHG-{ticket} inventory VLAN of {device} {port.name}"
        scene.act(
            sql(f"INSERT INTO changes (summary, status) VALUES ('{summary}', 'closed')"),
            keep=[summary, "closed"],
        )
        scene.act(sql("SELECT id, summary, status FROM changes ORDER BY id DESC LIMIT 2"))
        scene.say("Recorded.")
