"""The buyer's guide of one GPU and one model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from suite.compare.comparison import MUST_NOT
from suite.errors import SuiteError
from suite.site.charts import IntervalChart, interval_chart
from suite.site.data import TIERS, BundleFacts, CohortFacts, Guide, Site
from suite.site.facts import RowFacts
from suite.site.interface import Link, Output
from suite.site.keys import key_of
from suite.site.labels import short_names
from suite.site.launches import CommandFacts, ManifestFacts, command_of
from suite.site.published import ORIGINS
from suite.site.rendering import Renderer
from suite.site.reopen import reopened_lock
from suite.site.verdict import Verdict, verdict_of
from suite.stack.gpus import find_gpu

_MOST_COMMANDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table of a guide with everything that stands around it."""

    cohort: CohortFacts
    rows: tuple[tuple[RowFacts, BundleFacts], ...]
    names: Mapping[str, str]
    verdict: Verdict
    chart: IntervalChart | None
    top: int
    """Flips of the row with the most."""
    grid: Grid | None

    @property
    def has_calls(self) -> bool:
        """Whether turns of any row were replayed."""
        return any(bundle.calls for _, bundle in self.rows)

    @property
    def has_consequences(self) -> bool:
        """Whether flips of any row were followed."""
        return any(bundle.consequences for _, bundle in self.rows)

    @property
    def has_p999(self) -> bool:
        """Whether there are enough probes for p99.9."""
        return any(bundle.kl.p999 is not None for _, bundle in self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Attention backend by KV cache, at the reference's weights."""

    weights: str
    kv_dtypes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[BundleFacts | str | None, ...]], ...]
    """Backend, and for each KV dtype the bundle, `reference`, or None where nothing was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One stack to launch."""

    facts: CommandFacts
    label: str
    bundle: BundleFacts | None
    """The measurement of exactly this stack."""
    manifest: ManifestFacts | None
    is_reference: bool = False
    is_measured_reference: bool = False
    """Whether bundles of this page were measured against it."""
    is_withdrawn: bool = False
    """Whether it was measured here, and the result withdrawn."""


class Guides:
    """One page for every GPU and model."""

    name = "guides"

    def outputs(self, site: Site) -> Iterable[Output]:
        """The pages."""
        for guide in site.guides:
            key = key_of(
                guide.gpu,
                guide.model,
                [cohort.model_dump(mode="json") for cohort in guide.cohorts],
                [bundle.key for bundle in guide.bundles],
                [published.model_dump(mode="json") for published in guide.published],
                [manifest.model_dump(mode="json") for manifest in guide.manifests],
                [table.model_dump(mode="json") for table in guide.speeds],
                [private.model_dump(mode="json") for private in guide.private],
            )
            yield Output(path=guide.page, key=key, make=partial(_page, guide))

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """None: the page of a bundle names its guide itself."""
        return ()


def _page(guide: Guide, renderer: Renderer) -> bytes:
    bundles = {bundle.bundle_id: bundle for bundle in guide.bundles}
    every = [bundle.name for bundle in guide.bundles]
    tables = tuple(table_of(cohort, bundles, every) for cohort in guide.cohorts)
    main = next((table for table in tables if len(table.rows) > 1), tables[0] if tables else None)
    pick = next((table.verdict.pick for table in tables if table.verdict.pick), None)
    commands = commands_of(guide)
    return renderer.page(
        "guide.html",
        path=guide.page,
        title=f"{guide.model} on {guide.gpu}",
        section="guides",
        guide=guide,
        gpu=find_gpu(guide.gpu),
        tables=tables,
        main=main,
        must_not=MUST_NOT,
        commands=commands[:_MOST_COMMANDS],
        chosen=_chosen(commands, pick),
        by_stack=_by_stack(guide.bundles),
        older=[b for b in guide.bundles if not b.latest and b.standing.withdrawal is None],
        tiers=[tier for tier in TIERS if any(bundle.tier == tier for bundle in guide.bundles if bundle.latest)],
        origins=ORIGINS,
    )


def _by_stack(bundles: Sequence[BundleFacts]) -> dict[str, list[BundleFacts]]:
    """The latest bundles of each name, prefill before decode."""
    found: dict[str, list[BundleFacts]] = {}
    for bundle in sorted(bundles, key=lambda b: b.path != "prefill"):
        # A table of speeds names the maintainers' manifests.
        if bundle.latest and bundle.standing.origin == "own":
            found.setdefault(bundle.name, []).append(bundle)
    return found


