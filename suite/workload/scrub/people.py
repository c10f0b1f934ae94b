"""User names, people's names and e-mail addresses."""

# ruff: noqa: E501, SIM905  one rule a line, and lists of words as words
from __future__ import annotations

import re

from suite.workload.scrub.interface import Detector, pattern

_PUBLIC_USERS = frozenset(
    "root admin administrator user username users ubuntu debian nobody www-data postgres mysql git daemon guest test tester "
    "runner vagrant ec2-user centos fedora core pi app node nginx apache http httpd system service default none null true "
    "false anonymous public shared docker jenkins ansible oracle redis mongodb bin sys sync games man mail news proxy backup "
    "list irc systemd messagebus sshd your you me my the name example string str int type id uid gid "
    "current other group owner all any self new old workspace runneradmin linuxbrew operator netops support info sales "
    "contact noreply no-reply postmaster hostmaster webmaster security abuse help team dev ops hello nologin home usr var "
    "staff wheel adm audio video total".split()
)
_NAME = r"(?P<v>[A-Za-z][A-Za-z0-9._-]{1,31})"
_LINE = r"(?:(?<![^\n\"'>`|=])|(?<=\\n))"
_COMMAND = r"(?:(?<![^\n\"'>`|;&])|(?<=[$#;|&] )|(?<=sudo )|(?<=\\n))"
_FIELD = r"(?:user_?name|user|login|owner|account|logname|pguser|db_?user|run_?as|sudo_user|created_?by|author|assignee|reporter)"
_WORD = r"[A-Z][a-zà-öø-ÿ'’-]{1,30}"


def _accept(match: re.Match[str]) -> bool:
    word = match["v"].strip(".").lower()
    return len(word) >= 3 and word not in _PUBLIC_USERS


def _accept_field(match: re.Match[str]) -> bool:
    return _accept(match) and not re.search(r"\.(?:py|js|name|id|email)$", match["v"])


def _accept_email(match: re.Match[str]) -> bool:
    local, domain = match["v"].lower(), match["domain"].lower()
    if domain.split(".")[-1] in ("example", "test", "invalid", "localhost") or re.search(
        r"(?:^|\.)example\.(?:com|org|net)$", domain
    ):
        return False
    if local == "git" or re.fullmatch(r"[\d.]+", domain) or domain.endswith((".png", ".jpg", ".js", ".css", ".svg")):
        return False
    return local not in _PUBLIC_USERS


DETECTORS: tuple[Detector, ...] = (
    pattern("email address", r"(?<![\w.+/-])(?P<v>[A-Za-z0-9](?:[A-Za-z0-9._%+'-]{0,62}[A-Za-z0-9_+-])?)@(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-]|\.\w|:\S)", "name", _accept_email),
    pattern("user name", rf"(?<![\w.-])/(?:home|Users|export/home|var/home)/{_NAME}(?=[/\s'\":;,)\]}}]|$)", "name", _accept),
    pattern("user name", rf"(?i)\b[A-Z]:\\{{1,4}}Users\\{{1,4}}{_NAME}", "name", _accept),
    pattern("user name", rf"(?i)\b{_FIELD}(?:['\"]\s?[:=]\s?['\"]?|\s?[:=]\s?['\"]){_NAME}(?![\w.@(:/-])", "name", _accept_field),
    pattern("user name", rf"(?i)\b{_FIELD}={_NAME}(?![\w.@(:/)\[-])", "name", _accept_field),
    pattern("user name", rf"(?im)^\s{{0,20}}(?:- )?{_FIELD}\s?[:=]\s{{1,20}}{_NAME}\s*$", "name", _accept_field),
    pattern("user name", rf"(?<![\w.@/-]){_NAME}@(?!example)[A-Za-z][A-Za-z0-9.-]{{1,60}}(?=:[~/\w]|[:~ ][^\n]{{0,80}}[$#] )", "name", _accept),
    pattern("user name", rf"\b(?:ssh|scp|rsync|sftp)\b(?: -\w{{1,3}}(?: \S{{1,60}})?){{0,4}} (?:\S{{1,80}} )?{_NAME}@(?=[\w.-])", "name", _accept),
    pattern("user name", rf"\b(?:ssh|sftp|psql|pg_dump|mysql)\b[^\n|;]{{0,100}} (?:-l|-U|-u) ?{_NAME}(?![\w.-])", "name", _accept),
    pattern("user name", rf"\b(?:sudo -u|su -|su -l|usermod -aG \w{{1,20}}|useradd(?: -\w{{1,2}}(?: /\S{{1,30}})?){{0,4}}|userdel|chage -l|crontab -u) {_NAME}(?![\w./=(-])", "name", _accept),
    pattern("user name", rf"{_COMMAND}(?:id|finger|last|passwd|groups|pkill -u) {_NAME}(?=\s*(?:$|[\n\"'\\|;&]))", "name", _accept),
    pattern("user name", rf"\bchown (?:-R )?{_NAME}:", "name", _accept),
    pattern("user name", rf"\b(?:uid|euid)=\d{{1,6}}\({_NAME}\)", "name", _accept),
    pattern("user name", rf"{_LINE}[dlcbps-][rwxsStT-]{{9}}[.+@]?\s{{1,4}}\d{{1,6}} {_NAME} ", "name", _accept),
    pattern("user name", rf"{_LINE}{_NAME}:[x*!]:\d{{1,6}}:\d{{1,6}}:", "name", _accept),
    pattern("user name", rf"{_LINE}{_NAME}:\$(?:1|2[aby]|5|6|y)\$", "name", _accept),
    pattern("user name", rf"(?i)\b(?:accepted \w{{1,20}}|failed password|session (?:opened|closed)|authentication failure) for (?:invalid user |user )?{_NAME}(?![\w.])", "name", _accept),
    pattern("user name", rf"(?i)\b(?:logged in as|user account|log in as|signed in as|switch to user|as user) ['\"`]?{_NAME}(?![\w.@/-])", "name", _accept),
    pattern("person's name", rf"(?m)\b(?:Author|Committer|From|To|Cc|Signed-off-by|Co-authored-by|Reviewed-by|Contact|Reported-by):\s{{1,8}}(?P<v1>{_WORD})(?: (?P<v2>{_WORD}))?(?: (?P<v3>{_WORD}))? <", "name"),
    pattern("person's name", rf"(?i:\b(?:full_?name|display_?name|real_?name|contact_?name|given_?name|family_?name|surname|first_?name|last_?name|gecos)['\"]?\s?[:=]\s?['\"]?)(?P<v1>{_WORD})(?: (?P<v2>{_WORD}))?(?: (?P<v3>{_WORD}))?(?![\w])", "name"),
)  # fmt: skip
