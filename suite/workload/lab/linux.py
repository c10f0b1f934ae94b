"""Shell commands of the Linux hosts: a fixed set, answered from memory; nothing is ever executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from suite.workload.lab.build import DOMAIN
from suite.workload.lab.clock import device_time, short_duration, unit_time
from suite.workload.lab.model import Host, Service, World
from suite.workload.lab.network import host_reaches
from suite.workload.lab.result import Refused
from suite.workload.lab.units import restart, stop

_MIB_PER_GIB = 1024


def run_host(world: World, host: Host, command: str) -> str:
    """Answer one command; `| grep TEXT`, `| tail -n N` and `| head -n N` may follow it.

    Raises:
        Refused: the command fails; the text ends with its exit code.
    """
    if re.search(r"[;&<>`]|\$\(", command):
        raise Refused("rbash: only single commands are allowed for user netops\n[exit code 1]")
    first, *filters = command.split("|")
    try:
        words = shlex.split(first)
    except ValueError as error:
        raise Refused(f"rbash: syntax error: {str(error).lower()}\n[exit code 2]") from None
    words = words[1:] if words[:1] == ["sudo"] else words
    if not words:
        raise Refused("rbash: empty command\n[exit code 2]")
    handler = _COMMANDS.get(words[0])
    if handler is None:
        raise Refused(f"rbash: {words[0]}: command not found\n[exit code 127]")
    output = handler(world, host, words[1:])
    for part in filters:
        output = _filter(output, shlex.split(part))
    return output or "[exit code 0]"


def _filter(output: str, words: list[str]) -> str:
    lines = output.splitlines()
    if words[:1] == ["grep"] and len(words) >= 2:
        lines = [line for line in lines if words[-1].lower() in line.lower()]
        if not lines:
            raise Refused("[exit code 1]")
        return "\n".join(lines)
    if words[:1] in (["tail"], ["head"]):
        count = next((int(word.lstrip("-n")) for word in words[1:] if word.lstrip("-n").isdigit()), 10)
        return "\n".join(lines[-count:] if words[0] == "tail" else lines[:count])
    raise Refused(f"rbash: {' '.join(words)}: not allowed in a pipe\n[exit code 1]")


def _hostname(world: World, host: Host, rest: list[str]) -> str:
    return f"{host.name}.{DOMAIN}"


def _uptime(world: World, host: Host, rest: list[str]) -> str:
    load = 8 + (world.now // 60 + len(host.files)) % 40
    up = short_duration(world.now - host.boot_time)
    return (
        f" {device_time(world.now)[-8:]} up {up},  1 user,  load average: 0.{load:02d}, 0.{load + 5:02d}, 0.{load:02d}"
    )


def _df(world: World, host: Host, rest: list[str]) -> str:
    lines = ["Filesystem      Size  Used Avail Use% Mounted on"]
    wanted = next((word for word in rest if word.startswith("/")), None)
    mounts = [
        disk.mount for disk in host.disks if wanted is None or (wanted + "/").startswith(disk.mount.rstrip("/") + "/")
    ]
    for disk in host.disks:
        if wanted is not None and disk.mount != max(mounts, key=len):
            continue
        size, used = disk.size_mib / _MIB_PER_GIB, disk.used_mib / _MIB_PER_GIB
        percent = 100 * disk.used_mib // disk.size_mib
        lines.append(f"{disk.device:<14}{size:>4.0f}G {used:>5.0f}G {size - used:>5.1f}G {percent:>3}% {disk.mount}")
    return "\n".join(lines)


def _du(world: World, host: Host, rest: list[str]) -> str:
    wanted = [word for word in rest if not word.startswith("-")] or ["/var"]
    rows = [
        (size, folder)
        for folder, size in host.usage_mib.items()
        if any(folder == item or folder.startswith(item.rstrip("/*") + "/") for item in wanted)
    ]
    if not rows:
        raise Refused(f"du: cannot access '{wanted[0]}': No such file or directory\n[exit code 1]")
    return "\n".join(
        f"{size / _MIB_PER_GIB:.1f}G\t{folder}" if size >= _MIB_PER_GIB else f"{size}M\t{folder}"
        for size, folder in sorted(rows, reverse=True)
    )


def _free(world: World, host: Host, rest: list[str]) -> str:
    used = 2100 + (world.now // 300 + int(host.mac[-2:], 16)) % 900
    return (
        "               total        used        free      shared  buff/cache   available\n"
        f"Mem:           15980        {used}        {3900 - used // 8}         212        9120       {15400 - used}\n"
        "Swap:           2047           0        2047"
    )


def _ip(world: World, host: Host, rest: list[str]) -> str:
    words = [word for word in rest if not word.startswith("-")]
    if words[:1] in (["route"], ["r"]):
        gateway = host.address.rsplit(".", 1)[0] + ".1"
        network = host.address.rsplit(".", 1)[0] + ".0/24"
        direct = f"{network} dev eno1 proto kernel scope link src {host.address}"
        return f"default via {gateway} dev eno1 proto static\n{direct}"
    mac = host.mac.replace(".", "")
    pairs = ":".join(mac[index : index + 2] for index in range(0, 12, 2))
    return (
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 state UNKNOWN\n    inet 127.0.0.1/8 scope host lo\n"
        f"2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n    link/ether {pairs} brd ff:ff:ff:ff:ff:ff\n"
        f"    inet {host.address}/24 scope global eno1"
    )


def _ss(world: World, host: Host, rest: list[str]) -> str:
    flags = "".join(word.lstrip("-") for word in rest if word.startswith("-"))
    wanted = {"tcp" if "t" in flags else "", "udp" if "u" in flags else ""}
    lines = ["Netid State  Local Address:Port  Process"]
    for service in sorted(host.services.values(), key=lambda item: item.port or 0):
        if service.port and service.state == "active" and service.protocol in wanted:
            state = "LISTEN" if service.protocol == "tcp" else "UNCONN"
            process = f'users:(("{service.name}",pid={service.pid},fd=7))'
            lines.append(f"{service.protocol:<6}{state:<7}{f'*:{service.port}':<20}{process}")
    return "\n".join(lines)


def _service(host: Host, name: str) -> Service:
    service = host.services.get(name.removesuffix(".service"))
    if service is None:
        raise Refused(f"Unit {name.removesuffix('.service')}.service could not be found.\n[exit code 4]")
    return service


def _systemctl(world: World, host: Host, rest: list[str]) -> str:
    words = [word for word in rest if not word.startswith("--")]
    if "--failed" in rest:
        failed = [service for service in host.services.values() if service.state == "failed"]
        lines = ["  UNIT                     LOAD   ACTIVE SUB    DESCRIPTION"]
        lines += [f"● {s.name + '.service':<25}loaded failed failed {s.description}" for s in failed]
        return "\n".join([*lines, f"{len(failed)} loaded units listed."])
    if len(words) < 2:
        raise Refused("Too few arguments.\n[exit code 1]")
    verb, service = words[0], _service(host, words[1])
    if verb == "status":
        return _status(world, host, service)
    if verb == "is-active":
        if service.state != "active":
            raise Refused(f"{service.state}\n[exit code 3]")
        return "active"
    if verb in ("restart", "start", "reload"):
        restart(world, host, service)
        return ""
    if verb == "stop":
        stop(world, service)
        return ""
    raise Refused(f"Unknown command verb {verb}.\n[exit code 1]")


def _status(world: World, host: Host, service: Service) -> str:
    mark = {"active": "●", "failed": "×", "inactive": "○"}[service.state]
    state = {"active": "active (running)", "failed": "failed (Result: exit-code)", "inactive": "inactive (dead)"}
    lines = [
        f"{mark} {service.name}.service - {service.description}",
        f"     Loaded: loaded (/lib/systemd/system/{service.name}.service; enabled; preset: enabled)",
        f"     Active: {state[service.state]} since {unit_time(service.since)}; "
        f"{short_duration(world.now - service.since)} ago",
    ]
    if service.state == "active":
        lines.append(f"   Main PID: {service.pid} ({service.name})")
    journal = _journal_lines(host, service, 4)
    if service.state != "active":
        return _fail("\n".join([*lines, *([""] if journal else []), *journal]), 3)
    return "\n".join([*lines, *([""] if journal else []), *journal])


def _fail(text: str, code: int) -> str:
    raise Refused(f"{text}\n[exit code {code}]")


def _journal_lines(host: Host, service: Service, count: int) -> list[str]:
    return [f"{device_time(when)} {host.name} {text}" for when, text in service.journal[-count:]]


def _journalctl(world: World, host: Host, rest: list[str]) -> str:
    for word in rest:
        if word.startswith("--vacuum-size="):
            freed = max(0, host.usage_mib.get("/var/log/journal", 0) - 200)
            if freed:
                host.usage_mib["/var/log/journal"] = 200
                host.usage_mib["/var/log"] -= freed
                next(disk for disk in host.disks if disk.mount == "/var").used_mib -= freed
            return f"Vacuuming done, freed {freed / _MIB_PER_GIB:.1f}G of archived journals from /var/log/journal."
    if "-u" not in rest or rest.index("-u") + 1 >= len(rest):
        raise Refused("journalctl: name a unit with -u\n[exit code 1]")
    service = _service(host, rest[rest.index("-u") + 1])
    count = 10
    if "-n" in rest and rest.index("-n") + 1 < len(rest) and rest[rest.index("-n") + 1].isdigit():
        count = int(rest[rest.index("-n") + 1])
    lines = _journal_lines(host, service, count)
    return "\n".join(lines) if lines else "-- No entries --"


def _cat(world: World, host: Host, rest: list[str]) -> str:
    path = rest[-1] if rest else ""
    if path not in host.files:
        raise Refused(f"cat: {path}: No such file or directory\n[exit code 1]")
    return host.files[path].rstrip("\n")


def _ls(world: World, host: Host, rest: list[str]) -> str:
    folder = next((word for word in rest if not word.startswith("-")), "/etc").rstrip("/")
    names = sorted({path[len(folder) + 1 :].split("/")[0] for path in host.files if path.startswith(folder + "/")})
    if not names:
        raise Refused(f"ls: cannot access '{folder}': No such file or directory\n[exit code 2]")
    return "\n".join(names)


def _grep(world: World, host: Host, rest: list[str]) -> str:
    words = [word for word in rest if not word.startswith("-")]
    if len(words) != 2:
        raise Refused("usage: grep PATTERN FILE\n[exit code 2]")
    found = [line for line in _cat(world, host, words[1:]).splitlines() if words[0].lower() in line.lower()]
    if not found:
        raise Refused("[exit code 1]")
    return "\n".join(found)


def resolve(world: World, name: str) -> str | None:
    """What the name server answers: from the records it has loaded, while it runs."""
    server = world.hosts["dns-1"].services["dnsmasq"]
    if server.state != "active":
        return None
    full = name if name.endswith(DOMAIN) else f"{name}.{DOMAIN}"
    match = re.search(rf"^host-record={re.escape(full)},(\S+)$", server.loaded, re.MULTILINE)
    return match[1] if match else None


def _target(world: World, name: str) -> str | None:
    if re.fullmatch(r"\d+\.\d+\.\d+\.\d+", name):
        return name
    return resolve(world, name)


def _ping(world: World, host: Host, rest: list[str]) -> str:
    words = [word for word in rest if not word.startswith("-") and not word.isdigit()]
    if not words:
        raise Refused("ping: usage error: Destination address required\n[exit code 1]")
    address = _target(world, words[-1])
    if address is None:
        raise Refused(f"ping: {words[-1]}: Name or service not known\n[exit code 2]")
    head = f"PING {words[-1]} ({address}) 56(84) bytes of data."
    if not host_reaches(world, host, address):
        return _fail(
            f"{head}\n\n--- {words[-1]} ping statistics ---\n3 packets transmitted, 0 received, 100% packet loss", 1
        )
    delay = 40 + sum(int(part) for part in address.split(".")) % 50
    replies = [f"64 bytes from {address}: icmp_seq={n} ttl=62 time=0.{delay + n} ms" for n in (1, 2, 3)]
    tail = f"\n--- {words[-1]} ping statistics ---\n3 packets transmitted, 3 received, 0% packet loss"
    return "\n".join([head, *replies, tail])


def _dig(world: World, host: Host, rest: list[str]) -> str:
    names = [word for word in rest if not word.startswith(("+", "@", "-")) and word not in ("A", "a")]
    if not names:
        raise Refused("dig: no name given\n[exit code 1]")
    if world.hosts["dns-1"].services["dnsmasq"].state != "active":
        raise Refused(";; communications error to 10.10.201.53#53: connection refused\n[exit code 9]")
    return resolve(world, names[0]) or ""


def _curl(world: World, host: Host, rest: list[str]) -> str:
    url = next((word for word in rest if word.startswith("http")), "")
    match = re.fullmatch(r"(https?)://([^/:]+)(?::(\d+))?(/.*)?", url)
    if match is None:
        raise Refused("curl: (3) URL rejected: Malformed input\n[exit code 3]")
    scheme, name, port, path = (
        match[1],
        match[2],
        int(match[3] or (443 if match[1] == "https" else 80)),
        match[4] or "/",
    )
    proxied = name.split(".")[0] == "inventory"
    address = (
        world.hosts["proxy-1"].address if proxied else "127.0.0.1" if name == "localhost" else _target(world, name)
    )
    if address is None:
        raise Refused(f"curl: (6) Could not resolve host: {name}\n[exit code 6]")
    server = next((item for item in world.hosts.values() if item.address == address), host)
    listening = any(s.port == port and s.state == "active" and s.protocol == "tcp" for s in server.services.values())
    if not listening or not host_reaches(world, host, server.address):
        raise Refused(
            f"curl: (7) Failed to connect to {name} port {port} after 1 ms: Couldn't connect to server\n[exit code 7]"
        )
    if port == 8080 or proxied:
        if not api_is_up(world):
            return "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
        if path == "/health":
            return '{"status":"ok","database":"ok","version":"2.9.1"}'
    return f"HTTP/1.1 200 OK ({scheme})" if path == "/" else "404 page not found"


def api_is_up(world: World) -> bool:
    """Whether at least one inventory API process runs."""
    return any(world.hosts[name].services["inventory-api"].state == "active" for name in ("app-1", "app-2"))


def _chronyc(world: World, host: Host, rest: list[str]) -> str:
    match = re.search(r"^(?:pool|server) (\S+)", host.services["chrony"].loaded, re.MULTILINE)
    server = match[1] if match else "0.0.0.0"  # noqa: S104
    good = server == "10.10.201.31" or host.name == "mon-1"
    return (
        f"Reference ID    : {'0A0AC91F' if good else '00000000'} ({server if good else ''})\n"
        f"Stratum         : {2 if good else 0}\n"
        f"System time     : {'0.000021' if good else '4.218377'} seconds slow of NTP time\n"
        f"Leap status     : {'Normal' if good else 'Not synchronised'}"
    )


def _nginx(world: World, host: Host, rest: list[str]) -> str:
    path = "/etc/nginx/sites-enabled/inventory.conf"
    if path not in host.files:
        raise Refused("rbash: nginx: command not found\n[exit code 127]")
    if host.files[path].count("{") != host.files[path].count("}"):
        raise Refused(
            f"nginx: [emerg] unexpected end of file in {path}\nnginx: configuration file test failed\n[exit code 1]"
        )
    return "nginx: configuration file /etc/nginx/nginx.conf test is successful"


_COMMANDS: dict[str, Callable[[World, Host, list[str]], str]] = {
    "hostname": _hostname, "uptime": _uptime, "df": _df, "du": _du, "free": _free, "ip": _ip, "ss": _ss,
    "systemctl": _systemctl, "journalctl": _journalctl, "cat": _cat, "ls": _ls, "grep": _grep, "ping": _ping,
    "dig": _dig, "curl": _curl, "chronyc": _chronyc, "nginx": _nginx,
}  # fmt: skip


def edit_file(host: Host, path: str, old: str, new: str) -> str:
    """Replace one piece of text in a file.

    Raises:
        Refused: no such file, or the text stands there not exactly once.
    """
    if path not in host.files:
        raise Refused(f"error: {path} does not exist on {host.name}")
    count = host.files[path].count(old) if old else 0
    if count != 1:
        raise Refused(f"error: the text to replace stands {count} times in {path}; it must stand there once")
    host.files[path] = host.files[path].replace(old, new)
    number = host.files[path][: host.files[path].index(new)].count("\n") + 1 if new else 0
    return f"{path}: 1 replacement" + (f" at line {number}" if new else "")
