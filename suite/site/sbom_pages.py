"""What a stack is made of: one page for each distinct SBOM, and what differs between those of one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from suite.bundle.read import read_file
from suite.errors import SuiteError
from suite.sbom.diff import SbomDiff, diff_components
from suite.sbom.interface import KINDS, Component
from suite.sbom.read import BUNDLE_NAME, parse_components
from suite.site.data import BundleFacts, Site
from suite.site.interface import Copied, Link, Output
from suite.site.keys import key_of
from suite.site.rendering import Renderer

_MOST_COMPARED = 5
"""Other SBOMs with which one is compared: those of the same table, newest first."""
_DIGITS = 16


class SbomPages:
    """Components with search, and differences."""

    name = "sboms"

    def outputs(self, site: Site) -> Iterable[Output | Copied]:
        """A page and the document for each distinct SBOM, and pages of differences."""
        owners: dict[str, list[BundleFacts]] = {}
        for bundle in site.bundles:
            if sha256 := sbom_of(bundle):
                owners.setdefault(sha256, []).append(bundle)
        tables: dict[str, set[str]] = {}
        for cohort in site.cohorts:
            here = {sha for row in cohort.rows if (sha := sbom_of(site.by_id[row.bundle_id]))}
            for sha in here:
                tables.setdefault(sha, set()).update(here - {sha})
        order = list(owners)
        for sha256, bundles in owners.items():
            others = sorted(tables.get(sha256, ()), key=order.index)[:_MOST_COMPARED]
            named = [(other, owners[other][0]) for other in others]
            key = key_of("sbom", sha256, [b.bundle_id for b in bundles], [[o, b.bundle_id] for o, b in named])
            yield Output(path=page_of(sha256), key=key, make=partial(_page, sha256, bundles, named))
            folder = Path(bundles[0].folder)
            yield Copied(path=f"{_folder(sha256)}/{BUNDLE_NAME}", folder=folder, name=BUNDLE_NAME, sha256=sha256)
            for other, owner in named:
                yield Output(
                    path=diff_page(sha256, other),
                    key=key_of("sbom diff", sha256, other, bundles[0].bundle_id, owner.bundle_id),
                    make=partial(_diff, (sha256, bundles[0]), (other, owner)),
                )

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """The page of its SBOM."""
        sha256 = sbom_of(bundle)
        return (Link(path=page_of(sha256), text="Every component of the stack (SBOM)"),) if sha256 else ()


def sbom_of(bundle: BundleFacts) -> str:
    """SHA-256 of a bundle's SBOM; empty if it has none."""
    return dict(bundle.file_hashes).get(BUNDLE_NAME, "")


def page_of(sha256: str) -> str:
    """Path of an SBOM's page."""
    return f"{_folder(sha256)}/index.html"


def diff_page(sha256: str, other: str) -> str:
    """Path of the page on what differs between two."""
    return f"{_folder(sha256)}/from-{other[:_DIGITS]}.html"


def _folder(sha256: str) -> str:
    return f"sbom/{sha256[:_DIGITS]}"


def _components(bundle: BundleFacts) -> tuple[Component, ...] | None:
    try:
        return parse_components(read_file(Path(bundle.folder), BUNDLE_NAME), where=bundle.bundle_id)
    except SuiteError:
        return None


def _page(
    sha256: str, bundles: Sequence[BundleFacts], others: Sequence[tuple[str, BundleFacts]], renderer: Renderer
) -> bytes:
    components = _components(bundles[0])
    counts = Counter(component.kind for component in components or ())
    return renderer.page(
        "sbom.html",
        path=page_of(sha256),
        title=f"Components of {bundles[0].name}",
        section="results",
        sha256=sha256,
        bundles=bundles,
        components=components,
        counts=[(kind, counts[kind]) for kind in KINDS if counts[kind]],
        diffs=[(diff_page(sha256, other), owner) for other, owner in others],
        document=f"{_folder(sha256)}/{BUNDLE_NAME}",
    )


def _diff(mine: tuple[str, BundleFacts], other: tuple[str, BundleFacts], renderer: Renderer) -> bytes:
    before, after = _components(other[1]), _components(mine[1])
    diff: SbomDiff | None = None if before is None or after is None else diff_components(before, after)
    return renderer.page(
        "sbom_diff.html",
        path=diff_page(mine[0], other[0]),
        title=f"Components: from {other[1].name} to {mine[1].name}",
        section="results",
        before=other[1],
        after=mine[1],
        before_page=page_of(other[0]),
        after_page=page_of(mine[0]),
        diff=diff,
    )
