"""`suite verify`: compute a bundle's claims again and say what holds."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput, MissingPrerequisite, SuiteError, VerificationFailed

if TYPE_CHECKING:
    from suite.bundle.report import Report
    from suite.signing import SigningKey

_MARKS = {"passed": "pass", "failed": "FAIL", "not done": "not done"}


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--captures",
    type=click.Path(path_type=Path, file_okay=False),
    help="Capture store that may hold the evidence; the local one by default.",
)
@click.option("--full", is_flag=True, help="Every row must be recomputed; without the evidence exit code 3.")
@click.option(
    "--evidence",
    "packs",
    multiple=True,
    metavar="FILE_OR_URL",
    help="Evidence pack of either side. [default: those that the bundle's submission names]",
)
@click.option("--checkpoint", metavar="FOLDER_OR_URL", help="Of packs that leave their head out.")
@click.option(
    "--key", "key_file", type=click.Path(path_type=Path, dir_okay=False), help="Attest under this key that all follows."
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Where attestations go.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def verify(
    bundles: tuple[Path, ...],
    captures: Path | None,
    full: bool,
    packs: tuple[str, ...],
    checkpoint: str | None,
    key_file: Path | None,
    results: Path,
    as_json: bool,
) -> None:
    """Recompute every headline and hash of BUNDLES and, where the evidence is at hand, the whole ledger.

    With --full the evidence is fetched, and hidden states are replayed by an interpreter with torch or by NumPy: no
    engine is needed. Exit code 5 if anything does not follow from what it rests on; the first such thing is named.
    """
    from tabulate import tabulate

    from suite.bundle.read import require_bundle
    from suite.bundle.verify import verify_bundle
    from suite.evidence.rows import replay_evidence
    from suite.evidence.store import evidence_store, fetch_evidence
    from suite.run.stored import replay_stored
    from suite.stack.home import suite_home

    if (packs or key_file or checkpoint) and not full:
        raise InvalidInput("--evidence, --checkpoint and --key need --full", hint="add --full")
    for path in bundles:
        require_bundle(path)
    key = None if key_file is None else _attester(bundles, key_file, results)
    home = suite_home()
    store = captures or home / "captures"
    if packs:
        fetch_evidence(packs, home=home, checkpoint=checkpoint)
    reports = []
    for path in bundles:
        if full and not packs:
            _fetch_named(path, home, checkpoint)
        reports.append(
            _refused(path)
            or verify_bundle(
                path,
                captures=store if store.is_dir() else None,
                replay=replay_evidence() if full else replay_stored(),
                evidence=evidence_store(home) if full else None,
                root=Path.cwd(),
            )
        )
        if not as_json:
            rows = [(_MARKS[c.outcome], c.name, c.detail) for c in reports[-1].checks]
            click.echo(f"{path}\n{tabulate(rows, tablefmt='plain')}\n")
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "reports": [report.to_json() for report in reports]}, indent=1))
    for report in reports:
        report.require_passed()
        if full:
            _require_evidence(report)
    if key is not None:
        _attest(bundles, key, results)


def _refused(path: Path) -> Report | None:
    """A report of what the gate of intake says against a bundle's folder, before anything in it is read."""
    from suite.bundle.report import Check, Report
    from suite.intake.folder import gate_folder

    try:
        gate_folder(path.resolve())
    except SuiteError as error:
        where = f"{error.where}: " if error.where else ""
        return Report(folder=path, checks=(Check(name="gate", outcome="failed", detail=f"{where}{error.message}"),))
    return None


def _fetch_named(path: Path, home: Path, checkpoint: str | None) -> None:
    """Fetch what the submission around a bundle names, of the size that it names; nothing where there is none."""
    from suite.evidence.named import named_evidence
    from suite.evidence.store import fetch_evidence

    for pack in named_evidence(path):
        fetch_evidence((pack.url,), home=home, checkpoint=checkpoint, most_bytes=pack.size_bytes)


def _require_evidence(report: Report) -> None:
    done = next(check for check in report.checks if check.name == "evidence")
    if done.outcome != "passed":
        raise MissingPrerequisite(
            done.detail, where=str(report.folder), hint="give both sides' packs with --evidence FILE_OR_URL"
        )


def _attester(bundles: tuple[Path, ...], key_file: Path, results: Path) -> SigningKey:
    """The key, once it is known that it may attest all of these: nobody waits for a recomputation in vain."""
    from suite.bundle.read import open_bundle
    from suite.cli.key import open_key
    from suite.results.attestation import require_someone_else

    key = open_key(key_file)
    for path in bundles:
        if _refused(path) is not None:
            continue
        with suppress(VerificationFailed):  # the report says it, with all else
            require_someone_else(open_bundle(path), kind="consistent", key_id=key.key_id, results=results)
    return key


def _attest(bundles: tuple[Path, ...], key: SigningKey, results: Path) -> None:
    from datetime import UTC, datetime

    from suite.bundle.read import open_bundle
    from suite.evidence.attest import attest_evidence

    for path in bundles:
        written = attest_evidence(open_bundle(path), challenge=None, key=key, results=results, now=datetime.now(UTC))
        click.echo(str(written), err=True)