def table_of(cohort: CohortFacts, bundles: Mapping[str, BundleFacts], every: Sequence[str]) -> Table:
    """One table's view.

    Args:
        cohort: The table.
        bundles: By bundle.
        every: Names of all bundles of the guide, from which a lone row's short name is taken.
    """
    rows = tuple((row, bundles[row.bundle_id]) for row in cohort.rows)
    shown = [bundle for _, bundle in rows]
    names = short_names([bundle.name for bundle in shown] if len(shown) > 1 else every)
    return Table(
        cohort=cohort,
        rows=rows,
        names=names,
        verdict=verdict_of(cohort, bundles, names),
        chart=interval_chart(shown, names) if len(shown) > 1 else None,
        top=max([bundle.flips for bundle in shown], default=0),
        grid=grid_of(shown),
    )


def grid_of(bundles: Sequence[BundleFacts]) -> Grid | None:
    """Backends by KV dtypes among rows with the reference's weights; None where one of the two never varies."""
    plain = [bundle for bundle in bundles if not any(f.key == "weight_quantisation" for f in bundle.factors)]
    cells: dict[tuple[str, str], BundleFacts | str] = {}
    for bundle in plain:
        # Of several bundles in one cell (chunk sizes, say) the one with a single factor of the two stands.
        own = {factor.key for factor in bundle.factors} <= {"attention_backend", "kv_cache_dtype", "flash_attn_version"}
        if own:
            cells.setdefault((bundle.attention_backend, bundle.kv_cache_dtype), bundle)
    for bundle in plain:
        for factor in bundle.factors:
            if factor.key == "attention_backend":
                cells.setdefault((factor.reference, bundle.kv_cache_dtype), "reference")
            if factor.key == "kv_cache_dtype":
                cells.setdefault((bundle.attention_backend, factor.reference), "reference")
    backends = sorted({backend for backend, _ in cells})
    dtypes = sorted({dtype for _, dtype in cells}, key=lambda name: (name not in ("auto", "bfloat16"), name))
    if len(backends) < 2 and len(dtypes) < 2:
        return None
    return Grid(
        weights=plain[0].weights,
        kv_dtypes=tuple(dtypes),
        rows=tuple((backend, tuple(cells.get((backend, dtype)) for dtype in dtypes)) for backend in backends),
    )


def commands_of(guide: Guide) -> tuple[Command, ...]:
    """What can be launched: measured stacks first, then those that the repository pins and nobody measured here."""
    found: dict[tuple[str, str, str], Command] = {}
    manifests = {manifest.name: manifest for manifest in guide.manifests}
    in_order = sorted(
        (bundle for bundle in guide.bundles if bundle.latest), key=lambda b: (b.path != "prefill", b.flips, b.name)
    )
    for bundle in in_order:
        for command in _measured(bundle, manifests):
            facts = command.facts
            found.setdefault((facts.weights, facts.backend, facts.kv_cache_dtype), command)
    withdrawn = guide.withdrawn_stacks
    for manifest in guide.manifests:
        facts = manifest.command
        found.setdefault(
            (facts.weights, facts.backend, facts.kv_cache_dtype),
            Command(
                facts=facts,
                label=manifest.name,
                bundle=None,
                manifest=manifest,
                is_reference=manifest.role == "reference",
                is_withdrawn=manifest.name in withdrawn,
            ),
        )
    return tuple(found[key] for key in sorted(found))


def _measured(bundle: BundleFacts, manifests: Mapping[str, ManifestFacts]) -> Iterable[Command]:
    try:
        own, reference = reopened_lock(bundle, "lock.json"), reopened_lock(bundle, "reference-lock.json")
    except SuiteError:
        return
    yield Command(
        facts=command_of(own, weights=bundle.weights),
        label=bundle.name,
        bundle=bundle,
        manifest=manifests.get(bundle.name) if bundle.standing.origin == "own" else None,
    )
    weights = reference.model.weight_format or reference.model.source.derive or "not stated"
    if reference.hardware.gpu == own.hardware.gpu:
        yield Command(
            facts=command_of(reference, weights=weights),
            label=reference.name,
            bundle=None,
            manifest=manifests.get(reference.name) if bundle.standing.origin == "own" else None,
            is_reference=True,
            is_measured_reference=True,
        )


def _chosen(commands: Sequence[Command], pick: BundleFacts | None) -> int:
    """Which command stands open: that of the verdict, else a measured reference's, else what the repository puts first.

    Manifests at the top of their folder are those that it puts first.
    """
    if pick is not None:
        for place, command in enumerate(commands):
            if command.bundle is not None and command.bundle.bundle_id == pick.bundle_id:
                return place
    shown = [(place, command) for place, command in enumerate(commands) if command.facts.shown]
    for place, command in shown:
        if command.is_measured_reference:
            return place
    for place, command in shown:
        if not command.is_reference and command.manifest is not None and "/" not in command.manifest.path:
            return place
    return next((place for place, command in shown if not command.is_reference), shown[0][0] if shown else 0)
