"""Reads manifests and configurations from a registry (OCI distribution API), each checked against its digest."""

from __future__ import annotations

import hashlib
import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.image.reference import ImageReference

if TYPE_CHECKING:
    import requests

TIMEOUT_SECONDS = 30
MAX_BYTES = 8 << 20
"""Registries refuse manifests beyond 4 MiB; configurations of large images have a few hundred KiB."""

INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
PLATFORM_TYPES = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")

# The one registry whose name in image references is not its host.
_HOSTS = {"docker.io": "registry-1.docker.io"}
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One manifest as the registry sent it."""

    data: bytes
    digest: str
    media_type: str

    @property
    def is_index(self) -> bool:
        """Whether it lists platforms instead of layers."""
        return self.media_type in INDEX_TYPES


class NotInRegistry(MissingPrerequisite):
    """The registry answers, and does not have it."""


class Registry:
    """One repository of one registry. Uses the credentials that `docker login` keeps, where there are any."""

    def __init__(self, reference: ImageReference) -> None:
        """Nothing is asked yet."""
        self._reference = reference
        scheme = "http" if reference.is_loopback else "https"
        host = _HOSTS.get(reference.registry, reference.registry)
        self._base = f"{scheme}://{host}/v2/{reference.path}"

    def manifest(self, name: str) -> Document:
        """The manifest or index called `name`, a tag or a digest.

        Raises:
            NotInRegistry: there is none.
            MissingPrerequisite: the registry cannot be asked.
            VerificationFailed: it sent another document than the digest names.
            InvalidInput: it sent something that is neither a manifest nor an index.
        """
        data, media_type = self._get(f"manifests/{name}", accept=", ".join((*INDEX_TYPES, *PLATFORM_TYPES)))
        if media_type not in INDEX_TYPES + PLATFORM_TYPES:
            raise InvalidInput(f"the registry sent {media_type or 'no type'!r}, not an image", where=self._where(name))
        return Document(data=data, digest=f"sha256:{hashlib.sha256(data).hexdigest()}", media_type=media_type)

    def blob(self, digest: str) -> bytes:
        """A small blob (a configuration).

        Raises:
            As `manifest`.
        """
        data, _ = self._get(f"blobs/{digest}", accept="*/*")
        return data

    def _get(self, path: str, *, accept: str) -> tuple[bytes, str]:
        """Content and media type, the content checked where the path ends in a digest."""
        import requests

        url, headers, name = f"{self._base}/{path}", {"Accept": accept}, path.rpartition("/")[2]
        try:
            with requests.Session() as session, ExitStack() as opened:
                # A proxy is never between this machine and itself.
                session.trust_env = not self._reference.is_loopback
                response = session.get(url, headers=headers, timeout=TIMEOUT_SECONDS, stream=True)
                opened.enter_context(response)
                if response.status_code == 401:
                    challenge = response.headers.get("WWW-Authenticate", "")
                    headers |= self._authorization(session, challenge)
                    response = session.get(url, headers=headers, timeout=TIMEOUT_SECONDS, stream=True)
                    opened.enter_context(response)
                self._require_ok(response, name)
                data = b""
                for block in response.iter_content(1 << 16):
                    data += block
                    if len(data) > MAX_BYTES:
                        raise InvalidInput(f"larger than {MAX_BYTES:,} bytes", where=self._where(name))
        except (requests.RequestException, OSError) as error:
            raise MissingPrerequisite(
                f"the registry {self._reference.registry} cannot be reached: {_reason(error)}",
                where=self._where(name),
                hint="check the name and the network",
            ) from error
        if name.startswith("sha256:") and hashlib.sha256(data).hexdigest() != name.removeprefix("sha256:"):
            raise VerificationFailed(
                "the registry sent something else than this digest names",
                where=self._where(name),
                hint="do not use this registry for it; try a mirror",
            )
        return data, response.headers.get("Content-Type", "").partition(";")[0]

    def _require_ok(self, response: requests.Response, name: str) -> None:
        if response.status_code == 404:
            raise NotInRegistry(
                "the registry does not have it",
                where=self._where(name),
                hint="images disappear: name a mirror, or restore one with `suite image restore`",
            )
        if response.status_code != 200:
            raise MissingPrerequisite(
                f"the registry answers {response.status_code} {response.reason}",
                where=self._where(name),
                hint="log in with `docker login` if it is private",
            )

    def _authorization(self, session: requests.Session, challenge: str) -> dict[str, str]:
        """The header that the registry's challenge asks for."""
        import requests

        kind, _, rest = challenge.partition(" ")
        fields = dict(_CHALLENGE.findall(rest))
        user = self._credentials()
        if kind.lower() == "basic" and user is not None:
            prepared = requests.Request("GET", self._base, auth=user).prepare()
            return {"Authorization": str(prepared.headers["Authorization"])}
        realm = fields.pop("realm", "")
        schemes = ("https://", "http://") if self._reference.is_loopback else ("https://",)
        if kind.lower() != "bearer" or not realm.startswith(schemes):
            return {}
        answer = session.get(realm, params=fields, auth=user, timeout=TIMEOUT_SECONDS)
        body: Any = answer.json() if answer.status_code == 200 else {}
        token = body.get("token") or body.get("access_token")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _credentials(self) -> tuple[str, str] | None:
        from docker import auth

        found = auth.load_config().resolve_authconfig(self._reference.registry)
        if not found or not found.get("username"):
            return None
        return str(found["username"]), str(found.get("password", ""))

    def _where(self, name: str) -> str:
        separator = "@" if name.startswith("sha256:") else ":"
        return f"{self._reference.repository}{separator}{name}"


def _reason(error: Exception) -> str:
    """The innermost reason of a chain of wrapped connection errors."""
    reason = str(error).rpartition(": ")[2].strip("'\" ")
    while reason.endswith(")") and reason.count(")") > reason.count("("):
        reason = reason[:-1].rstrip("'\" ")
    return reason or type(error).__name__
