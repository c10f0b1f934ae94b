"""`index.json`: what the site shows, for programs, with its schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from suite.site.data import BundleFacts, Site
from suite.site.standing import PrivateFacts, Standing

SCHEMA_VERSION = 1

Interval = Annotated[list[float], Field(min_length=2, max_length=2)]


class _Open(BaseModel):
    model_config = ConfigDict(extra="forbid")


class IndexSpread(_Open):
    """A divergence over all probes, in nats."""

    mean: float
    median: float
    p90: float
    p99: float
    p999: float | None
    max: float


class IndexNotice(_Open):
    """A dated correction or withdrawal."""

    kind: Literal["correction", "withdrawal"]
    created: str
    why: str
    replaced_by: str
    """Empty: nothing."""


class IndexCheck(_Open):
    """Someone's signed word of a check or a reproduction."""

    kind: Literal["consistent", "reproduced"]
    created: str
    told: str
    key_ids: list[str]
    counts: bool
    """Whether it may lift the tier: a trusted key's that is none of the bundle's own."""
    page: str


class IndexBundle(_Open):
    """One bundle."""

    bundle_id: str
    page: str
    """Relative to the index."""
    created: str
    tier: Literal["reproduced", "consistent", "self-reported"]
    role: Literal["reference", "candidate", "band"]
    latest: bool
    gpu: str
    gpu_count: int
    model: str
    weights: str
    attention_backend: str
    kv_cache_dtype: str
    tensor_parallel_size: int
    vllm: str
    image: str
    workload: str
    workload_tokens: int
    path: Literal["prefill", "decode"]
    reference: str
    factors: list[str]
    causal_claim: bool
    n: int
    flips: int
    flips_tied: int
    flips_uncertain: int
    flips_leaning: int
    flips_confident: int
    flips_interval: Interval | None
    kl_ref_cand: IndexSpread
    kl_ref_cand_mean_interval: Interval | None
    rounding_kl: float | None
    repeat_floor: list[int]
    off_policy: int
    kv_capacity_tokens: int | None
    weight_bytes: int
    lock_digest: str
    record_sha256: str
    origin: Literal["own", "submitted"]
    signers: list[str]
    """Key ids."""
    checks: list[IndexCheck]
    notices: list[IndexNotice]
    withdrawn: bool


class IndexPrivate(_Open):
    """What the owner of a private session published: never ranked, never more than self-reported."""

    bundle_id: str
    page: str
    created: str
    tier: Literal["self-reported"]
    device: str
    model: str
    weights: str
    path: Literal["prefill", "decode"]
    reference: str
    n: int
    flips: int
    flips_tied: int
    flips_uncertain: int
    flips_leaning: int
    flips_confident: int
    record_sha256: str
    signers: list[str]
    notices: list[IndexNotice]
    withdrawn: bool


class IndexRow(_Open):
    """One row of a table."""

    bundle_id: str
    rank: int | None
    rank_reproduced: int | None
    kernel_change: str
    kernel_change_p: float | None


class IndexTable(_Open):
    """Bundles that may be compared with each other, and with no others."""

    gpu: str
    model: str
    path: str
    workload: str
    n: int
    scope: str
    rows: list[IndexRow]


class IndexGuide(_Open):
    """One guide."""

    gpu: str
    model: str
    page: str


class Index(_Open):
    """The whole of `index.json`."""

    schema_version: Literal[1]
    must_not_be_quoted_for: str
    guides: list[IndexGuide]
    tables: list[IndexTable]
    withdrawn: list[str]
    """Bundles that no table holds any more."""
    bundles: list[IndexBundle]
    private: list[IndexPrivate]


def index_of(site: Site) -> Index:
    """The index as values."""
    from suite.compare.comparison import MUST_NOT

    return Index(
        schema_version=SCHEMA_VERSION,
        must_not_be_quoted_for=MUST_NOT,
        guides=[IndexGuide(gpu=guide.gpu, model=guide.model, page=guide.page) for guide in site.guides],
        tables=[
            IndexTable(
                gpu=cohort.gpu,
                model=cohort.model,
                path=cohort.path,
                workload=cohort.workload,
                n=cohort.n,
                scope=cohort.scope,
                rows=[
                    IndexRow(
                        bundle_id=row.bundle_id,
                        rank=row.rank,
                        rank_reproduced=row.rank_reproduced,
                        kernel_change=row.kernel_outcome,
                        kernel_change_p=row.kernel_p,
                    )
                    for row in cohort.rows
                ],
            )
            for cohort in site.cohorts
        ],
        withdrawn=[bundle.bundle_id for bundle in site.bundles if bundle.standing.withdrawal is not None],
        private=[_private(one) for one in site.private],
        bundles=[IndexBundle.model_validate(_bundle(bundle)) for bundle in site.bundles],
    )


def _private(one: PrivateFacts) -> IndexPrivate:
    own = {name: getattr(one, name) for name in IndexPrivate.model_fields if hasattr(one, name)}
    return IndexPrivate.model_validate(own | {"tier": "self-reported"} | _standing(one.standing, checked=False))


def _standing(standing: Standing, *, checked: bool) -> dict[str, Any]:
    told = {
        "signers": list(standing.signers),
        "notices": [notice.model_dump() for notice in standing.notices],
        "withdrawn": standing.withdrawal is not None,
    }
    names = {"kind", "created", "told", "key_ids", "counts"}
    checks = [check.model_dump(mode="json", include=names) | {"page": check.page} for check in standing.checks]
    return told | ({"origin": standing.origin, "checks": checks} if checked else {})


def _bundle(bundle: BundleFacts) -> dict[str, Any]:
    own = {name: getattr(bundle, name) for name in IndexBundle.model_fields if hasattr(bundle, name)}
    return (
        own
        | _standing(bundle.standing, checked=True)
        | {
            "factors": [f"{factor.key}: {factor.reference} -> {factor.candidate}" for factor in bundle.factors],
            "flips_interval": None if bundle.flips_interval is None else list(bundle.flips_interval),
            "kl_ref_cand": bundle.kl.model_dump(),
            "kl_ref_cand_mean_interval": None if bundle.kl_interval is None else list(bundle.kl_interval),
            "repeat_floor": list(bundle.floor),
        }
    )
