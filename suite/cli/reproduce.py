"""`suite reproduce BUNDLE`: run somebody else's lock again on this machine, and compare."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from suite.reproduce.run import Reproduction

_FILE = click.Path(dir_okay=False, path_type=Path)


def _positions(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 24:
        return int(value)
    raise click.BadParameter("`all`, or how many positions to draw", context, parameter)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--positions",
    "count",
    callback=_positions,
    default="all",
    show_default=True,
    metavar="all|DRAW",
    help="All positions of the lock, or how many to draw by the operating system's randomness.",
)
@click.option("--key", type=_FILE, help="Private key that signs a record of the reproduction; it lifts the tier.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Results folder to which the record is added.",
)
@click.option(
    "--reference",
    "packs",
    multiple=True,
    metavar="PACK",
    help="Take the reference from this pack (file, folder or URL) instead of running it; may be given again.",
)
@click.option(
    "--repeats",
    "starts",
    type=click.IntRange(1, 100),
    help="Starts, if the first differs; by default the lock's, at most 3.",
)
@click.option("--policy", "policy_file", type=_FILE, help="JSON file of what is allowed; see docs/reproduce.md.")
@click.option("--yes", is_flag=True, help="Do not ask before fetching and running.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def reproduce(
    bundle: Path,
    count: int | None,
    key: Path | None,
    results: Path,
    packs: tuple[str, ...],
    starts: int | None,
    policy_file: Path | None,
    yes: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the lock of BUNDLE again on this machine, trusting nothing in it, and compare every row.

    The bundle is taken in, its locks are held against allow-lists, and what will be fetched and run is shown before
    anything happens. Says identical, within floor, or differs (exit code 5), with numbers.
    """
    from suite.cli.agree import agreed
    from suite.cli.key import open_key
    from suite.cli.progress import Progress
    from suite.reproduce.policy import Policy, load_policy
    from suite.reproduce.proposal import propose
    from suite.reproduce.run import attest
    from suite.reproduce.run import reproduce as run_again
    from suite.results.attestation import require_someone_else

    policy = Policy() if policy_file is None else load_policy(policy_file)
    signer = None if key is None else open_key(key)
    proposal = propose(bundle, root=Path.cwd(), policy=policy, count=count, starts=starts, packs=packs)
    if signer is not None:
        require_someone_else(proposal.bundle, kind="reproduced", key_id=signer.key_id, results=results)
    _show(list(proposal.lines()))
    if not yes and not agreed("Fetch and run this?", where="suite reproduce"):
        click.echo("nothing was fetched or run", err=True)
        return
    try:
        with Progress(quiet=quiet) as progress:
            found = run_again(proposal, observer_for=progress.line, cancelled=threading.Event())
    except KeyboardInterrupt:
        click.echo("interrupted; a reproduction begins anew", err=True)
        sys.exit(130)
    record = None if signer is None else attest(found, results=results, key=signer)
    if as_json:
        click.echo(json.dumps(found.to_json() | {"record": None if record is None else str(record)}, indent=1))
    else:
        click.echo(_text(found))
        click.echo(f"record: {record}" if record else "no record was written: give --key to sign one")
    _require_reproduced(found)


def _show(lines: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name:<{width}}  {value}", err=True)


def _text(found: Reproduction) -> str:
    from tabulate import tabulate

    c = found.comparison
    rows = [
        (name, f"{side.identical_rows:,} of {c.n:,}", f"{side.flips:,}")
        for name, side in (("candidate", c.candidate), ("reference", c.reference))
    ]
    parts = [
        tabulate(rows, headers=("side", "identical rows", "other best token"), disable_numparse=True),
        "",
        f"flips against the reference: {c.flips_claimed:,} claimed, {c.flips_found:,} found, of {c.n:,}; "
        f"mean KL {c.mean_kl_claimed:.3e} claimed, {c.mean_kl_found:.3e} found",
        *(
            [f"at {c.contradicted:,} positions the rows are the same and the bundle's numbers are not"]
            * bool(c.contradicted)
        ),
        f"hardware: {'the same' if found.same_hardware else 'another'}; "
        f"reference: {'from a reference pack' if found.reference_from_pack else 'run here'}; network: {found.network}",
        *(f"  {d.key}: {_short(d.bundle)} there, {_short(d.here)} here" for d in found.differences[:12]),
        f"{c.verdict}: {c.why}",
        f"own bundle: {found.own.folder}",
    ]
    return "\n".join(parts)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _require_reproduced(found: Reproduction) -> None:
    from suite.errors import VerificationFailed

    if found.comparison.verdict == "differs":
        where = "on the same hardware" if found.same_hardware else "on other hardware than the bundle's"
        altered = found.comparison.contradicted > 0
        raise VerificationFailed(
            f"not reproduced {where}: {found.comparison.why}",
            where=found.theirs.bundle_id,
            hint="do not quote this bundle"
            if altered or found.same_hardware
            else "other hardware and drivers move the last bits of many rows: this shows neither right nor wrong",
        )
