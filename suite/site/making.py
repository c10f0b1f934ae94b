"""Making one file of the site: whole at any moment, or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path, PurePosixPath

from suite.errors import InvalidInput, SuiteError
from suite.files import sha256_bytes
from suite.site.interface import Copied, Output
from suite.site.rendering import Renderer


def make_file(output: Output | Copied, out: Path, renderer: Renderer) -> int | str:
    """Make one file and write it below `out`.

    Returns:
        Its size in bytes, or why it was not made: the bundle is not what it was when its facts were read.

    Raises:
        InvalidInput: its path does not lie below `out`.
    """
    if PurePosixPath(output.path).is_absolute() or ".." in PurePosixPath(output.path).parts:
        raise InvalidInput("a page would be written outside the site", where=output.path)
    if isinstance(output, Copied):
        data = output.read()
        if data is None or sha256_bytes(data) != output.sha256:
            return "not the file that the bundle names; it is not offered"
    else:
        try:
            data = output.make(renderer)
        except SuiteError as error:
            return error.message
    _place(out / output.path, data)
    return len(data)


def _place(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, flags, 0o666)
    # Not flushed to the disk one by one, as `write_atomic` does: a lost page is made again, and there are thousands.
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    temporary.replace(target)
