"""`suite result`: what is known of published results, and what their owners and others add to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from suite.cli.tables import plain_table
from suite.errors import InvalidInput, VerificationFailed

if TYPE_CHECKING:
    from suite.results.load import Result

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_RESULTS = click.option(
    "--results",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="The results folder.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
_WHY = click.option("--why", required=True, help="What was wrong, in plain words; it becomes public.")
_REPLACED = click.option("--replaced-by", metavar="RESULT", help="The result to look at instead.")


@click.group()
def result() -> None:
    """List published results, correct and withdraw them, and attest others'.

    RESULT is a folder, or an id that `suite result list` shows. Nothing published is ever changed: notices and
    attestations are added beside it.
    """


@result.command("list")
@_RESULTS
@_JSON
def list_results(results: Path, as_json: bool) -> None:
    """List every result with its tier, who signed it, and what was said of it since.

    In a git checkout, bundles that git does not know are left out: what you measured there is not published.
    """
    from suite.results.index import index_of
    from suite.results.load import load_results

    loaded = load_results(results)
    if as_json:
        click.echo(json.dumps(index_of(loaded), indent=1, sort_keys=True))
        return
    rows = [
        (one.bundle_id, one.origin, one.tier, _standing(one), ", ".join(key[:16] for key in one.signers) or "unsigned")
        for one in loaded.results
    ]
    if rows:
        click.echo(plain_table(rows, headers=("result", "origin", "tier", "standing", "signed by")))
    else:
        click.echo("no results here", err=True)


@result.command()
@click.argument("named", metavar="RESULT")
@_WHY
@_REPLACED
@_RESULTS
def correct(named: str, why: str, replaced_by: str | None, results: Path) -> None:
    """Add a dated correction to RESULT, which stays in its ranks, or stays withdrawn."""
    _notice("correction", named, why, replaced_by, results)


@result.command()
@click.argument("named", metavar="RESULT")
@_WHY
@_REPLACED
@_RESULTS
def withdraw(named: str, why: str, replaced_by: str | None, results: Path) -> None:
    """Withdraw RESULT for good: it leaves every rank, and stays to be seen as withdrawn."""
    _notice("withdrawal", named, why, replaced_by, results)


@result.command()
@click.argument("named", metavar="RESULT")
@click.option("--key", "key_file", required=True, type=_FILE, help="Private key of `suite key new`.")
@click.option("--evidence", "packs", multiple=True, metavar="FILE_OR_URL", help="As of `suite verify`.")
@click.option("--checkpoint", metavar="FOLDER_OR_URL", help="As of `suite verify`.")
@_RESULTS
@click.pass_context
def attest(
    context: click.Context,
    named: str,
    key_file: Path,
    packs: tuple[str, ...],
    checkpoint: str | None,
    results: Path,
) -> None:
    """Recompute the whole ledger of RESULT from its evidence and, if it follows, say so under your name.

    The same as `suite verify BUNDLE --full --key KEY`.
    """
    from suite.cli.verify import verify
    from suite.results.choose import choose_result
    from suite.results.load import load_results

    chosen = choose_result(load_results(results), named)
    if chosen.bundle is None:
        raise InvalidInput(
            "a private result holds nothing that could be recomputed",
            where=chosen.bundle_id,
            hint="it stays self-reported",
        )
    context.invoke(
        verify,
        bundles=(chosen.bundle,),
        full=True,
        packs=packs,
        checkpoint=checkpoint,
        key_file=key_file,
        results=results,
    )


@result.command()
@click.argument("public_key", type=_FILE, metavar="KEY.pub")
@click.option("--name", required=True, help="Whose it is, for readers.")
@click.option("--role", type=click.Choice(["maintainer", "reproducer"]), default="reproducer", show_default=True)
@_RESULTS
def trust(public_key: Path, name: str, role: Literal["maintainer", "reproducer"], results: Path) -> None:
    """For maintainers: list a key whose attestations lift tiers here."""
    from datetime import UTC, datetime

    from pydantic import ValidationError

    from suite.records import first_problem, timestamp
    from suite.results.trusted import TrustedKey, add_trusted
    from suite.signing.keys import load_verify_key

    _require_words(name, where="--name")
    key_id = load_verify_key(public_key).key_id
    try:
        listed = TrustedKey(key_id=key_id, name=name, role=role, since=timestamp(datetime.now(UTC))[:10])
    except ValidationError as error:
        raise InvalidInput(first_problem(error), where="--name") from error
    click.echo(f"{add_trusted(results, listed)}: {key_id}")
    click.echo("next: suite result index, since tiers may have changed", err=True)


@result.command()
@_RESULTS
def index(results: Path) -> None:
    """Rebuild index.json: what `suite result list --json` prints."""
    from suite.results.index import write_index
    from suite.results.load import load_results

    loaded = load_results(results)
    click.echo(f"{write_index(loaded)}: {len(loaded.results)} results")


@result.command()
@_RESULTS
@click.option("--since", metavar="COMMIT", help="Refuse everything but whole additions since then.")
@click.option("--names-only", is_flag=True, help="With --since: compare names and kinds, and open no file.")
@click.option("--by-maintainer", is_flag=True, help="Trusted keys and bundles of the maintainers may be new too.")
@_JSON
def check(results: Path, since: str | None, names_only: bool, by_maintainer: bool, as_json: bool) -> None:
    """Check that a results folder holds together, that its index is current and, with --since, what was added.

    Prints the additions, one a line, for `suite intake`. Exit code 5 if anything is wrong.
    """
    from suite.results.check import check_results

    if names_only and since is None:
        raise InvalidInput("compares with no commit", where="--names-only", hint="add --since COMMIT")
    report = check_results(results, since=since, names_only=names_only, by_maintainer=by_maintainer)
    if as_json:
        value = {
            "schema_version": 1,
            "holds": not report.problems,
            "added": list(report.added),
            "problems": [{"where": one.where, "message": one.message} for one in report.problems],
        }
        click.echo(json.dumps(value, indent=1, sort_keys=True))
    else:
        for place in report.added:
            click.echo(place)
    for problem in report.problems:
        click.echo(f"{problem.where}: {problem.message}", err=True)
    if report.problems:
        raise VerificationFailed(
            f"{len(report.problems)} things in it may not be", where=str(results), hint="see docs/community.md"
        )
    if not names_only:
        # Standard output is the list of additions.
        click.echo(f"{report.num_results} results hold together", err=True)


def _notice(
    kind: Literal["correction", "withdrawal"], named: str, why: str, replaced_by: str | None, results: Path
) -> None:
    from datetime import UTC, datetime

    from pydantic import ValidationError

    from suite.records import first_problem
    from suite.results.choose import choose_result
    from suite.results.load import load_results
    from suite.results.notice import Notice, next_moment, write_notice

    _require_words(why, where="--why")
    loaded = load_results(results)
    chosen = choose_result(loaded, named)
    if kind == "withdrawal" and chosen.withdrawal is not None:
        raise InvalidInput(
            f"it was withdrawn on {chosen.withdrawal.created[:10]} already, and that is final",
            where=chosen.bundle_id,
            hint="what is to be said besides goes into a correction: suite result correct",
        )
    replacement = None if replaced_by is None else choose_result(loaded, replaced_by).bundle_id
    if replacement == chosen.bundle_id:
        raise InvalidInput(
            "a result cannot replace itself", where="--replaced-by", hint="name another, or leave it out"
        )
    try:
        notice = Notice(
            kind=kind,
            created=next_moment(chosen.notices, datetime.now(UTC)),
            bundle_id=chosen.bundle_id,
            record_sha256=chosen.record_sha256,
            why=why,
            replaced_by=replacement,
        )
    except ValidationError as error:
        raise InvalidInput(first_problem(error), where="--why") from error
    click.echo(str(write_notice(notice, results=results)))
    if chosen.is_withdrawn:
        click.echo("the result stays withdrawn", err=True)
    click.echo("next: suite result index, then commit both and open a pull request", err=True)


def _require_words(text: str, *, where: str) -> None:
    if not text.strip():
        raise InvalidInput("is empty", where=where, hint="a few plain words for readers; they become public")


def _standing(one: Result) -> str:
    if one.withdrawal is not None:
        return f"withdrawn {one.withdrawal.created[:10]}"
    if one.corrections:
        return f"corrected {one.corrections[-1].created[:10]}"
    return "stands"
