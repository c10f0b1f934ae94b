"""How a result stands among others: who signed it, who checked it, and what was said of it afterwards."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoticeFacts(_Kept):
    """A dated correction or withdrawal."""

    kind: Literal["correction", "withdrawal"]
    created: str
    why: str
    replaced_by: str
    """Id of the bundle to look at instead; empty: none."""


class CheckFacts(_Kept):
    """Someone's signed word that the bundle was checked, or run again."""

    name: str
    """Of its folder."""
    folder: str
    """On the machine that builds."""
    kind: Literal["consistent", "reproduced"]
    created: str
    told: str
    """What came out, in words."""
    key_ids: tuple[str, ...]
    key_names: dict[str, str]
    """Key id -> whose key it is, as the list of trusted keys says; keys that are not listed have none."""
    counts: bool
    """Whether a trusted key that is none of the bundle's own signed it."""
    own_record_sha256: str
    """Of the reproducer's own bundle; empty: none."""
    sha256: str
    """Of `attestation.json`."""

    @property
    def page(self) -> str:
        """Where the site offers it."""
        return f"attestations/{self.name}.json"


class Standing(_Kept):
    """What lifts a bundle, or takes it down."""

    tier: Literal["self-reported", "consistent", "reproduced"] = "self-reported"
    origin: Literal["own", "submitted", "private"] = "own"
    """Of the maintainers, submitted whole, or as aggregates alone."""
    owner: str = "own"
    """Two bundles of one name and owner follow each other; those of others stand side by side."""
    signers: tuple[str, ...] = ()
    """Key ids, sorted."""
    licence: str = ""
    note: str = ""
    """The submitter's words."""
    checks: tuple[CheckFacts, ...] = ()
    notices: tuple[NoticeFacts, ...] = ()
    """Oldest first."""

    @property
    def withdrawal(self) -> NoticeFacts | None:
        """Why it counts no more; None where it stands."""
        return next((notice for notice in self.notices if notice.kind == "withdrawal"), None)


class PrivateFacts(_Kept):
    """What the owner of a private session published of one bundle: counts and sums, and nothing that tells the text."""

    bundle_id: str
    record_sha256: str
    created: str
    name: str
    model: str
    weights: str
    engine: str
    image: str
    device: str
    reference: str
    path: str
    factors: tuple[str, ...]
    causal_claim: bool
    n: int
    num_turns: int
    flips: int
    flips_tied: int
    flips_uncertain: int
    flips_leaning: int
    flips_confident: int
    kl_mean: float
    floor: tuple[int, ...]
    turns: tuple[tuple[int, int, int, int], ...]
    """Message, probes, flips, confident flips."""
    standing: Standing

    @property
    def page(self) -> str:
        """Path of its page in the site."""
        return f"results/{self.bundle_id}/index.html"
