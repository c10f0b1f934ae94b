"""Takes out of a log what a stranger has no business to know: secrets, and who ran it where."""

from __future__ import annotations

import contextlib
import getpass
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

LOG_LIMIT_CHARACTERS = 4_000_000

# No pattern may take time that grows faster than the log: each begins with fixed letters, or repeats a bounded number.
_SECRETS = (
    # Shapes of access tokens of model hubs, forges, clouds and API providers, then JSON web tokens.
    r"\bhf_[A-Za-z0-9]{8,}",
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{16,}",
    r"\bgithub_pat_[A-Za-z0-9_]{16,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bnvapi-[A-Za-z0-9_-]{16,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
)
_SECRET = re.compile("|".join(_SECRETS))
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}")
_ASSIGNED = re.compile(
    r"(?i)((?:api[_-]?key|access[_-]?key|token|secret|password|passwd)['\"]?\s?[=:]\s?['\"]?)"
    r"(?!None\b|null\b|False\b|True\b|<)(?=[^\s'\",;)}\]]{0,200}[A-Za-z])[^\s'\",;)}\]]{6,}"
)
_CREDENTIALS = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)[^/\s:@]{1,200}:[^/\s@]{1,200}@")
_HOMES = re.compile(r"(?<![\w.-])/(?:home|Users)/[^/\s'\":;,)\]}]+|(?<![\w.-])/root(?=/)")
_ADDRESS = re.compile(
    r"((?:\b|_)(?i:ip|addrs?|address|host)['\"]?\s?[=:]\s?['\"]?|//)"
    r"(?!127\.|0\.0\.0\.0)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.]*[0-9])"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Private:
    """Words of one machine that must not be published."""

    home: str = ""
    host: str = ""
    user: str = ""
    folders: tuple[tuple[str, str], ...] = ()
    """Folders of this machine, with the words that stand for them: (`/data/suite`, `<state>`)."""
    secrets: tuple[str, ...] = ()
    """Exact values, for example of secret-like environment variables."""

    @classmethod
    def of_this_machine(cls, *folders: tuple[str, str]) -> Self:
        """The home folder, host name and user name of the running process, and further folders with their words."""
        user = ""
        # A container's user id need not have a name.
        with contextlib.suppress(OSError, KeyError):
            user = getpass.getuser()
        return cls(home=str(Path.home()), host=socket.gethostname(), user=user, folders=folders)


def redact(text: str, private: Private) -> str:
    """The text without secrets, home folders, host and user name; the middle of an overlong text is left out.

    The user name `root` and words shorter than three characters identify nobody and stay.
    """
    if len(text) > LOG_LIMIT_CHARACTERS:
        half = LOG_LIMIT_CHARACTERS // 2
        left_out = len(text) - 2 * half
        text = f"{text[:half]}\n[{left_out:,} characters left out]\n{text[-half:]}"
    for secret in sorted(private.secrets, key=len, reverse=True):
        if len(secret) >= 6:
            text = text.replace(secret, "<secret>")
    for folder, word in sorted(private.folders, key=lambda item: len(item[0]), reverse=True):
        if len(folder) > 1:
            text = re.sub(rf"{re.escape(folder)}(?=/|\b|$)", word, text)
    text = _SECRET.sub("<secret>", text)
    text = _BEARER.sub(r"\1 <secret>", text)
    text = _ASSIGNED.sub(r"\1<secret>", text)
    text = _CREDENTIALS.sub(r"\1<secret>@", text)
    if len(private.home) > 1:
        text = re.sub(rf"{re.escape(private.home)}(?=/|\b|$)", "~", text)
    text = _HOMES.sub("~", text)
    text = _ADDRESS.sub(r"\1<address>", text)
    for word, label in ((private.host, "<host>"), (private.user, "<user>")):
        if len(word) >= 3 and word not in ("root", "localhost"):
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", label, text)
    return text
