"""Words of a text that mean one exact thing: addresses, interfaces, hosts, paths, identifiers. Their kinds and parts.

A word ends where `suite.workload.literals` ends it: `. / : -` with a word character behind belong to it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(r"""https?://[^\s"'<>`\\]+|[\w./:~-]+""")
_URL = re.compile(r"(https?)://([^/?#\s:]+)(?::([0-9]{1,5}))?([^?#\s]*)(?:\?([^#\s]*))?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAC = re.compile(
    r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}"
)
_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_INTERFACE = re.compile(
    r"(?:(?:(?:HundredGig|FortyGig|TwentyFiveGig|TenGig|Gigabit|FastE|E)[A-Za-z]*|TenGigE|Gi|Te|Fa|Eth|Hu|Fo|Twe|Po|"
    r"Port-channel|Vlan|Vl|Loopback|Lo|Tunnel|Tu|Serial|Se|Management|Mgmt|Bundle-Ether|BVI|ge-|xe-|et-|ae|irb|"
    r"lo|eth|ens|enp|eno|wlan|bond|br|veth|tun|tap|wg|docker|vlan|virbr|swp)[0-9]+(?:[/.:][0-9]+)*"
    r"|en[ops][0-9]+[a-z0-9]*(?:\.[0-9]+)?)"
)
_VERSION = re.compile(r"v?[0-9]+(?:\.[0-9]+){1,4}(?:[-+~][0-9A-Za-z.+~-]+|(?:rc|a|b|post|dev)[0-9]+)?")
_HOST_PORT = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*):([0-9]{1,5})(/[\w./~-]*)?")
_FQDN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CAMEL = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]+)+")
_PORT_BEFORE = re.compile(r"(?:\bports?|\b[ds]port|\btcp|\budp|(?<![\w-])-p|--port)[ =:/\"']{1,3}$", re.IGNORECASE)
_SQL = re.compile(r"\s*(?:select|insert|update|delete|alter|create)\b", re.IGNORECASE)
_SQL_INSIDE = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE)\b")
_SQL_NAME = re.compile(r"\b(?:from|join|into|update|table)\s+([A-Za-z_]\w*)", re.IGNORECASE)
_EDGES = ".:/-"
_MAX_WORD = 512

ADDRESS_KINDS = frozenset({"address", "network", "mac"})


class Word(NamedTuple):
    """One literal of a text."""

    text: str
    kind: str
    """url, uuid, mac, address, network, interface, version, path, endpoint, host, port, number, identifier."""


def split(text: str) -> Iterator[tuple[str, int]]:
    """All words of a text with their positions, plain ones included; punctuation at their ends is cut off."""
    for match in _TOKEN.finditer(text):
        word, start = match[0], match.start()
        if word.startswith("http") and "://" in word:
            yield word.rstrip(".,;:!?)]}"), start
            continue
        head = 0 if word.startswith("::") else len(word) - len(word.lstrip("-:"))
        word = word[head:]
        if word.startswith((".", "~")) and not re.match(r"(?:\.{1,2}|~\w*)/|\.\w", word):
            stripped = word.lstrip(".~")
            head += len(word) - len(stripped)
            word = stripped
        if not word.endswith("::"):
            word = word.rstrip(".:-")
        if len(word) > 1 and word.endswith("/"):
            word = word.rstrip("/") or "/"
        if word and len(word) <= _MAX_WORD and not set(word) <= set(_EDGES + "~"):
            yield word, start + head


def literals(text: str) -> Iterator[Word]:
    """The literals of a text in their order."""
    for word, start in split(text):
        kind = kind_of(word)
        if kind == "number" and len(word) <= 5 and _PORT_BEFORE.search(text, max(0, start - 12), start):
            yield Word(word, "port")
        elif kind:
            yield Word(word, kind)
    if _SQL.match(text) or _SQL_INSIDE.search(text):
        for match in _SQL_NAME.finditer(text):
            if not kind_of(match[1]):
                yield Word(match[1], "identifier")


@lru_cache(maxsize=65536)
def kind_of(word: str) -> str:
    """The kind of one word; empty for a word of ordinary language."""
    if word.isalpha():
        return "identifier" if _CAMEL.fullmatch(word) else ""
    if word.isdecimal():
        return "number"
    for kind, pattern in _PATTERNS:
        if pattern.fullmatch(word):
            return kind
    if address := _address(word):
        return address
    if _INTERFACE.fullmatch(word):
        return "interface"
    if _VERSION.fullmatch(word):
        return "version"
    if word.startswith(("/", "~/", "./", "../")) or (word.count("/") and re.search(r"[0-9_.]|/.*/", word)):
        match = _HOST_PORT.fullmatch(word)
        return "endpoint" if match and 0 < int(match[2]) < 65536 else "path"
    match = _HOST_PORT.fullmatch(word)
    if match and 0 < int(match[2]) < 65536 and not match[1].isdecimal():
        return "endpoint"
    if "_" in word and _IDENTIFIER.fullmatch(word):
        return "identifier"
    if _FQDN.fullmatch(word):
        return "host"
    if "-" in word and any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
        return "host"
    if any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
        return "identifier"
    return ""


def parts(word: str, kind: str) -> tuple[str, ...]:
    """What a literal is made of and may be taken from: of a network its address, of an endpoint host and port.

    An interface has no parts: `GigabitEthernet0/0/1` is another one than `GigabitEthernet0/0/1.201`.
    """
    if kind == "url" and (match := _URL.fullmatch(word)):
        query = re.split(r"[=&]", match[5]) if match[5] else []
        path = [match[4], *parts(match[4], "path")] if match[4].strip("/") else []
        return tuple(item for item in (match[2], match[3], *path, *query) if item)
    if kind == "endpoint" and (match := _HOST_PORT.fullmatch(word)):
        return tuple(item for item in match.groups() if item)
    if kind == "network":
        return tuple(word.split("/", 1))
    if kind == "path":
        return tuple(item for item in re.split(r"[/:]", word) if item.strip("~."))
    if kind == "identifier" and "." in word:
        return tuple(word.split("."))
    return ()


def _address(word: str) -> str:
    if word.count(":") < 2 and "." not in word:
        return ""
    base, slash, length = word.partition("/")
    if _IPV4.fullmatch(base):
        if all(int(part) < 256 for part in base.split(".")) and (not slash or length.isdecimal()):
            return "network" if slash else "address"
        return ""
    if word.count(":") < 2 or not re.fullmatch(r"[0-9a-fA-F:.]+", base) or (slash and not length.isdecimal()):
        return ""
    try:
        ipaddress.IPv6Address(base)
    except ValueError:
        return ""
    return "network" if slash else "address"


_PATTERNS = (("url", _URL), ("uuid", _UUID), ("mac", _MAC))
