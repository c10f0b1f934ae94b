"""Secrets that only their surroundings give away: assigned to a telling name, or handed to a command or device."""

# ruff: noqa: E501, S105, SIM905  one rule a line, and lists of words as words
from __future__ import annotations

import re

from suite.workload.scrub.interface import Detector, pattern

_PASSWORD = r"(?:pass(?:word|wd|phrase|wort|code)?|pwd|psk|pre-?shared-?key|pin_?code)"
_TOKEN = (
    r"(?:secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|account[_-]?key|signing[_-]?key|encryption[_-]?key"
    r"|shared[_-]?access[_-]?key|license[_-]?key|credential|session[_-]?(?:id|key)|sessid|private[_-]?key|sig|csrf)"
)
_BETWEEN = r"[\"'`\]]{0,2}\s{0,3}(?::=|=>|=|:)\s{0,3}"
_QUOTED = r"\"(?P<v1>[^\"\n]{4,200})\"|'(?P<v2>[^'\n]{4,200})'"
_BARE = r"(?P<v3>[^\s\"'`,;(){}\[\]<>&|]{4,300})"

# What stands where a secret would, and is none.
_PLACEHOLDER = re.compile(
    r"(?i)(?:none|null|nil|true|false|str|string|bytes|int|float|bool|optional|any|object|secret|password|token|required"
    r"|undefined|changeme\W?|your[-_ ].*|my[-_].*key|<.*|\$\{?\w.*|%\(?\w.*|\{\{.*|x{3,}|\*{3,}|\.{3,}|…|redacted|masked"
    r"|hidden|empty|example|placeholder|removed|withheld|unset|n/a|\[.*|not[-_ ]?set|env\(.*|vault:.*)\Z"
)
_CODE = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+\Z|[a-z_]+\(|[A-Z][a-z]+(?:[A-Z][a-z]+)+\Z|[/~][\w./-]*\Z"
)
_TYPE = re.compile(r"(?:[A-Z][a-z]+[0-9]{0,3}){2,6}\Z")
_NOT_A_KEY = re.compile(
    r"(?i)(?:tokens|token_?ids?|token_?count|tokenizer\w*|num_?tokens?|\w*tokens?_(?:type|id|ids|count|limit|len|length|url|usage|dir)"
    r"|(?:password|passwd|secret|token|key)_?(?:file|path|name|policy|length|field|hash_?type|min|max|env|ref|type|expir\w*|lifetime)"
    r"|(?:pad|eos|bos|unk|cls|sep|mask)_?token|(?:first|last|next|max|min|stop|special|per|prompt|input|output)_?tokens?|bypass|compass|sig)\Z"
)


def _value(match: re.Match[str]) -> str:
    return next(value for name, value in match.groupdict().items() if name.startswith("v") and value is not None)


def _is_password(match: re.Match[str]) -> bool:
    value = _value(match)
    name = match.groupdict().get("name") or ""
    if _NOT_A_KEY.match(name) or _PLACEHOLDER.match(value):
        return False
    quoted = match.groupdict().get("v3") is None
    if not quoted and (_CODE.match(value) or (_plain_word(value) and not re.search(r"(?i)pass|pwd|psk", name))):
        return False
    if not quoted and _plain_word(value) and re.match(r"[,;]? [a-z]", match.string[match.end() : match.end() + 3]):
        return False
    # Prose: "Password: incorrect" and "password: at least 12 characters".
    return not (not quoted and value.rstrip(".").lower() in _PROSE)


def _is_token(match: re.Match[str]) -> bool:
    value = _value(match)
    if not _is_password(match) or len(value) < 8 or " " in value or _TYPE.match(value):
        return False
    return any(c.isdigit() for c in value) or (value.lower() != value and value.upper() != value) or len(value) >= 24


def _looks_random(match: re.Match[str]) -> bool:
    value = _value(match)
    return not _PLACEHOLDER.match(value) and not _plain_word(value) and len(value) >= 5


def _not_placeholder(match: re.Match[str]) -> bool:
    return not _PLACEHOLDER.match(_value(match))


def _plain_word(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z]+(?:[-_][a-z]+)*[.:!?]?", value) is not None


_PROSE = frozenset(
    "nothing incorrect correct wrong invalid required accepted rejected expired failed success empty missing changed login must should "
    "cannot is was has and or for the this that with from enter please again prompt authentication at least will may reset".split()
)

