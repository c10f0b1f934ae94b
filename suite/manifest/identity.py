"""The identifiers that manifests pin, as types that cannot be mistaken for one another."""

from __future__ import annotations

from typing import Annotated, NewType

from pydantic import StringConstraints

_DIGEST = StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")

IndexDigest = NewType("IndexDigest", str)
"""Digest of an image index: one name for the same image on several platforms."""
PlatformDigest = NewType("PlatformDigest", str)
"""Digest of one platform's image manifest: exactly these layers."""
ConfigDigest = NewType("ConfigDigest", str)
"""Digest of an image's configuration: what `docker images` calls the image id."""
Revision = NewType("Revision", str)
"""Commit of a model repository, 40 lower-case hex characters."""
Sha256 = NewType("Sha256", str)
"""SHA-256 of a file or text, 64 lower-case hex characters, without prefix."""

ImageDigestField = Annotated[str, _DIGEST]
PlatformDigestField = Annotated[PlatformDigest, _DIGEST]
IndexDigestField = Annotated[IndexDigest, _DIGEST]
ConfigDigestField = Annotated[ConfigDigest, _DIGEST]
RevisionField = Annotated[Revision, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Sha256Field = Annotated[Sha256, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
