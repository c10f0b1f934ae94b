"""Where packs are read from: a file, a folder, or a URL, each from any byte on."""

from __future__ import annotations

import http.client
import os
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from suite import __version__
from suite.errors import InvalidInput, MissingPrerequisite, SuiteError, VerificationFailed

_TIMEOUT_SECONDS = 60
_ABSENT = (401, 403, 404, 410)
_EXTRAS = {
    "s3": "suite[s3]",
    "s3a": "suite[s3]",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "hf": "",
}


class Absent(MissingPrerequisite):
    """There is no such file, or none that may be read."""


class _Missing(VerificationFailed):
    """A member that is not in a pack's folder."""


class Stream(Protocol):
    """Bytes from one place of a source to its end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""

    def close(self) -> None:
        """Let go of it."""


class BytesSource(Protocol):
    """A tar that can be read from any byte on."""

    @property
    def name(self) -> str:
        """As the user wrote it; credentials in a URL are left out."""

    def open_at(self, offset: int, size: int | None = None) -> Stream:
        """The bytes from `offset` on.

        Args:
            offset: The first byte.
            size: How many are needed; the stream may go on after them. None: all to the end.

        Raises:
            Absent: it is not there.
            MissingPrerequisite: it cannot be reached now.
        """


def open_source(source: str) -> BytesSource | Path:
    """The tar that `source` names, or the folder.

    Args:
        source: A path, an http(s) URL, or a URL of any file system that fsspec has here.

    Raises:
        InvalidInput: neither a path that exists nor such a URL.
        MissingPrerequisite: the file system needs a package that is not installed.
    """
    scheme = source.split("://", 1)[0].lower() if "://" in source else ""
    if scheme in ("http", "https"):
        return HttpSource(url=source)
    if scheme:
        return _fsspec_source(source, scheme)
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if not path.is_file():
        raise InvalidInput("no such file", where=source, hint="name a reference pack, or its URL")
    return FileSource(path=path)


def read_small(source: str, *, limit_bytes: int) -> bytes | None:
    """The whole of a small file at a path or URL; None where there is none.

    Raises:
        MissingPrerequisite: it cannot be reached.
        VerificationFailed: it is larger than `limit_bytes`, or no regular file.
    """
    if "://" not in source:
        path = Path(source).expanduser()
        try:
            stream: Stream = open_regular(path.parent, path.name, where=source)
        except _Missing:
            return None
        name = source
    else:
        found = open_source(source)
        assert not isinstance(found, Path)
        name = found.name
        try:
            stream = found.open_at(0)
        except Absent:
            return None
    data = b""
    try:
        with transfer(name):
            while len(data) <= limit_bytes and (piece := stream.read(limit_bytes + 1 - len(data))):
                data += piece
    except Absent:
        return None
    finally:
        stream.close()
    if len(data) > limit_bytes:
        raise VerificationFailed(f"more than {limit_bytes:,} bytes", where=name)
    return data


class FileSource:
    """A file of this machine."""

    def __init__(self, *, path: Path) -> None:
        """`path` is the pack."""
        self._path = path
        self.name = str(path)

    def open_at(self, offset: int, size: int | None = None) -> Stream:
        """See `BytesSource.open_at`."""
        try:
            stream = self._path.open("rb")
        except FileNotFoundError as error:
            raise Absent("no such file", where=self.name, hint="check the path") from error
        except OSError as error:
            raise MissingPrerequisite(f"cannot be read: {error.strerror}", where=self.name) from error
        stream.seek(offset)
        return stream


class HttpSource:
    """A file on a web server, read with byte ranges where the server has them."""

    def __init__(self, *, url: str, authorization: str | None = None) -> None:
        """`url` is http or https; `authorization` is a header for its own host alone."""
        self._url = url
        self._authorization = authorization
        self.name = public_name(url)

    def open_at(self, offset: int, size: int | None = None) -> Stream:
        """See `BytesSource.open_at`. Of a server without ranges, what lies before `offset` is read and left."""
        headers = {"User-Agent": f"suite/{__version__}", "Accept-Encoding": "identity"}
        if offset or size is not None:
            headers["Range"] = f"bytes={offset}-{'' if size is None else offset + size - 1}"
        request = urllib.request.Request(self._url, headers=headers)  # noqa: S310 - open_source allows http(s) only
        if self._authorization is not None:
            # A redirection leads to other hosts, which must not see it.
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310
        except urllib.error.HTTPError as error:
            if error.code == 416:
                raise VerificationFailed(f"ends before byte {offset:,}", where=self.name) from error
            if error.code in _ABSENT:
                raise Absent(f"the server answers {error.code}", where=self.name, hint="check the address") from error
            raise MissingPrerequisite(
                f"the server answers {error.code}", where=self.name, hint="run again later: it resumes"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise broken_off(self.name, error) from error
        stream = _HttpStream(response)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            stream.close()
            raise VerificationFailed("the server sends it compressed; a pack is sent as it is", where=self.name)
        if response.status != 206:
            _discard(stream, offset, self.name)
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
            stream.close()
            raise MissingPrerequisite("the server sends another byte range than asked for", where=self.name)
        return stream


class _HttpStream:
    """An answer whose early end is an error, and not the end of the file."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def read(self, size: int, /) -> bytes:
        data = self._response.read(size)
        if not data and size and self._response.length:
            raise ConnectionError(f"{self._response.length:,} bytes before the end")
        return data

    def close(self) -> None:
        self._response.close()


