"""What a build takes where nothing is said."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from suite.errors import InvalidInput
from suite.site.keys import key_of
from suite.stack.home import suite_home


def default_cache(out: Path) -> Path:
    """Where builds of the site in `out` remember what they did: in the state folder, so that nothing private of this
    machine lies in a folder that is published.
    """
    return suite_home() / "sites" / key_of(str(out.absolute()))[:16]


def default_manifests(named: Path | None) -> Path | None:
    """The folder of manifests: the one named, else `manifests` here, else none.

    Raises:
        InvalidInput: the one named is absent.
    """
    if named is None:
        return Path("manifests") if Path("manifests").is_dir() else None
    if not named.is_dir():
        raise InvalidInput("no such folder", where=str(named), hint="name a folder of manifests, or leave it out")
    return named


def checked_base_url(text: str) -> str:
    """The address of the site with a closing `/`; empty if none is given.

    Raises:
        InvalidInput: no http or https address.
    """
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(f"not an address of a site: {text!r}", where="--base-url", hint="https://HOST/PATH/")
    return text if text.endswith("/") else f"{text}/"
