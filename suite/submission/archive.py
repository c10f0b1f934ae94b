"""One archive of a submission's folder: the same bytes for the same files, whoever packs them and when."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from suite.errors import InvalidInput

SUFFIXES = (".tar", ".tar.gz", ".tgz")


def require_archive_name(path: Path) -> None:
    """Refuse a name whose archive could not be written.

    Raises:
        InvalidInput: another ending than those of `SUFFIXES`, or the file exists.
    """
    if not path.name.endswith(SUFFIXES):
        raise InvalidInput(f"an archive ends in {', '.join(SUFFIXES)}", where=str(path))
    if path.exists():
        raise InvalidInput("there is such a file already", where=str(path), hint="nothing is written over")


def write_archive(folder: Path, target: Path) -> None:
    """Pack what is in `folder` into the new file `target`.

    Args:
        folder: Regular files and folders.
        target: Compressed unless it ends in `.tar`.
    """
    with target.open("xb") as stream:
        if target.name.endswith(".tar"):
            _write_tar(folder, stream)
        else:
            # Neither time nor name in the header.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as compressed:
                _write_tar(folder, compressed)


def _write_tar(folder: Path, stream: io.BufferedIOBase | gzip.GzipFile) -> None:
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)
