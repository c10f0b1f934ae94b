"""Cookies, and private URLs: their hosts are found as host names, their paths here."""

# ruff: noqa: E501, SIM905  one rule a line, and lists of words as words
from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from suite.workload.scrub.hosts import is_private_host
from suite.workload.scrub.interface import Detector, Shape

_COOKIE = re.compile(
    r"(?i)\b(?:set-)?cookie['\"]?\s?[:=]\s?['\"]?([^\n\r'\"]{3,4000})|(?:\bcurl\b[^\n|;]{0,300}\s(?:-b|--cookie) ?['\"]?)([^\n\r'\"]{3,4000})"
)
_PAIR = re.compile(r"([A-Za-z0-9_.~-]{1,80})=([^;\s,]{6,4000})")
_ATTRIBUTES = frozenset(
    {"path", "domain", "expires", "max-age", "samesite", "secure", "httponly", "priority", "version"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cookies:
    """The values in `Cookie` and `Set-Cookie` headers."""

    kind: str = "cookie"
    shape: Shape = "text"

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Detector.find`."""
        for header in _COOKIE.finditer(text):
            group = 1 if header[1] is not None else 2
            for pair in _PAIR.finditer(header[group]):
                if pair[1].lower() not in _ATTRIBUTES:
                    yield header.start(group) + pair.start(2), header.start(group) + pair.end(2)


_URL = re.compile(
    r"(?i)\b(?:https?|ftp|ssh|git|wss?|s3|smb|nfs|ldaps?|postgres(?:ql)?|mysql|redis|mongodb(?:\+srv)?|amqp)://(?:[^/\s@'\"<>]{1,300}@)?(\[[0-9a-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?((?:[/?#][^\s'\"<>)\]}\\]{0,2000})?)"
)
_SEGMENT = re.compile(r"[A-Za-z0-9_%~-]{3,200}")
_COMMON = frozenset(
    "api rest graphql rpc json xml html index login logout auth oauth oauth2 token health healthz ready live status metrics "
    "version docs admin static assets public files download upload search query users groups projects issues pulls "
    "branch branches commit commits tree blob raw main master tags releases chat completions models embeddings "
    "responses extension extensions device devices interfaces config configs display browse pages view views edit new "
    "page limit offset sort order filter format type name value data items list get set post put delete true false "
    "http https www com org net git svn repo repos src bin lib etc var tmp home root usr opt console dashboard "
    "restconf netconf operational running candidate ietf native cisco openconfig".split()
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivateUrls:
    """The words in path and query of URLs whose host is private; `api`, `v1` and the like stay."""

    kind: str = "private URL"
    shape: Shape = "text"

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Detector.find`."""
        for url in _URL.finditer(text):
            if not _is_private(url[1]):
                continue
            for segment in _SEGMENT.finditer(url[2]):
                word = segment[0].lower()
                if word not in _COMMON and not re.fullmatch(r"v\d{1,3}|\d{1,4}", word):
                    yield url.start(2) + segment.start(), url.start(2) + segment.end()


def _is_private(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return is_private_host(host)
    return address.is_private and not address.is_loopback


DETECTORS: tuple[Detector, ...] = (Cookies(), PrivateUrls())