class _FsspecSource:
    """A file of any file system that fsspec knows."""

    def __init__(self, *, url: str, path: str, system: object) -> None:
        self._path = path
        self._system = system
        self.name = public_name(url)

    def open_at(self, offset: int, size: int | None = None) -> Stream:
        try:
            stream: IO[bytes] = self._system.open(self._path, "rb")  # type: ignore[attr-defined]
            stream.seek(offset)
        except (FileNotFoundError, PermissionError) as error:
            raise Absent(
                f"no such file, or none that may be read: {error}",
                where=self.name,
                hint="check address and credentials",
            ) from error
        except Exception as error:
            raise broken_off(self.name, error) from error
        return _FsspecStream(stream, self.name)


class _FsspecStream:
    """A file system's stream; each of them has its own exceptions."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except FileNotFoundError as error:
            raise Absent("no such file", where=self._name, hint="check the address") from error
        except Exception as error:
            raise broken_off(self._name, error) from error

    def close(self) -> None:
        self._stream.close()


def _fsspec_source(url: str, scheme: str) -> BytesSource:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:  # pragma: no cover - it comes with the installation
        raise MissingPrerequisite("needs the package fsspec", where=public_name(url)) from error
    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        package = _EXTRAS.get(scheme) or "the package for it"
        raise MissingPrerequisite(
            f"the file system {scheme} is not installed: {error}", where=public_name(url), hint=f"install {package}"
        ) from error
    except ValueError as error:
        raise InvalidInput(f"not an address that can be read: {error}", where=public_name(url)) from error
    return _FsspecSource(url=url, path=path, system=system)


def public_name(url: str) -> str:
    """A URL without user, password and query, which may be secrets."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.split("?", 1)[0].split("#", 1)[0].partition("/")
    return f"{scheme}://{host.rsplit('@', 1)[-1]}{slash}{path}"


def broken_off(name: str, error: BaseException) -> MissingPrerequisite:
    """The error for a transfer that ended early."""
    reason = str(getattr(error, "reason", error)).strip() or type(error).__name__
    return MissingPrerequisite(f"the transfer broke off: {reason}", where=name, hint="run again: it resumes")


@contextmanager
def transfer(name: str) -> Iterator[None]:
    """Turn whatever a stream raises into one error that says how to go on."""
    try:
        yield
    except SuiteError:
        raise
    except (OSError, http.client.HTTPException, EOFError) as error:
        raise broken_off(name, error) from error


def _discard(stream: Stream, count: int, name: str) -> None:
    with transfer(name):
        while count:
            data = stream.read(min(count, 1 << 20))
            if not data:
                raise VerificationFailed("shorter than it was", where=name)
            count -= len(data)


def open_regular(folder: Path, path: str, *, where: str) -> IO[bytes]:
    """A regular file of a pack's folder; no link is followed.

    Raises:
        VerificationFailed: absent, a link, or another special file.
    """
    if path.startswith("heads/") and (folder / "heads").is_symlink():
        raise VerificationFailed("heads is a symbolic link; packs hold regular files only", where=where)
    try:
        # O_NONBLOCK: a named pipe must not make us wait.
        descriptor = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise _Missing(f"{path} is missing", where=where) from error
    except OSError as error:
        raise VerificationFailed(f"{path} is no regular file: {error.strerror}", where=where) from error
    stream = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        stream.close()
        raise VerificationFailed(f"{path} is no regular file", where=where)
    return stream
