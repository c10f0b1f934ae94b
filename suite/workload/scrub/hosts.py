"""Host names: which are private, and where they stand."""

# ruff: noqa: E501, SIM905  one rule a line, and lists of words as words
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from suite.workload.scrub.interface import Detector, Shape, pattern

_PRIVATE_SUFFIXES = frozenset("local lan internal intranet corp localdomain arpa".split())
_PUBLIC_SUFFIXES = frozenset(
    "com org net edu gov mil int eu de uk fr nl se no fi dk ch at be es pt pl cz ru ua jp cn kr au nz ca br mx us cloud "
    "tech online store systems network solutions company software digital".split()
)
_AMBIGUOUS_SUFFIXES = frozenset("io ai app dev info co in it tv cc ly gg xyz site".split())
"""Ends of hosts that also end names in programs: taken where something else says that it is a host."""
_RESERVED = frozenset({"example", "test", "invalid", "localhost"})
_KEPT = frozenset(
    "example.com example.org example.net github.com githubusercontent.com gitlab.com bitbucket.org huggingface.co hf.co "
    "python.org nodejs.org debian.org ubuntu.com kernel.org gnu.org "
    "apache.org mozilla.org w3.org ietf.org iana.org wikipedia.org stackoverflow.com stackexchange.com google.com "
    "googleapis.com gstatic.com microsoft.com windows.com azure.com office.com amazon.com amazonaws.com aws.com apple.com "
    "openai.com anthropic.com nvidia.com pytorch.org docker.com docker.io quay.io ghcr.io k8s.io kubernetes.io json-schema.org "
    "schema.org openssl.org letsencrypt.org cloudflare.com slack.com discord.com cisco.com juniper.net arista.com redhat.com "
    "fedoraproject.org archlinux.org alpinelinux.org postgresql.org mysql.com sqlite.org redis.io mongodb.com elastic.co "
    "grafana.com prometheus.io hashicorp.com terraform.io ansible.com readthedocs.io rust-lang.org docs.rs golang.org "
    "go.dev oracle.com java.com youtube.com twitter.com x.com linkedin.com facebook.com reddit.com arxiv.org "
    "ntp.org opensource.org creativecommons.org spdx.org semver.org vllm.ai".split()
)
GENERIC = frozenset(
    "www api app apps web mail smtp imap pop ftp sftp ssh vpn dns ns ns1 ns2 mx db sql git svn wiki docs doc auth login sso "
    "static cdn img assets dev test stage staging prod production host hosts server servers node nodes router switch "
    "gateway proxy cache backup monitor monitoring grafana prometheus jenkins gitlab nexus registry portal intranet "
    "internal local lan corp home office lab cloud net com org io co uk de eu us the and for data main default "
    "svc cluster arpa in-addr ip6 prod-1 localhost localdomain domain private public core edge access site admin".split()
)
"""Labels that say nothing about whose host it is; they stay."""

_NAME = re.compile(
    r"(?<![\w.@%-])(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,20}(?![\w-]|\.\w|\()|"
    r"(?<=@)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,20}(?![\w-]|\.\w|\()"
)
_LABEL = re.compile(r"[^.]+")
_PROGRAM_WORDS = frozenset(
    "self this threading thread window document module process console os sys path math json".split()
)


