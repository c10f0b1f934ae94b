"""Scenarios on the Linux hosts."""
# Scripts are prose.
# ruff: noqa: E501

from __future__ import annotations

import re

from suite.workload.lab.build import DOMAIN
from suite.workload.lab.scene import Scene, shell
from suite.workload.lab.units import break_down, restart


def api_port(scene: Scene) -> None:
    """The API does not start because its configuration names a wrong port or host."""
    host = scene.world.hosts[scene.pick("app-1", "app-2")]
    service = host.services["inventory-api"]
    path = "/etc/inventory-api/config.toml"
    fault = scene.pick("port", "name", "replica")
    good, bad, reason = {
        "port": ("port = 5432", "port = 5433", "connect to database: dial tcp 10.10.202.11:5433: connection refused"),
        "name": (f'host = "db-1.{DOMAIN}"', f'host = "db1.{DOMAIN}"', f"lookup db1.{DOMAIN}: no such host"),
        "replica": (
            f'host = "db-1.{DOMAIN}"', f'host = "db-2.{DOMAIN}"', f"migrate: database db-2.{DOMAIN} is read-only (standby)"
        ),
    }[fault]  # fmt: skip
    host.files[path] = host.files[path].replace(good, bad)
    break_down(scene.world, host, service, reason)
    scene.user(
        scene.pick(
            f"inventory-api on {host.name} is red in Grafana. Restart it please.",
            f"The proxy only sees one inventory backend, {host.name} is missing. Fix it?",
            f"{host.name}: inventory-api down after the config rollout. Port 8080 does not answer.",
        )
    )
    scene.act(
        shell(host.name, "systemctl status inventory-api"),
        shell(host.name, f"curl -s http://{host.name}.{DOMAIN}:8080/health"),
        think="Status first; a restart without knowing why it stopped may only repeat the failure.",
        keep=["inventory-api"],
    )
    say = scene.pick("It stopped by itself. Journal and configuration next.", "")
    if scene.dice.chance(50):
        scene.act(shell(host.name, "systemctl restart inventory-api"), say="Trying a plain restart.", right=False)
        say = "It does not stay up. Journal and configuration next."
    scene.act(
        shell(host.name, "journalctl -u inventory-api -n 6"),
        shell(host.name, f"cat {path}"),
        keep=["inventory-api", path],
        say=say,
    )
    checks = {
        "port": [shell("db-1", "ss -ltnp")],
        "name": [shell(host.name, f"dig +short db1.{DOMAIN}"), shell(host.name, f"dig +short db-1.{DOMAIN}")],
        "replica": [("sql_query", {"host": "db-2", "statement": "SELECT pg_is_in_recovery()"})],
    }[fault]
    scene.act(*checks, think=f"The journal says: {reason}. Compare with what is really there.")
    scene.act(
        ("host_edit", {"host": host.name, "path": path, "old": bad, "new": good}),
        say={
            "port": "PostgreSQL listens on 5432; the file says 5433.",
            "name": "The host name lacks its hyphen: db1 instead of db-1.",
            "replica": "db-2 is the standby. The API writes, so it needs db-1.",
        }[fault],
        keep=[path, *([good] if fault == "port" else [])],
    )
    scene.act(shell(host.name, "systemctl restart inventory-api"), keep=["systemctl restart inventory-api"])
    scene.act(
        shell(host.name, "systemctl is-active inventory-api"),
        shell(host.name, f"curl -s http://{host.name}.{DOMAIN}:8080/health"),
    )
    scene.say(
        scene.pick(
            f"inventory-api on {host.name} runs and reports its database as ok. The cause was `{bad}` in {path}; it reads "
            f"`{good}` now.",
            f"Up again. {path} had `{bad}`; the rollout probably carried the wrong value, so check the template before it "
            "reaches the other host.",
        ),
        keep=[path],
    )


