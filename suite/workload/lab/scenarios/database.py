"""Scenarios on the database."""
# Scripts are prose, and their SQL reaches only the simulator.
# ruff: noqa: E501, S608

from __future__ import annotations

from suite.workload.lab.clock import iso_time
from suite.workload.lab.model import Backend
from suite.workload.lab.scene import Scene, fetch, shell, sql
from suite.workload.lab.units import stop

_REPLICATION = "SELECT application_name, state, sent_lsn, replay_lsn, replay_lag FROM pg_stat_replication"


def replication(scene: Scene) -> None:
    """The standby is checked: healthy, behind, or stopped."""
    database = scene.world.database
    replica = scene.world.hosts[database.replica]
    case = scene.pick("healthy", "behind", "stopped")
    if case == "behind":
        database.replica_lag_bytes = scene.dice.between(2**31, 2**33)
    if case == "stopped":
        stop(scene.world, replica.services["postgresql"])
        database.replica_lag_bytes = scene.dice.between(2**28, 2**30)
    scene.user(
        scene.pick(
            "Is replication to db-2 healthy?",
            "Before the maintenance tonight: check that the standby is in sync please.",
            "Reports read from db-2 look old. Replication?",
        )
    )
    first = scene.pick("lag", "columns")
    if first == "columns":
        scene.act(sql("SELECT application_name, state, lag FROM pg_stat_replication"), right=False)
        scene.act(sql(_REPLICATION), say="The column is called replay_lag.", keep=["pg_stat_replication"])
    else:
        scene.act(
            sql(_REPLICATION), sql("SELECT pg_is_in_recovery()", host="db-2"),
            think="Primary's view and the standby's own, in one go.", keep=["pg_stat_replication", "db-2"],
        )  # fmt: skip
    if case == "healthy":
        scene.say("db-2 is streaming and has replayed everything that db-1 sent; the lag is zero. Nothing to do.")
        return
    scene.act(
        shell("db-2", "systemctl status postgresql"),
        shell("db-2", "df -h /var"),
        say="" if case == "behind" else "The primary sees no standby at all. Looking at db-2 itself.",
    )
    if case == "stopped":
        scene.act(
            shell("db-2", "systemctl start postgresql"),
            keep=["systemctl start postgresql"],
            say="It was stopped. Starting it.",
        )
        scene.act(sql(_REPLICATION), keep=["pg_stat_replication"])
        scene.lab.wait(120)
        database.replica_lag_bytes = 0
        scene.act(sql(_REPLICATION), say="It is connected and catching up. Once more after two minutes.")
        scene.say(
            "PostgreSQL on db-2 had been stopped cleanly; I started it and it has caught up with db-1. The unit's journal says "
            "when it was stopped, not by whom."
        )
        return
    scene.say(
        "db-2 is connected but behind: state catchup. Its service and disk are fine, so it is applying a large batch. I "
        "suggest to wait and look again rather than restart it."
    )
    scene.user(scene.pick("OK, look again in ten minutes.", "Then check again later and tell me."))
    scene.lab.wait(600)
    database.replica_lag_bytes = 0
    scene.act(sql(_REPLICATION), keep=["pg_stat_replication"])
    scene.say("It has caught up: streaming, replay_lag 00:00:00. Safe to start the maintenance.", keep=["00:00:00"])


def idle_transaction(scene: Scene) -> None:
    """A forgotten transaction blocks others."""
    world = scene.world
    database = world.database
    pid = 24_000 + scene.dice.below(5000)
    minutes = scene.dice.between(25, 170)
    device = scene.dice.pick(list(world.devices))
    blocker = Backend(
        pid=pid, user="inventory_rw", client="10.10.201.22", state="idle in transaction",
        query=f"UPDATE interfaces SET enabled = true WHERE device = '{device}'", started=world.now - 60 * minutes,
    )  # fmt: skip
    waiting = Backend(
        pid=pid + 41, user="inventory_rw", client="10.10.201.21", state="active",
        query=f"UPDATE interfaces SET description = 'x' WHERE device = '{device}'", started=world.now - 240,
    )  # fmt: skip
    database.backends += [blocker, waiting]
    scene.user(
        scene.pick(
            f"Saving anything for {device} in the inventory hangs.",
            f"Writes to the interfaces table time out, for {device} at least. Reads are fine.",
        )
    )
    scene.act(
        sql("SELECT pid, usename, client_addr, state, xact_start, query FROM pg_stat_activity WHERE state <> 'idle'"),
        sql("SHOW max_connections"),
        think="Hanging writes with working reads: look for a lock holder.",
        keep=["pg_stat_activity"],
    )
    scene.say(
        f"Backend {pid} from 10.10.201.22 (app-2) has been idle in transaction since {iso_time(blocker.started)}, about "
        f"{minutes} minutes, after an UPDATE on {device}. Backend {waiting.pid} waits behind it. I can terminate {pid}; its "
        "open change would be rolled back.",
        keep=[str(pid), str(waiting.pid)],
    )
    scene.user(scene.pick("Terminate it.", "Yes, kill that one.", f"{pid} only, leave the other alone."))
    scene.act(sql(f"SELECT pg_terminate_backend({pid})"), keep=[str(pid)])
    database.backends.remove(waiting)
    scene.act(sql("SELECT pid, state, query FROM pg_stat_activity WHERE state <> 'idle'"))
    scene.say(
        f"{pid} is gone and {waiting.pid} went through by itself. Consider idle_in_transaction_session_timeout, it is the "
        "usual guard against this.",
        keep=[str(pid)],
    )


def serial_report(scene: Scene) -> None:
    """A question to the tables, with a mistake in the first statement."""
    site = scene.pick("quay", "pier", "depot")
    role = scene.pick("router", "switch")
    scene.user(
        scene.pick(
            f"I need serial numbers and models of every {role} at {site} for the support contract.",
            f"List {role}es at {site} with serial please."
            if role == "switch"
            else f"List routers at {site} with serial please.",
        )
    )
    if scene.dice.chance(60):
        wrong = scene.pick(("serial_number", "column"), ("device", "relation"))
        statement = (
            f"SELECT name, model, serial_number FROM devices WHERE site = '{site}'"
            if wrong[0] == "serial_number"
            else f"SELECT name, model, serial FROM device WHERE site = '{site}'"
        )
        scene.act(sql(statement), right=False)
        say = f"That {wrong[1]} does not exist; correcting the statement."
    else:
        say = ""
    scene.act(
        sql(f"SELECT name, model, serial FROM devices WHERE site = '{site}' AND role = '{role}' ORDER BY name"),
        say=say,
        keep=[site, role, "serial"],
    )
    rows = [r for r in scene.world.database.tables["devices"].rows if r["site"] == site and r["role"] == role]
    listed = "\n".join(
        f"- {r['name']}: {r['model']}, {r['serial']}" for r in sorted(rows, key=lambda r: str(r["name"]))
    )
    scene.say(f"{len(rows)} at {site}:\n{listed}", keep=[str(r["serial"]) for r in rows])
    if scene.dice.chance(60):
        row = scene.dice.pick(rows)
        scene.user(f"Does {row['name']} really carry {row['serial']}? The sticker was hard to read.")
        scene.act(
            ("device_show", {"device": row["name"], "command": "show version | include Serial"}),
            fetch(f"/api/v1/devices/{row['id']}"),
            keep=[str(row["name"]), f"/api/v1/devices/{row['id']}"],
        )
        scene.say(f"Yes, the device itself says {row['serial']}, and the inventory agrees.", keep=[str(row["serial"])])
