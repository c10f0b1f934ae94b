"""The numerical band: how far equally valid BF16 stacks lie from the same reference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from suite.bundle.read import Bundle, open_bundle
from suite.bundle.schema import BandMember, Evidence
from suite.errors import SuiteError


def band_members(bundles: Iterable[Path], *, reference: Evidence) -> tuple[BandMember, ...]:
    """The bundles of role `band` measured against exactly these reference rows: the latest of each name, by name.

    A bundle that cannot be read is no member; `suite verify` says what is wrong with it.

    Args:
        bundles: Folders to look at.
        reference: Evidence of the reference side; members have the same rows, at the same positions.
    """
    members: dict[str, BandMember] = {}
    for folder in sorted(bundles, key=lambda path: path.name):
        try:
            bundle = open_bundle(folder)
            role = bundle.lock().role
        except SuiteError:
            continue
        side = bundle.record.evidence.reference
        if role == "band" and (side.rows_sha256, side.path) == (reference.rows_sha256, reference.path):
            members[bundle.record.name] = member_of(bundle)
    return tuple(members[name] for name in sorted(members))


def member_of(bundle: Bundle) -> BandMember:
    """The counts of one bundle as a member of the band."""
    headlines = bundle.record.headlines
    return BandMember(
        name=bundle.record.name,
        bundle=bundle.bundle_id,
        flips=headlines.flips,
        flips_tied=headlines.flips_tied,
        flips_uncertain=headlines.flips_uncertain,
        flips_leaning=headlines.flips_leaning,
        flips_confident=headlines.flips_confident,
        n=headlines.n,
    )