def disk_full(scene: Scene) -> None:
    """A full file system stops a service."""
    host = scene.world.hosts[scene.pick("log-1", "db-2", "mon-1")]
    var = next(disk for disk in host.disks if disk.mount == "/var")
    journal = var.size_mib - var.used_mib
    host.usage_mib["/var/log"] = host.usage_mib.get("/var/log", 0) + journal
    host.usage_mib["/var/log/journal"] = journal
    var.used_mib = var.size_mib
    victim = {"log-1": "loki", "db-2": "postgresql", "mon-1": "prometheus"}[host.name]
    service = host.services[victim]
    break_down(scene.world, host, service, "could not write to /var: No space left on device")
    scene.user(
        scene.pick(
            f"{victim} on {host.name} died an hour ago.",
            f"{host.name} is unhappy, {victim} failed. Can you get it running?",
            f"Page: {victim}.service failed on {host.name}",
        )
    )
    scene.act(
        shell(host.name, f"systemctl status {victim}"),
        shell(host.name, "df -h"),
        think="A failed service and a disk check go together.",
        keep=[victim],
    )
    scene.act(shell(host.name, "du -sh /var/*"), say=f"/var on {host.name} is full. Looking for what fills it.")
    if scene.dice.chance(40):
        scene.act(
            shell(host.name, "rm -rf /var/log/journal"),
            right=False,
            think="Clearing the journal folder would free most.",
        )
        say = "Deleting by hand is not permitted here, and vacuuming is cleaner anyway."
    else:
        say = f"The journal holds {journal / 1024:.1f}G. Vacuuming it to 200M."
    scene.act(shell(host.name, "journalctl --vacuum-size=200M"), say=say, keep=["--vacuum-size=200M"])
    scene.act(
        shell(host.name, "df -h /var"),
        shell(host.name, f"systemctl restart {victim}"),
        keep=[f"systemctl restart {victim}"],
    )
    scene.act(shell(host.name, f"systemctl status {victim}"))
    percent = 100 * var.used_mib // var.size_mib
    scene.say(
        f"{victim} on {host.name} is running. The journal had grown until /var was full; after vacuuming it is at {percent} %. "
        "A limit (SystemMaxUse) in journald.conf would keep it from coming back.",
        keep=[f"{percent} %"],
    )


def dns_record(scene: Scene) -> None:
    """A record points to an old address."""
    server = scene.world.hosts["dns-1"]
    path = "/etc/dnsmasq.d/records.conf"
    target = scene.world.hosts[scene.pick("app-1", "app-2", "log-1", "proxy-1", "mon-1", "db-2")]
    old = f"{target.address.rsplit('.', 1)[0]}.{scene.dice.between(150, 240)}"
    line = f"host-record={target.name}.{DOMAIN},{target.address}"
    stale = f"host-record={target.name}.{DOMAIN},{old}"
    server.files[path] = server.files[path].replace(line, stale)
    restart(scene.world, server, server.services["dnsmasq"])
    asker = scene.pick(*(name for name in ("app-1", "app-2", "mon-1", "log-1") if name != target.name))
    scene.user(
        scene.pick(
            f"{asker} cannot connect to {target.name}.{DOMAIN}. It tries {old}, that machine was renumbered.",
            f"Name resolution for {target.name} looks wrong.",
        )
    )
    scene.act(
        shell(asker, f"dig +short {target.name}.{DOMAIN}"),
        shell(target.name, "ip -4 addr show eno1"),
        shell("dns-1", f"grep {target.name} {path}"),
        think="Compare what DNS says with the address that the host really has.",
        keep=[f"{target.name}.{DOMAIN}", path],
    )
    scene.act(
        ("host_edit", {"host": "dns-1", "path": path, "old": stale, "new": line}),
        say=f"DNS says {old}, the host has {target.address}. Correcting the record.",
        keep=[path, old, target.address],
    )
    scene.act(
        shell(asker, f"dig +short {target.name}.{DOMAIN}"), think="Check whether the server picked it up by itself."
    )
    scene.act(
        shell("dns-1", "systemctl restart dnsmasq"),
        say="Still the old answer: dnsmasq reads this file only at start.",
        keep=["systemctl restart dnsmasq"],
    )
    scene.act(shell(asker, f"dig +short {target.name}.{DOMAIN}"), shell(asker, f"ping -c 3 {target.name}.{DOMAIN}"))
    scene.say(
        f"{target.name}.{DOMAIN} resolves to {target.address} and answers from {asker}. The record in {path} still had {old}.",
        keep=[target.address, path],
    )


