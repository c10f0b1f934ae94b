"""How far a bundle is trusted: what its own signature can never say, and others' attestations can."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from suite.results.attestation import Attested, Reproduced

Tier = Literal["self-reported", "consistent", "reproduced"]
TIERS: tuple[Tier, ...] = ("self-reported", "consistent", "reproduced")
"""Lowest first."""


def tier_of(
    record_sha256: str,
    signer_key_ids: Collection[str],
    attestations: Iterable[Attested],
    trusted: Collection[str],
) -> Tier:
    """The highest tier to which a trusted key lifts a bundle.

    An attestation counts if one of its signers is trusted and is none of the bundle's own. `reproduced` also needs a
    signed bundle, since "someone else" means nothing beside an unknown, and rows that do not differ.

    Args:
        record_sha256: Of the bundle.
        signer_key_ids: Keys that signed the bundle or its submission.
        attestations: Checked ones, of any bundles.
        trusted: Key ids whose word counts.
    """
    reached = {
        _lifts(one, signed=bool(signer_key_ids))
        for one in attestations
        if one.attestation.record_sha256 == record_sha256
        and (set(one.key_ids) & set(trusted))
        and not set(one.key_ids) & set(signer_key_ids)
    }
    return max(reached, key=TIERS.index, default="self-reported")


def _lifts(attested: Attested, *, signed: bool) -> Tier:
    detail = attested.attestation.detail
    if not isinstance(detail, Reproduced):
        return "consistent"
    return "reproduced" if signed and detail.verdict != "differs" else "self-reported"
