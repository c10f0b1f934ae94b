"""A folder whose every file is named in one signed statement, which lies in it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from suite.errors import InvalidInput, SuiteError, VerificationFailed
from suite.files import write_atomic
from suite.signing.envelope import ENVELOPE_LIMIT_BYTES
from suite.signing.keys import SigningKey
from suite.signing.statement import (
    SUBJECT_LIMIT,
    Kind,
    Signed,
    Statement,
    add_signature,
    name_refusal,
    sign_subjects,
    verify_envelope,
)

STATEMENT_NAME = "statement.dsse.json"
SIGSTORE_NAME = "statement.sigstore.json"
"""A Sigstore bundle over the same statement; see `suite.signing.sigstore`."""
STATEMENT_NAMES = (STATEMENT_NAME, SIGSTORE_NAME)
"""Files of a folder that its statement does not name."""
_DEPTH_LIMIT = 8
_READ_BYTES = 1 << 20


def sign_folder(
    folder: Path,
    key: SigningKey,
    *,
    kind: Kind,
    about: Mapping[str, JsonValue] | None = None,
    created: datetime | None = None,
) -> Path:
    """Sign every file below a folder, or add a signature to the statement that is there.

    Args:
        folder: Regular files and folders only.
        key: Who signs.
        kind: What the folder is.
        about: Said in the statement. With a statement that is there already it must be absent, or the same.
        created: By default, now.

    Returns:
        The statement's file.

    Raises:
        InvalidInput: not a folder, empty, something in it is no regular file, or a name that cannot be signed.
        VerificationFailed: the statement that is there does not hold, or says something else.
    """
    target = folder / STATEMENT_NAME
    if target.exists() or target.is_symlink():
        signed = verify_folder(folder)
        if signed.statement.kind != kind or (about and dict(about) != dict(signed.statement.about)):
            raise VerificationFailed(
                f"the statement that is there is another one, over a {signed.statement.kind}",
                where=str(target),
                hint="remove it to sign anew; that takes away the signatures in it",
            )
        data = add_signature(signed, key)
    else:
        subjects = hash_folder(folder, refuse=InvalidInput)
        data = sign_subjects(subjects, key, kind=kind, about=about, created=created)
    write_atomic(target, data)
    return target


def verify_folder(folder: Path) -> Signed:
    """Check a folder against its statement: every signature, and every file below the folder, no more and no fewer.

    Raises:
        VerificationFailed: there is no statement, a signature or a file's hash does not hold, or files differ.
    """
    signed = read_folder_statement(folder)
    if signed is None:
        raise VerificationFailed("there is no statement: nobody signed it", where=str(folder / STATEMENT_NAME))
    check_subjects(folder, signed.statement)
    return signed


def read_folder_statement(folder: Path) -> Signed | None:
    """The statement of a folder with its signatures checked, but not its files; None where nobody signed.

    Raises:
        VerificationFailed: it does not hold.
    """
    path = folder / STATEMENT_NAME
    data = read_limited(path)
    return None if data is None else verify_envelope(data, where=str(path))


def check_subjects(folder: Path, statement: Statement) -> None:
    """Compare every file below a folder with what a statement names.

    Raises:
        VerificationFailed: a file is missing, is one too many, has another hash, or is no regular file.
    """
    found = hash_folder(folder, refuse=VerificationFailed)
    hint = f"undo what was changed since, or, if it is yours and meant, remove {STATEMENT_NAME} and sign anew"
    for name in sorted(found.keys() | statement.subjects.keys()):
        where = f"{folder.name}/{ascii(name)[1:-1]}"
        if name not in found:
            raise VerificationFailed("the signed statement names this file, and it is missing", where=where, hint=hint)
        if name not in statement.subjects:
            raise VerificationFailed("the signed statement does not name this file", where=where, hint=hint)
        if found[name] != statement.subjects[name]:
            raise VerificationFailed("its SHA-256 is not the one that was signed", where=where, hint=hint)


def hash_folder(folder: Path, *, refuse: type[SuiteError] = InvalidInput) -> dict[str, str]:
    """Relative POSIX name to SHA-256 of every file below a folder but its statements, by name.

    Args:
        folder: No link in it is followed.
        refuse: The error for what may not be in such a folder.

    Raises:
        InvalidInput: it is no folder.
        SuiteError: of the type `refuse`: a link or special file, a name that cannot be signed, too deep, too many.
    """
    if not folder.is_dir():
        raise InvalidInput("no such folder", where=str(folder))
    found: dict[str, str] = {}
    for name in _files(folder, "", 1, refuse):
        if why := name_refusal(name):
            raise refuse(f"a file with such a name is not signed: {why}", where=ascii(name)[1:-1])
        if len(found) == SUBJECT_LIMIT:
            raise refuse(f"more than {SUBJECT_LIMIT:,} files", where=str(folder))
        found[name] = _sha256(folder / name, name, refuse)
    return dict(sorted(found.items()))


def read_limited(path: Path) -> bytes | None:
    """A regular file of at most the size of an envelope; None where there is none.

    Raises:
        VerificationFailed: a link, another kind of file, or too large.
    """
    try:
        # O_NONBLOCK: a named pipe must not make us wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise VerificationFailed(f"no regular file: {error.strerror}", where=str(path)) from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise VerificationFailed("no regular file", where=str(path))
        data = stream.read(ENVELOPE_LIMIT_BYTES + 1)
    if len(data) > ENVELOPE_LIMIT_BYTES:
        raise VerificationFailed(f"more than {ENVELOPE_LIMIT_BYTES:,} bytes", where=str(path))
    return data


def _files(folder: Path, prefix: str, depth: int, refuse: type[SuiteError]) -> Iterator[str]:
    if depth > _DEPTH_LIMIT:
        raise refuse(f"folders nested deeper than {_DEPTH_LIMIT}", where=ascii(prefix)[1:-1])
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if not prefix and entry.name in STATEMENT_NAMES:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(folder / entry.name, f"{name}/", depth + 1, refuse)
            elif entry.is_file(follow_symlinks=False):
                yield name
            else:
                raise refuse("neither a regular file nor a folder", where=ascii(name)[1:-1])


def _sha256(path: Path, name: str, refuse: type[SuiteError]) -> str:
    digest = hashlib.sha256()
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
            while block := stream.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror}", where=name) from error
    return digest.hexdigest()
