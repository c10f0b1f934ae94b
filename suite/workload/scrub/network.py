"""Addresses: IPv4, IPv6, MAC; e-mail and telephone; serial numbers and payment cards."""

# ruff: noqa: E501  one rule a line, and lists of words as words
from __future__ import annotations

import ipaddress
import re

from suite.workload.scrub.interface import Detector, pattern

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_KEPT_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "127.0.0.0/8", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "::/127", "2001:db8::/32", "ff00::/8",
    )
)  # fmt: skip
"""This host, loopback, documentation, multicast, masks."""
_KEPT_ADDRESSES = frozenset({"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "169.254.169.254"})
_VERSION = re.compile(r"(?i)(?:\bv|\bversion[ :=]{1,3}|\brelease |==|>=|<=|~=|@|\bsection |§ ?)$")


def _is_ipv4(match: re.Match[str]) -> bool:
    if match[0] in _KEPT_ADDRESSES or _VERSION.search(match.string, max(0, match.start() - 12), match.start()):
        return False
    address = ipaddress.ip_address(match[0])
    # A wildcard mask, 0.0.0.255, lies in 0.0.0.0/8. An address lies in no network of the other version.
    return not any(address in network for network in _KEPT_NETWORKS)


def _is_ipv6(match: re.Match[str]) -> bool:
    try:
        address = ipaddress.ip_address(match[0])
    except ValueError:
        return False
    if any(address in network for network in _KEPT_NETWORKS):
        return False
    groups = [group for group in match[0].split(":") if group]
    # `std::dec`, `abc::def`: words of a program that happen to be hex.
    return any(c.isdigit() for c in str(match[0])) and (len(groups) >= 3 or len(groups[0]) == 4) and len(groups[0]) >= 2


def _is_mac(match: re.Match[str]) -> bool:
    digits = re.sub(r"[^0-9a-f]", "", match[0].lower())
    return digits not in ("0" * 12, "f" * 12) and not digits.startswith(("01005e", "3333", "0180c2"))


def _is_phone(match: re.Match[str]) -> bool:
    digits = sum(c.isdigit() for c in str(match["v"]))
    return 7 <= digits <= 15


def _has_digit(match: re.Match[str]) -> bool:
    return any(c.isdigit() for c in match["v"]) and not re.fullmatch(r"\d{1,5}", match["v"])


def _luhn(match: re.Match[str]) -> bool:
    digits = [int(c) for c in match[0] if c.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    doubled = [d if i % 2 == 0 else (2 * d - 9 if d > 4 else 2 * d) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


_HEXPAIR = "[0-9A-Fa-f]{2}"

DETECTORS: tuple[Detector, ...] = (
    pattern("IPv4 address", rf"(?<![\w.])(?<!\d-)(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.\d)", "ipv4", _is_ipv4),
    pattern("IPv6 address", r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:){1,7}(?::|[0-9A-Fa-f]{1,4})(?::?[0-9A-Fa-f]{1,4}){0,7}(?![\w:])", "ipv6", _is_ipv6),
    pattern("MAC address", rf"(?<![\w:-])(?:{_HEXPAIR}:){{5}}{_HEXPAIR}(?![\w:])|(?<![\w-])(?:{_HEXPAIR}-){{5}}{_HEXPAIR}(?![\w-])", "mac", _is_mac),
    pattern("MAC address", r"(?<![\w.])[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![\w.]\w|\w)", "mac", _is_mac),
    pattern("telephone number", r"(?<![\w+/.-])(?P<v>\+[1-9]\d{0,2}[ .()/-]{0,2}(?:\d[ .()/-]{0,2}){6,13}\d)(?!\d|[.-]\d)", accept=_is_phone),
    pattern("telephone number", r"(?<![\w+/.-])(?P<v>\(?[2-9]\d{2}\)?[ .-]\d{3}[.-]\d{4})(?![\w-]|\.\d)", accept=_is_phone),
    pattern("telephone number", r"(?i)\b(?:phone|tel|telephone|mobile|cell|fax|handy|call|sms|whatsapp|dial)(?:[ _-]?(?:number|no))?['\"]?\.?\s?[:=#]?\s?['\"]?(?P<v>[+(]?\d(?:[ .()/-]{0,2}\d){6,14})(?![\w-])", accept=_is_phone),
    pattern("serial number", r"(?i)\b(?:serial(?:[ _-]?(?:number|num|no|#))?|s/n|sn|service[ _-]?tag|asset[ _-]?(?:tag|id)|chassis[ _-]?(?:serial|id|sn)|processor board id|imei|iccid|imsi|system serial number)['\"]?\s{0,30}[:=#]?\s{0,8}(?:is\s)?['\"]?(?P<v>[A-Z0-9][A-Z0-9-]{5,24})(?![\w-])", accept=_has_digit),
    pattern("serial number", r"(?<![\w-])(?P<v>[A-Z]{3}\d{4}[A-Z0-9]{4})(?![\w-])"),
    pattern("payment card", r"(?<![\w.-])(?:\d{4}[ -]?){3}\d{1,7}(?![\w-]|\.\d)", accept=_luhn),
)  # fmt: skip
