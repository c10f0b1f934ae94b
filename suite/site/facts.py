"""What the pages say of one bundle and of one table of bundles, as values that can be kept between builds."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from suite.site.standing import Standing

Pair = tuple[float, float]


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FactorFacts(_Kept):
    """One thing in which a stack differs from its reference."""

    key: str
    reference: str
    candidate: str
    reason: str = ""


class Spread(_Kept):
    """One divergence over all probes, in nats."""

    mean: float
    median: float
    p90: float
    p99: float
    p999: float | None
    max: float


class BandFacts(_Kept):
    """One member of the numerical band, as a bundle names it."""

    name: str
    bundle_id: str
    flips: int
    flips_tied: int
    flips_confident: int
    n: int


class WindowFacts(_Kept):
    """Counts of one window or range of a session."""

    key: int
    n: int
    flips: int
    flips_tied: int
    flips_uncertain: int
    flips_leaning: int
    flips_confident: int


class CallFacts(_Kept):
    """`k of m calls survive`, under one set of settings and one way of sampling."""

    settings: str
    mode: str
    survived: int
    n: int
    reference_survived: int | None
    reference_n: int | None
    p_value: float | None


class ConsequenceFacts(_Kept):
    """Flips of one class that were followed, and what became of them."""

    flip_class: str
    flips: int
    used: int
    counts: dict[str, int]


class BundleFacts(_Kept):
    """One bundle whose ledger has the hash and gives the headlines that it claims."""

    bundle_id: str
    """`<name>/<stamp>-<lock digest>`."""
    folder: str
    """Where the bundle lies on the machine that builds."""
    key: str
    """Digest of the record, of the sizes and times of its files, and of how it stands."""
    record_sha256: str
    """As the record gives it for itself."""
    record_file_sha256: str
    """Of the record's bytes."""
    lock_digest: str
    reference_lock_digest: str
    reference_rows_sha256: str
    """Over the reference's row hashes, as the record names it."""
    name: str
    created: str
    role: str
    tier: str
    standing: Standing
    latest: bool
    """No later bundle of its owner has this name, and it was not withdrawn."""
    file_hashes: tuple[tuple[str, str], ...]
    """Name and SHA-256 of every file beside the record."""

    gpu: str
    """As manifests name it; `CPU x86_64` for a processor."""
    gpu_count: int
    device: str
    """As the driver names it."""
    architecture: str
    model: str
    source: str
    """Repository and revision, or wheel and version."""
    weights: str
    """How they are stored, for instance `w4a16-g32`."""
    weight_bytes: int
    attention_backend: str
    kv_cache_dtype: str
    tensor_parallel_size: int
    max_model_len: int
    vllm: str
    image: str
    """`repository@digest`, or empty for the process runtime."""
    kv_capacity_tokens: int | None
    kv_bytes_per_token: float | None
    tool_call_parser: str

    workload: str
    workload_tokens: int
    path: str
    reference: str
    """Name of the reference's manifest."""
    factors: tuple[FactorFacts, ...]
    consequent: tuple[FactorFacts, ...]
    causal_claim: bool

    n: int
    num_turns: int | None
    flips: int
    flips_tied: int
    flips_uncertain: int
    flips_leaning: int
    flips_confident: int
    flips_interval: Pair | None
    confident_interval: Pair | None
    kl: Spread
    kl_interval: Pair | None
    kl_reverse: Spread
    jsd: Spread
    total_variation: float
    rounding_kl: float | None
    identical_rows: int
    replayed_rows: int
    off_policy: int
    interval_method: str
    """How the intervals were made, or why there are none."""
    floor: tuple[int, ...]
    """Flips of each repeat against the first start."""
    floor_starts: int
    band: tuple[BandFacts, ...]
    windows: tuple[WindowFacts, ...]
    strip: str
    """Where in the session the flips are, see `suite.site.charts.strip_paths`."""
    kl_histogram: tuple[int, ...]
    """Probes per bin of `suite.site.charts.HISTOGRAM_EDGES`."""
    calls: tuple[CallFacts, ...] = ()
    """Empty: not measured."""
    consequences: tuple[ConsequenceFacts, ...] = ()
    """Empty: no flip was followed."""
    fork_segments: int = 0
    """Parts of its file of forks, which can be read alone."""

    @property
    def folder_page(self) -> str:
        """Folder of the bundle's pages in the site."""
        return f"results/{self.bundle_id}"

    @property
    def page(self) -> str:
        """Path of the bundle's page in the site."""
        return f"{self.folder_page}/index.html"

    @property
    def is_band(self) -> bool:
        """Whether it is an equally valid stack, measured to show how far apart right answers lie."""
        return self.role == "band"

    @property
    def factor_text(self) -> str:
        """The one factor with its value, or why no cause may be named."""
        if not self.factors:
            return "none (same stack)"
        told = ", ".join(f"{factor.key}: {factor.candidate}" for factor in self.factors)
        return told if self.causal_claim else f"no causal claim: {told}"


class RowFacts(_Kept):
    """One row of a table of bundles."""

    bundle_id: str
    rank: int | None
    """Among all rows; None where nothing could be tested."""
    rank_reproduced: int | None
    """Among reproduced rows alone; None for other rows."""
    kernel_outcome: str
    kernel_member: str | None
    kernel_member_flips: int | None
    kernel_p: float | None


class PairFacts(_Kept):
    """Two rows that the paired test does not separate, or does."""

    lower: str
    higher: str
    p: float
    separated: bool


class CohortFacts(_Kept):
    """Bundles of one GPU and model with the same reference rows and probes: what may stand in one table."""

    key: str
    gpu: str
    model: str
    path: str
    workload: str
    workload_tokens: int
    reference: str
    n: int
    num_turns: int | None
    scope: str
    winner: str | None
    """Bundle that the test separates from every other."""
    winner_text: str
    band_text: str
    refusal: str | None
    rows: tuple[RowFacts, ...]
    """In order of flips."""
    withdrawn: tuple[str, ...] = ()
    """Bundles that would stand here, had they not been withdrawn."""
    pairs: tuple[PairFacts, ...]


class Refused(_Kept):
    """A bundle that is not shown, and why."""

    place: str
    reason: str


class Measured(_Kept):
    """What one group of bundles came to."""

    bundles: tuple[BundleFacts, ...] = ()
    cohorts: tuple[CohortFacts, ...] = ()
    refused: tuple[Refused, ...] = ()


_DEEPEST = 8


def plain(value: Any, *, depth: int = 0) -> str:
    """A setting as one reads it; what lies deeper than eight levels is left out."""
    if depth > _DEEPEST:
        return "…"
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain(item, depth=depth + 1)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(item, depth=depth + 1) for item in value)
    return str(value)
