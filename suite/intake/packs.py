"""Reference and evidence packs of strangers: safetensors by header, rows and sizes, in the bounded process alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from suite.errors import MissingPrerequisite, VerificationFailed
from suite.intake.checking import Checking, NamedCheck
from suite.intake.limits import Limits
from suite.intake.refusal import Refused
from suite.intake.report import IntakeReport
from suite.intake.runs import require_past
from suite.intake.strict import bounded_json, check_shown_text
from suite.reference.pull import PackHead, verify
from suite.reference.reader import open_pack
from suite.reference.schema import FIXED_MEMBERS, RECORD_NAME

_START = RECORD_NAME.encode() + b"\0"


def is_pack(path: Path) -> bool:
    """Whether a path claims to be a pack: a folder with its record, or a tar that begins with it."""
    if path.is_symlink():
        return False
    if path.is_dir():
        return (path / RECORD_NAME).is_file()
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_START)) == _START


def pack_report(path: Path, *, scratch: Path, limits: Limits, now: datetime) -> IntakeReport:
    """Check a pack as `suite reference verify` does, with bounds, without the network and without a store.

    Args:
        path: Its tar or folder.
        scratch: Takes its members while they are checked.
        limits: Bounds.
        now: The present.
    """
    pack = _Pack(path=path, scratch=scratch, limits=limits, now=now)
    checking = Checking()
    for check in pack.checks():
        if not checking.run([check]):
            break
    signed = pack.head.signed if pack.head is not None else None
    return IntakeReport(
        what="reference pack",
        key_ids=() if signed is None else signed.key_ids,
        findings=tuple(checking.findings),
        checks=tuple(checking.checks),
    )


@dataclass(kw_only=True, slots=True)
class _Pack:
    path: Path
    scratch: Path
    limits: Limits
    now: datetime
    head: PackHead | None = field(default=None)

    def checks(self) -> Iterator[NamedCheck]:
        """Name and check; each rests on those before it."""
        yield "pack record", self.check_record
        yield "pack members", self.check_members

    def check_record(self) -> str:
        limits = self.limits
        with closing(open_pack(str(self.path))) as reader:
            record = reader.record
            check_shown_text({"licence": record.licence}, where=RECORD_NAME)
            require_past(record.created, now=self.now, limits=limits, where=f"{RECORD_NAME}: created")
            if record.total_bytes > limits.expanded_bytes:
                raise Refused(
                    "too-large",
                    f"{record.total_bytes:,} bytes together; at most {limits.expanded_bytes:,} are taken in",
                )
            for member in record.members:
                if member.path.startswith("chunk-") and member.size_bytes > limits.tensor_bytes:
                    raise Refused(
                        "file-too-large",
                        f"{member.size_bytes:,} bytes; at most {limits.tensor_bytes:,} are taken in",
                        where=member.path,
                    )
            if record.heads:
                raise Refused(
                    "pack-without-head",
                    "its head lies in the checkpoint, and intake fetches nothing",
                    where=RECORD_NAME,
                    hint="`suite reference verify --checkpoint` checks it",
                )
            for name in FIXED_MEMBERS:
                data = b"".join(reader.member(record.member(name)))
                bounded_json(data, where=name, limits=limits)
        return f"{record.num_rows:,} rows in {len(record.members)} files, {record.total_bytes:,} bytes"

    def check_members(self) -> str:
        try:
            self.head = verify(str(self.path), home=self.scratch)
        except MissingPrerequisite as error:
            raise VerificationFailed(error.message, where=error.where, hint=error.hint) from error
        return f"each as {RECORD_NAME} lists it, together one capture of lock {self.head.lock.digest[:12]}"
