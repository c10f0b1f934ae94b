"""The same data for programs: `index.json` with its schema, CSV, and an Atom feed of new results."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from suite.files import canonical_json, pretty_json
from suite.site.data import BundleFacts, Site
from suite.site.interface import Link, Output
from suite.site.keys import key_of
from suite.site.rendering import Renderer
from suite.site.text import visible

SCHEMA_VERSION = 1
_NEWEST = 50
_COLUMNS = (
    "bundle_id", "tier", "created", "role", "gpu", "gpu_count", "model", "weights", "attention_backend",
    "kv_cache_dtype", "tensor_parallel_size", "vllm", "image", "workload", "workload_tokens", "path", "reference",
    "causal_claim", "n", "flips", "flips_tied", "flips_uncertain", "flips_leaning", "flips_confident",
    "rounding_kl", "off_policy", "kv_capacity_tokens", "weight_bytes", "lock_digest", "record_sha256",
)  # fmt: skip

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
    bundles: list[IndexBundle]


class Feeds:
    """Files for programs."""

    name = "feeds"

    def __init__(self, *, base_url: str = "") -> None:
        """Args: base_url: where the site will lie, with a closing `/`, or empty."""
        self._base_url = base_url

    def outputs(self, site: Site) -> Iterable[Output]:
        """The index with its schema, the CSV, and the feed."""
        keys = [[bundle.key, bundle.latest] for bundle in site.bundles]
        tables = [cohort.key for cohort in site.cohorts]
        guides = [guide.page for guide in site.guides]
        yield Output(path="index.json", key=key_of("index", keys, tables, guides), make=partial(_index, site))
        yield Output(path="index.schema.json", key=key_of("schema"), make=_schema)
        yield Output(path="results.csv", key=key_of("csv", keys), make=partial(_csv, site))
        newest = keys[:_NEWEST]
        yield Output(
            path="feed.xml", key=key_of("feed", self._base_url, newest), make=partial(_feed, site, self._base_url)
        )

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """None."""
        return ()


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
        bundles=[IndexBundle.model_validate(_bundle(bundle)) for bundle in site.bundles],
    )


def _bundle(bundle: BundleFacts) -> dict[str, Any]:
    own = {name: getattr(bundle, name) for name in IndexBundle.model_fields if hasattr(bundle, name)}
    return own | {
        "factors": [f"{factor.key}: {factor.reference} -> {factor.candidate}" for factor in bundle.factors],
        "flips_interval": None if bundle.flips_interval is None else list(bundle.flips_interval),
        "kl_ref_cand": bundle.kl.model_dump(),
        "kl_ref_cand_mean_interval": None if bundle.kl_interval is None else list(bundle.kl_interval),
        "repeat_floor": list(bundle.floor),
    }


def _index(site: Site, renderer: Renderer) -> bytes:
    # Not indented: a thousand bundles are 1.5 MB, and programs read it.
    return canonical_json(index_of(site).model_dump(mode="json"))


def _schema(renderer: Renderer) -> bytes:
    return pretty_json({"$schema": "https://json-schema.org/draft/2020-12/schema"} | Index.model_json_schema())


def _csv(site: Site, renderer: Renderer) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        [*_COLUMNS, "factors", "kl_ref_cand_mean", "kl_ref_cand_p99", "kl_ref_cand_max", "repeat_floor_flips"]
    )
    for bundle in site.bundles:
        own = [_cell(getattr(bundle, name)) for name in _COLUMNS]
        factors = "; ".join(f"{factor.key}: {factor.candidate}" for factor in bundle.factors)
        floor = " ".join(str(flips) for flips in bundle.floor)
        writer.writerow([*own, _cell(factors), bundle.kl.mean, bundle.kl.p99, bundle.kl.max, floor])
    return buffer.getvalue().encode()


def _cell(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    plain = visible(value)
    return f"'{plain}" if plain[:1] in {"=", "+", "-", "@", "\t"} else plain


def _feed(site: Site, base_url: str, renderer: Renderer) -> bytes:
    newest = site.bundles[:_NEWEST]
    return renderer.page(
        "feed.xml",
        path="feed.xml",
        title="New results",
        bundles=newest,
        updated=newest[0].created if newest else "1970-01-01T00:00:00Z",
        base_url=base_url,
        self_url=posixpath.join(base_url, "feed.xml") if base_url else "feed.xml",
    )
