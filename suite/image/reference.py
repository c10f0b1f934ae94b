"""Names of images as people write them, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from suite.errors import InvalidInput

_NAME = re.compile(
    r"(?P<repository>[a-z0-9][a-z0-9._-]*(:[0-9]{1,5}/[a-z0-9][a-z0-9._-]*)?(/[a-z0-9][a-z0-9._-]*)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_DEFAULT_REGISTRY = "docker.io"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageReference:
    """A repository, with a tag, a digest, both or neither."""

    repository: str
    """As `docker pull` takes it."""
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"

    @property
    def registry(self) -> str:
        """Host, with port, of the registry; `docker.io` where the name has none."""
        first, _, rest = self.repository.partition("/")
        return first if rest and ("." in first or ":" in first or first == "localhost") else _DEFAULT_REGISTRY

    @property
    def path(self) -> str:
        """The repository's name inside its registry."""
        if self.registry != _DEFAULT_REGISTRY:
            return self.repository.partition("/")[2]
        name = self.repository.removeprefix(f"{_DEFAULT_REGISTRY}/")
        return name if "/" in name else f"library/{name}"

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is this machine: engines speak plain HTTP to such a one."""
        host = self.registry.partition(":")[0]
        return host == "localhost" or host.startswith("127.")


def parse_reference(text: str) -> ImageReference:
    """Take `REPOSITORY[:TAG][@sha256:…]` apart.

    Raises:
        InvalidInput: it is not of that form.
    """
    match = _NAME.fullmatch(text)
    if match is None or len(text) > 400:
        raise InvalidInput("not the name of an image", where=ascii(text[:200])[1:-1], hint="write NAME@sha256:…")
    return ImageReference(repository=match["repository"], tag=match["tag"], digest=match["digest"])


def pinned_reference(text: str) -> ImageReference:
    """The same, where only a digest is an identity.

    Raises:
        InvalidInput: not a name, or one without a digest.
    """
    reference = parse_reference(text)
    if reference.digest is None:
        raise InvalidInput(
            "a tag is refused: it may name another image tomorrow",
            where=text,
            hint=f"give NAME@sha256:…; `suite image resolve {text}` prints the digest of today",
        )
    return reference
