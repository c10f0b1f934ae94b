"""`suite submit`: a bundle made ready for a repository, after its owner has seen what becomes public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.cli.tables import plain_table
from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.submission.disclosure import Disclosure
    from suite.submission.preflight import Preflight
    from suite.submission.schema import EvidencePack, EvidencePacks, Submission

_FILE = click.Path(dir_okay=False, path_type=Path)
_PACK = (click.Path(exists=True, dir_okay=False, path_type=Path), str)


@click.command()
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/submissions"),
    show_default=True,
    help="Folder in which the submission's own folder is made.",
)
@click.option("--archive", type=_FILE, metavar="FILE", help="Write one .tar or .tar.gz instead.")
@click.option("--key", "key_file", type=_FILE, help="Private key of `suite key new`; without it nobody has signed.")
@click.option(
    "--licence",
    help="Of what becomes public: SPDX, or LicenseRef-NAME. [default: the session's own; none with --private]",
)
@click.option("--session-public", is_flag=True, help="Everyone may read the session: its ids are in the ledger.")
@click.option("--private", is_flag=True, help="Counts and sums of each turn alone; nothing of the session's text.")
@click.option(
    "--owner-key",
    type=_FILE,
    metavar="FILE",
    help="With --private: your key of the sequence hash, made where there is none. [default: owner.key in SUITE_HOME]",
)
@click.option("--evidence-reference", type=_PACK, metavar="PACK URL", help="The reference's evidence pack, and where.")
@click.option("--evidence-candidate", type=_PACK, metavar="PACK URL", help="The candidate's, likewise.")
@click.option("--commitment", type=_FILE, help="What `suite evidence commit` wrote, where packs are too large.")
@click.option("--note", default="", help="A few plain words for readers.")
@click.option("--reviewed", multiple=True, metavar="ID", help="You looked at this suspicion, and everyone may read it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def submit(
    bundle: Path,
    out: Path,
    archive: Path | None,
    key_file: Path | None,
    licence: str | None,
    session_public: bool,
    private: bool,
    owner_key: Path | None,
    evidence_reference: tuple[Path, str] | None,
    evidence_candidate: tuple[Path, str] | None,
    commitment: Path | None,
    note: str,
    reviewed: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Make BUNDLE ready for a pull request, or pack it into one archive.

    It is verified and looked through for secrets; then everything that becomes public is shown, and you are asked.
    Nothing is sent anywhere.
    """
    from datetime import UTC, datetime

    from suite.cli.agree import agreed
    from suite.cli.key import open_key
    from suite.run.stored import replay_stored
    from suite.stack.home import suite_home
    from suite.submission.archive import require_archive_name
    from suite.submission.preflight import Terms, preflight
    from suite.submission.private import new_owner_key, read_owner_key, write_owner_key
    from suite.submission.write import write_submission

    if private and (session_public or evidence_reference or evidence_candidate or commitment):
        raise InvalidInput(
            "a private submission has no public session, no evidence and no commitment",
            where="--private",
            hint="leave those options out, or --private",
        )
    if archive is not None:
        require_archive_name(archive)
    key = None if key_file is None else open_key(key_file)
    terms = Terms(
        private=private,
        licence=licence,
        session_public=session_public,
        note=note,
        evidence=_packs(evidence_reference, evidence_candidate),
        commitment=commitment,
        reviewed=frozenset(reviewed),
    )
    captures = suite_home() / "captures"
    checked = preflight(
        bundle,
        terms,
        captures=captures if captures.is_dir() else None,
        replay=replay_stored(captures),
        root=Path.cwd(),
    )

    kept_at = owner_key or suite_home() / "owner.key"
    kept = read_owner_key(kept_at) if private else None
    ours = kept or (new_owner_key() if private else None)

    def agree(submission: Submission, shown: tuple[Disclosure, ...]) -> None:
        _show(checked, submission, shown)
        if not yes and not agreed("Shall all this become public?", where="suite submit"):
            raise _Declined
        if ours is not None and kept is None:
            write_owner_key(kept_at, ours)

    try:
        done = write_submission(
            checked,
            terms,
            key=key,
            owner_key=ours,
            agree=agree,
            now=datetime.now(UTC),
            out=None if archive is not None else out,
            archive=archive,
        )
    except _Declined:
        click.echo("nothing was written", err=True)
        return
    if as_json:
        value = {"schema_version": 1, "path": str(done.path), "submission": done.submission.model_dump(mode="json")}
        click.echo(json.dumps(value, indent=1, sort_keys=True))
    else:
        click.echo(str(done.path))
        if archive is None:
            click.echo("next: suite result index, then commit both and open a pull request", err=True)


class _Declined(Exception):
    """The owner said no."""


def _show(checked: Preflight, submission: Submission, shown: tuple[Disclosure, ...]) -> None:
    h = checked.bundle.record.headlines
    click.echo(f"{checked.bundle.bundle_id}: {h.flips} flips of {h.n} probes, {h.path} path", err=True)
    click.echo(f"as {submission.id}, licence {submission.licence}, ", err=True, nl=False)
    click.echo(f"signed by {submission.submitter}" if submission.submitter else "unsigned", err=True)
    click.echo("\nThis becomes public, and cannot be called back:\n", err=True)
    inner = f"/{submission.bundle_id}/"
    rows = [(one.what.replace(inner, "/…/"), f"{one.size_bytes:,}", one.reveals) for one in shown]
    click.echo(plain_table(rows, headers=("file", "bytes", "what it reveals")), err=True)
    for warning in checked.warnings:
        click.echo(f"\nnote: {warning}", err=True)
    click.echo("", err=True)


def _packs(reference: tuple[Path, str] | None, candidate: tuple[Path, str] | None) -> EvidencePacks | None:
    from suite.submission.schema import EvidencePacks

    if reference is None and candidate is None:
        return None
    return EvidencePacks(reference=_pack(reference), candidate=_pack(candidate))


def _pack(named: tuple[Path, str] | None) -> EvidencePack | None:
    from pydantic import ValidationError

    from suite.files import sha256_file
    from suite.records import first_problem
    from suite.submission.schema import EvidencePack

    if named is None:
        return None
    path, url = named
    try:
        return EvidencePack(url=url, sha256=sha256_file(path), size_bytes=path.stat().st_size)
    except ValidationError as error:
        raise InvalidInput(first_problem(error), where=url[:200], hint="an https address without a query") from error