def busy_port(scene: Scene) -> None:
    """Two services want one port."""
    host = scene.world.hosts[scene.pick("app-1", "app-2")]
    path = "/etc/inventory-api/config.toml"
    exporter = host.services["node-exporter"]
    exporter.port, service = 8080, host.services["inventory-api"]
    break_down(scene.world, host, service, "bind 0.0.0.0:8080: address already in use")
    scene.user(
        scene.pick(
            f"After patching {host.name} the inventory API no longer starts.",
            f"inventory-api on {host.name}: failed. And the node metrics of that host disappeared too, maybe related.",
        )
    )
    scene.act(
        shell(host.name, "systemctl --failed"),
        shell(host.name, "journalctl -u inventory-api -n 4"),
        keep=["inventory-api"],
    )
    scene.act(
        shell(host.name, "ss -ltnp | grep 8080"),
        shell(host.name, f"grep listen {path}"),
        think="Address already in use on 8080. Who holds it?",
        keep=["8080"],
    )
    scene.say(
        f"Port 8080 on {host.name} is held by node-exporter (pid {exporter.pid}), which normally listens on 9100. The "
        "package update probably reset its options. I would stop node-exporter and start the API; the exporter's "
        "options then need your package team. All right?",
        keep=["8080", "9100"],
    )
    scene.user(scene.pick("Yes, API first.", "Do it, I'll open a ticket for the exporter."))
    scene.act(shell(host.name, "systemctl stop node-exporter"), keep=["systemctl stop node-exporter"])
    scene.act(
        shell(host.name, "systemctl start inventory-api"),
        shell(host.name, f"curl -s http://{host.name}.{DOMAIN}:8080/health"),
        keep=[f"http://{host.name}.{DOMAIN}:8080/health", "systemctl start inventory-api"],
    )
    scene.say(
        f"inventory-api serves on 8080 again. node-exporter on {host.name} is stopped until its port is back at 9100."
    )
    exporter.port = 9100
    restart(scene.world, host, exporter)


def time_drift(scene: Scene) -> None:
    """A host has lost its time source."""
    host = scene.world.hosts[scene.pick("app-1", "app-2", "log-1", "db-2", "proxy-1")]
    path = "/etc/chrony/chrony.conf"
    wrong = f"10.10.201.{scene.dice.between(100, 199)}"
    good = re.search(r"^pool (\S+)", host.files[path], re.MULTILINE)
    assert good is not None
    right = good[1]
    host.files[path] = host.files[path].replace(right, wrong)
    restart(scene.world, host, host.services["chrony"])
    others = scene.dice.sample([name for name in ("app-1", "app-2", "db-1", "log-1") if name != host.name], 2)
    scene.user(
        scene.pick(
            f"Tokens issued by {host.name} are rejected as not yet valid. Clock?",
            f"Is the clock of {host.name} right? Its log lines are seconds off against {others[0]}.",
        )
    )
    scene.act(
        *(shell(name, "chronyc tracking") for name in (host.name, *others)),
        think=f"Compare {host.name} with two others before changing anything.",
    )
    scene.act(shell(host.name, f"cat {path}"), keep=[path])
    scene.act(
        ("host_edit", {"host": host.name, "path": path, "old": f"pool {wrong} iburst", "new": f"pool {right} iburst"}),
        say=f"{host.name} asks {wrong}; the others use {right}.",
        keep=[wrong, right, path],
    )
    scene.act(shell(host.name, "systemctl restart chrony"), keep=["systemctl restart chrony"])
    scene.act(shell(host.name, "chronyc tracking"))
    scene.say(
        f"{host.name} follows {right} now and its leap status is Normal. It had been pointed at {wrong}.", keep=[right]
    )
