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
_DOTTED = re.compile(r"(?:\.{1,2}|~\w*)/|\.\w")
_WORD_CHARACTER = re.compile(r"\w")
_MAC = re.compile(
    r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}"
)
_INTERFACE = re.compile(
    r"(?:(?:(?:HundredGig|FortyGig|TwentyFiveGig|TenGig|Gigabit|FastE|E)[A-Za-z]*|TenGigE|Gi|Te|Fa|Eth|Hu|Fo|Twe|Po|"
    r"Port-channel|Vlan|Vl|Loopback|Lo|Tunnel|Tu|Serial|Se|Management|Mgmt|Bundle-Ether|BVI|ge-|xe-|et-|ae|irb|"
    r"lo|eth|ens|enp|eno|wlan|bond|br|veth|tun|tap|wg|docker|vlan|virbr|swp)[0-9]+(?:[/.:][0-9]+)*"
    r"|en[ops][0-9]+[a-z0-9]*(?:\.[0-9]+)?)"
)
_VERSION = re.compile(r"v?[0-9]+(?:\.[0-9]+){1,4}(?:[-+~][0-9A-Za-z.+~-]+|(?:rc|a|b|post|dev)[0-9]+)?")
_HOST_PORT = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*):([0-9]{1,5})(/[\w./~-]*)?")
_CAMEL = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]+)+")
_PORT_BEFORE = re.compile(r"(?:\bports?|\b[ds]port|\btcp|\budp|(?<![\w-])-p|--port)[ =:/\"']{1,3}$", re.IGNORECASE)
_SQL = re.compile(r"\s*(?:select|insert|update|delete|alter|create)\b", re.IGNORECASE)
_SQL_INSIDE = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE)\b")
_SQL_NAME = re.compile(r"\b(?:from|join|into|update|table)\s+([A-Za-z_]\w*)", re.IGNORECASE)
_PORT_NEAR = re.compile(r"port|tcp|udp|-p", re.IGNORECASE)
_MAX_WORD = 512
# Tried in this order; a group's name is the kind, except for those that `kind_of` looks at again.
_KINDS = re.compile(
    "|".join(
        f"(?P<{kind}>{pattern})"
        for kind, pattern in {
            "plain": r"[^\W\d_]+",
            "number": r"[0-9]+",
            "url": r"https?://.+",
            "uuid": _UUID.pattern,
            "mac": _MAC.pattern,
            "address": r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,3})?",
            "colons": r"(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?",
            "interface": _INTERFACE.pattern,
            "version": _VERSION.pattern,
            "endpoint": r"(?=[^:]*[A-Za-z.])[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}(?:/[\w./~-]*)?",
            "path": r"(?:~?/|\.{1,2}/).*|(?=.*(?:[0-9_.]|/.*/))[^/]+/.*",
            "identifier": r"(?=\w*_|[\w.]*\.\w*_)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*",
            "host": r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}",
            "mixed": r"(?=.*[0-9])(?=.*[^\W\d_]).*",
        }.items()
    )
)


class Word(NamedTuple):
    """One literal of a text."""

    text: str
    kind: str
    """url, uuid, mac, address, network, interface, version, path, endpoint, host, port, number, identifier."""


def _trimmed(token: str) -> tuple[str, int]:
    """A word without the punctuation at its ends (empty if none is left), and how many of them stood before it."""
    if token.startswith("http") and "://" in token:
        return token.rstrip(".,;:!?)]}")[:_MAX_WORD], 0
    word = token if token.startswith("::") else token.lstrip("-:")
    if word.startswith((".", "~")) and not _DOTTED.match(word):
        word = word.lstrip(".~")
    head = len(token) - len(word)
    if not word.endswith("::"):
        word = word.rstrip(".:-")
    if len(word) > 1 and word.endswith("/"):
        word = word.rstrip("/") or "/"
    if not word or len(word) > _MAX_WORD or not _WORD_CHARACTER.search(word):
        return "", 0
    return word, head


def scan(text: str) -> Iterator[tuple[str, str]]:
    """All words of a text with their kinds, in order; the kind of an ordinary word is empty."""
    ports = _PORT_NEAR.search(text) is not None
    memo: dict[str, tuple[str, int, str]] = {}
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token not in memo:
            word, head = _trimmed(token)
            memo[token] = word, head, kind_of(word) if word else ""
        word, head, kind = memo[token]
        if not word:
            continue
        if ports and kind == "number" and len(word) <= 5:
            start = match.start() + head
            yield word, "port" if _PORT_BEFORE.search(text, max(0, start - 12), start) else kind
        else:
            yield word, kind
    if _SQL.match(text) or _SQL_INSIDE.search(text):
        for match in _SQL_NAME.finditer(text):
            if not kind_of(match[1]):
                yield match[1], "identifier"


@lru_cache(maxsize=65536)
def kind_of(word: str) -> str:
    """The kind of one word; empty for a word of ordinary language."""
    match = _KINDS.fullmatch(word)
    kind = match.lastgroup if match else None
    if kind == "plain":
        return "identifier" if _CAMEL.fullmatch(word) else ""
    if kind == "address":
        base, slash, _ = word.partition("/")
        if all(int(part) < 256 for part in base.split(".")):
            return "network" if slash else "address"
        return "version"
    if kind == "colons":
        return _ipv6(word) or "identifier"
    if kind == "mixed":
        return "host" if "-" in word else "identifier"
    return kind or ""


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


def _ipv6(word: str) -> str:
    base, slash, _ = word.partition("/")
    try:
        ipaddress.IPv6Address(base)
    except ValueError:
        return ""
    return "network" if slash else "address"