def is_private_host(host: str) -> bool:
    """Whether a host name is to be hidden: no well-known public host, no reserved name, no address of this host."""
    labels = host.lower().rstrip(".").split(".")
    if labels[-1] in _RESERVED or host.lower() in ("localhost", ""):
        return False
    if len(labels) == 1:
        return labels[0] not in GENERIC and not labels[0].isdigit()
    return not any(".".join(labels[k:]) in _KEPT for k in range(len(labels) - 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class HostNames:
    """The telling labels of full host names; `www`, `com` and the like stay."""

    kind: str = "host name"
    shape: Shape = "name"

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Detector.find`."""
        for match in _NAME.finditer(text):
            labels = match[0].lower().split(".")
            if not self._is_host(labels, text[max(0, match.start() - 3) : match.start()]):
                continue
            if not is_private_host(match[0]):
                continue
            last = len(labels) - 1
            for index, label in enumerate(_LABEL.finditer(match[0])):
                word = label[0].lower()
                if (
                    index < last
                    and word not in GENERIC
                    and not word.isdigit()
                    and word not in _SECOND_LEVEL
                    and len(word) > 1
                ):
                    yield match.start() + label.start(), match.start() + label.end()

    @staticmethod
    def _is_host(labels: list[str], before: str) -> bool:
        marked = before.endswith(("//", "@"))
        suffix = labels[-1]
        if labels[0] in _PROGRAM_WORDS and not marked:
            return False
        if suffix in _PUBLIC_SUFFIXES or suffix in _PRIVATE_SUFFIXES:
            return True
        return suffix in _AMBIGUOUS_SUFFIXES and (marked or len(labels) >= 3)


_SECOND_LEVEL = frozenset({"co", "com", "ac", "gov", "org", "net"})
_LINE = r"(?:(?<![^\n\"'>`|=])|(?<=\\n))"
"""At the beginning of a line, or of a text that a tool wrapped in quotes."""
_SHORT = r"(?P<v>[A-Za-z][A-Za-z0-9-]{1,40}[A-Za-z0-9])"


def _accept(match: re.Match[str]) -> bool:
    word = match["v"].lower()
    return word not in GENERIC and word not in _NO_HOSTS


def _accept_marked(match: re.Match[str]) -> bool:
    """Where the surroundings are weaker: a digit or a hyphen must make it a device's name."""
    return _accept(match) and bool(re.search(r"\d|-", match["v"])) and not re.fullmatch(r"(?i)v?\d[\d.-]*", match["v"])


_NO_HOSTS = frozenset("true false none null string name the this that with unknown any all self remote target".split())

DETECTORS: tuple[Detector, ...] = (
    HostNames(),
    pattern("host name", rf"(?i)\b(?:host_?name|fqdn|node_?name|computer_?name|machine_?name|device_?name|sysname)['\"]?\s{{0,3}}[:=]\s{{0,3}}['\"]?{_SHORT}(?![\w.-])", "name", _accept),
    pattern("host name", rf"(?i){_LINE}\s{{0,4}}hostname {_SHORT}(?=[\s\"'\\<]|$)", "name", _accept),
    pattern("host name", rf"(?i)['\"]?\b(?:host|server|device|node)['\"]?\s?[:=]\s?['\"]?{_SHORT}(?![\w.-])", "name", _accept_marked),
    pattern("host name", rf"(?<![\w.-])[a-z_][a-z0-9_-]{{0,31}}@{_SHORT}(?=[:~ ][^\n]{{0,80}}[$#]|:[~/])", "name", _accept),
    pattern("host name", rf"{_LINE}(?:<\d{{1,3}}>)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s{{1,2}}\d{{1,2}} \d\d:\d\d:\d\d {_SHORT} ", "name", _accept),
    pattern("host name", rf"\bLinux {_SHORT} \d\.\d{{1,2}}\.", "name", _accept),
    pattern("host name", rf"{_LINE}{_SHORT}(?:\([a-z-]{{3,30}}\))?[#>](?=\s?(?:show|conf|ping|exit|end|write|copy|reload|no|int|traceroute|clear|debug|sh)\b)", "name", _accept),
    pattern("host name", rf"\b(?:ssh|ping|telnet|mosh|traceroute|nslookup|dig|host) (?:-\w{{1,3}} (?:\S{{1,40}} )?){{0,4}}(?:[\w.-]{{1,40}}@)?{_SHORT}(?![\w.@=/-])", "name", _accept_marked),
)  # fmt: skip
