"""Fuzzes intake with atheris: whatever is sent, it is refused by a finding or taken in; nothing else may be raised.

    python fuzz/intake.py fuzz/intake-corpus -max_total_time=3600

The first byte of an input chooses what the rest is: an archive, JSON, a ledger, a forks file, a statement, paths, or
one file of an otherwise honest bundle of `results/`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["suite.intake", "suite.signing", "suite.files", "suite.records"]):
    import suite.intake.contents  # noqa: F401 - `examine` imports it late, and it shall be instrumented
    from suite.errors import SuiteError
    from suite.intake.archive import unpack
    from suite.intake.examine import examine
    from suite.intake.ledger import check_ledger_file
    from suite.intake.limits import Limits
    from suite.intake.names import Names, check_path
    from suite.intake.refusal import Refused
    from suite.intake.strict import bounded_json, check_shown_text
    from suite.intake.zipped import check_gzip
    from suite.signing.statement import verify_envelope

LIMITS = Limits(
    archive_bytes=1 << 20,
    expanded_bytes=4 << 20,
    ratio_free_bytes=1 << 20,
    json_bytes=1 << 20,
    json_values=20_000,
    ledger_bytes=8 << 20,
    gzip_bytes=1 << 20,
)
RESULTS = Path(__file__).parent.parent / "results"
HONEST = next((RESULTS / "h200-smollm2-w8a8-fp8").iterdir())
EDITED = (
    "bundle.json",
    "lock.json",
    "reference-lock.json",
    "receipt.json",
    "repeats.json",
    "performance.json",
    "manifest.yaml",
    "image.json",
    "statement.dsse.json",
    "ledger.parquet",
)
SECONDS = 10


def check(data: bytes) -> None:
    """One input."""
    if not data:
        return
    started = time.process_time()
    kind, rest = data[0] % 8, data[1:]
    with tempfile.TemporaryDirectory() as scratch, suppress(SuiteError):
        KINDS[kind](rest, Path(scratch))
    assert time.process_time() - started < SECONDS


def _archive(data: bytes, scratch: Path) -> None:
    sent, target = scratch / "sent", scratch / "target"
    sent.write_bytes(data)
    target.mkdir()
    unpack(sent, target, LIMITS)
    for path in target.rglob("*"):
        assert path.is_dir() or (path.is_file() and not path.is_symlink())
    assert {path.name for path in scratch.iterdir()} == {"sent", "target"}


def _whole_archive(data: bytes, scratch: Path) -> None:
    sent, target = scratch / "sent", scratch / "target"
    sent.write_bytes(data)
    target.mkdir()
    report = examine(sent, scratch=target, results=None, limits=LIMITS)
    assert report.findings


def _json(data: bytes, scratch: Path) -> None:
    value = bounded_json(data, where="fuzzed", limits=LIMITS)
    check_shown_text(value, where="fuzzed")


def _ledger(data: bytes, scratch: Path) -> None:
    path = scratch / "ledger.parquet"
    path.write_bytes(data)
    check_ledger_file(path, LIMITS)


def _forks(data: bytes, scratch: Path) -> None:
    path = scratch / "branches.jsonl.gz"
    path.write_bytes(data)
    check_gzip(path, LIMITS)


def _statement(data: bytes, scratch: Path) -> None:
    verify_envelope(data, where="fuzzed")


def _names(data: bytes, scratch: Path) -> None:
    names = Names()
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        try:
            parts = check_path(line, LIMITS)
        except Refused:
            continue
        target = scratch.joinpath(*parts)
        assert target.resolve().is_relative_to(scratch.resolve())
        assert "/".join(parts).isascii()
        names.add(parts, folder=line.endswith("/"))


def _bundle(data: bytes, scratch: Path) -> None:
    """One file of an honest bundle is what the fuzzer says, the others are as they were."""
    if len(data) < 2:
        return
    name = EDITED[data[0] % len(EDITED)]
    folder = scratch / HONEST.name
    folder.mkdir()
    for path in HONEST.iterdir():
        if path.name not in (name, "sbom.cdx.json"):
            shutil.copyfile(path, folder / path.name)
    (folder / name).write_bytes(data[1:])
    report = examine(folder, scratch=scratch / "none", results=None, limits=LIMITS)
    assert report.findings, name


KINDS = (_archive, _whole_archive, _json, _ledger, _forks, _statement, _names, _bundle)


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
