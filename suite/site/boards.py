"""The leaderboard, with and without results that nobody has reproduced, and the list of all results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from suite.site.data import TIERS, BundleFacts, Site
from suite.site.interface import Link, Output
from suite.site.keys import key_of
from suite.site.labels import short_names
from suite.site.rendering import Renderer


class Boards:
    """Pages that list bundles of every GPU and model."""

    name = "boards"

    def outputs(self, site: Site) -> Iterable[Output]:
        """Two leaderboards and the list of results."""
        tables = [cohort.model_dump(mode="json") for cohort in site.cohorts]
        keys = [bundle.key for bundle in site.bundles]
        private = [one.model_dump(mode="json") for one in site.private]
        for path, only in (("leaderboard/index.html", True), ("leaderboard/all.html", False)):
            yield Output(path=path, key=key_of("board", only, tables, keys, private), make=partial(_board, site, path))
        refused = [one.model_dump() for one in site.refused]
        yield Output(
            path="results/index.html", key=key_of("list", keys, private, refused), make=partial(_results, site)
        )

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """None."""
        return ()


def _board(site: Site, path: str, renderer: Renderer) -> bytes:
    cohorts, bundles = site.cohorts, site.by_id
    reproduced_only = path.endswith("index.html")
    shown = []
    for cohort in cohorts:
        names = short_names([bundles[row.bundle_id].name for row in cohort.rows])
        rows = [
            (row, bundles[row.bundle_id], names[bundles[row.bundle_id].name])
            for row in cohort.rows
            if not reproduced_only or bundles[row.bundle_id].tier == "reproduced"
        ]
        if rows:
            gone = [] if reproduced_only else [bundles[bundle_id] for bundle_id in cohort.withdrawn]
            shown.append((cohort, rows, max(bundle.flips for _, bundle, _ in rows), gone))
    every = [bundle for _, rows, _, _ in shown for _, bundle, _ in rows]
    return renderer.page(
        "leaderboard.html",
        path=path,
        title="Leaderboard" if reproduced_only else "Leaderboard, every tier",
        section="leaderboard",
        reproduced_only=reproduced_only,
        cohorts=shown,
        gpus=sorted({bundle.gpu for bundle in every}),
        models=sorted({bundle.model for bundle in every}),
        factors=sorted({factor.key for bundle in every for factor in bundle.factors}),
        tiers=[tier for tier in TIERS if any(bundle.tier == tier for bundle in every)],
        num_other=sum(len(cohort.rows) for cohort in cohorts) - len(every),
        num_withdrawn=sum(bundle.standing.withdrawal is not None for bundle in site.bundles),
        private=() if reproduced_only else site.private,
    )


def _results(site: Site, renderer: Renderer) -> bytes:
    return renderer.page(
        "results.html",
        path="results/index.html",
        title="Results",
        section="results",
        bundles=site.bundles,
        private=site.private,
        refused=site.refused,
        gpus=sorted({bundle.gpu for bundle in site.bundles}),
        models=sorted({bundle.model for bundle in site.bundles}),
        tiers=[tier for tier in TIERS if any(bundle.tier == tier for bundle in site.bundles)],
    )