DETECTORS: tuple[Detector, ...] = (
    pattern("password", rf"(?i)(?P<name>[A-Za-z0-9_.-]{{0,30}}{_PASSWORD}[A-Za-z0-9_-]{{0,20}}){_BETWEEN}(?:{_QUOTED}|{_BARE})", accept=_is_password),
    pattern("secret", rf"(?i)(?P<name>[A-Za-z0-9_.-]{{0,30}}{_TOKEN}[A-Za-z0-9_-]{{0,20}}){_BETWEEN}(?:{_QUOTED}|{_BARE})", accept=_is_token),
    pattern("password", rf"(?i)<(?P<name>[\w:-]{{0,20}}(?:{_PASSWORD}|secret|token))\b[^<>]{{0,80}}>(?P<v>[^<>\s]{{4,200}})</", accept=_not_placeholder),
    pattern("password", r"(?i)(?:--?(?:password|passwd|pass|passphrase|secret|token|api-?key)[= ]|sshpass -p ?)['\"]?(?P<v>[^\s'\"]{4,200})", accept=_looks_random),
    pattern("password", r"(?:\bmysql(?:dump|admin)?\b[^\n|;]{0,120}\s-p)(?P<v>[^\s'\"-][^\s'\"]{3,100})"),
    pattern("password", r"(?i)\bidentified (?:with \w+ )?by ['\"](?P<v>[^'\"\n]{4,200})['\"]"),
    pattern("password", r"(?i)\b(?:encrypted )?password ['\"](?P<v>[^'\"\n]{4,200})['\"]", accept=_not_placeholder),
    pattern("password", r"(?i)\blogin \S{1,80} password (?P<v>\S{4,200})", accept=_not_placeholder),
    pattern("password", r"(?i)\b(?:the|my|his|her|your|new|old|root|admin|current|temporary|wifi|wi-fi) (?:password|passphrase|passcode|pin) (?:is|was|to|becomes)[: ]{1,2}['\"`]?(?P<v>[^\s'\"`,]{4,100}[^\s'\"`,.])", accept=_looks_random),
    pattern("password", r"(?:\bcurl\b[^\n|;]{0,300}\s(?:-u|--user)[ =]?['\"]?[^\s:'\"]{1,80}:)(?P<v>[^\s'\"]{3,200})"),
    pattern("URL password", r"(?i)\b[a-z][a-z0-9+.-]{0,20}://[^/\s:@'\"]{0,200}:(?P<v>[^/\s@'\"]{2,200})@", accept=_not_placeholder),
    pattern("authorization header", r"(?i)\b(?:bearer|token|apikey|digest|negotiate|splunk|ntlm)\s{1,2}(?P<v>(?=[A-Za-z0-9+/=._~-]{0,300}\d)[A-Za-z0-9+/=._~-]{12,4000})"),
    pattern("authorization header", r"(?i)\b(?:x-[a-z0-9-]{0,30}(?:key|token|secret|auth)|authorization)['\"]?\s?:\s?['\"]?(?!bearer|basic|token|digest|\$|\{|<)(?P<v>[^\s'\",]{8,400})"),
    pattern("device secret", r"(?i)\bsnmp-server (?:community|host \S{1,60}(?: version \S{1,4})?) (?P<v>(?!version|traps|informs)[^\s\"']{3,64})", accept=_not_placeholder),
    pattern("device secret", r"(?i)\b(?:snmp(?:get|walk|set|bulkwalk)\b[^\n|;]{0,100}\s-c ?)['\"]?(?P<v>[^\s'\"]{3,64})"),
    pattern("device secret", r"(?i)\b(?:secret|password|key|key-string|md5|authentication-key|pre-shared-key|passphrase|shared-secret) (?:\d{1,2} |ascii-text |hex )(?P<v>['\"]?[^\s]{4,200})", accept=_looks_random),
    pattern("device secret", r"(?i)\b(?:tacacs-server key|radius-server key|neighbor \S{1,60} password|key-string|wpa-passphrase|crypto isakmp key|ntp authentication-key \d{1,5} md5|standby \d{1,3} authentication(?: md5 key-string)?) (?!\d )(?P<v>[^\s\"']{4,200})", accept=_not_placeholder),
)  # fmt: skip
