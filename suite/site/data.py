"""The site's data: bundles and tables from results, figures published elsewhere, and the guides made of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from suite.site.facts import BundleFacts, CohortFacts, Refused
from suite.site.launches import ManifestFacts
from suite.site.published import Published
from suite.site.slugs import slug
from suite.site.speeds import Speeds
from suite.site.standing import PrivateFacts
from suite.stack.gpus import GPUS

__all__ = ["TIERS", "BundleFacts", "CohortFacts", "Guide", "Site"]

TIERS = ("reproduced", "consistent", "self-reported")
"""From the most to the least trusted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Guide:
    """One GPU and one model."""

    gpu: str
    model: str
    cohorts: tuple[CohortFacts, ...]
    """Prefill before decode, larger tables first."""
    bundles: tuple[BundleFacts, ...]
    manifests: tuple[ManifestFacts, ...]
    published: tuple[Published, ...]
    """Each with the tables of this GPU and model only."""
    speeds: tuple[Speeds, ...] = ()
    private: tuple[PrivateFacts, ...] = ()

    @property
    def page(self) -> str:
        """Path of its page in the site."""
        return f"guides/{slug(self.gpu)}/{slug(self.model)}.html"

    @property
    def withdrawn(self) -> tuple[BundleFacts, ...]:
        """Those of its bundles that were withdrawn; newest first."""
        return tuple(bundle for bundle in self.bundles if bundle.standing.withdrawal is not None)

    @property
    def withdrawn_stacks(self) -> frozenset[str]:
        """Names of the maintainers' stacks that were measured, and of which no result stands."""
        own = [bundle for bundle in self.bundles if bundle.standing.origin == "own"]
        standing = {bundle.name for bundle in own if bundle.latest}
        return frozenset(bundle.name for bundle in own) - standing

    @property
    def num_results(self) -> int:
        """Bundles that were not withdrawn."""
        return len(self.bundles) - len(self.withdrawn)

    @property
    def num_published(self) -> int:
        """Figures published elsewhere."""
        return sum(len(table.rows) for published in self.published for table in published.tables)


@dataclass(frozen=True, kw_only=True)
class Site:
    """All that the pages are made from."""

    bundles: tuple[BundleFacts, ...]
    """Newest first."""
    cohorts: tuple[CohortFacts, ...]
    refused: tuple[Refused, ...]
    published: tuple[Published, ...]
    manifests: tuple[ManifestFacts, ...] = ()
    """Stacks that may be launched though nobody measured them here."""
    speeds: tuple[Speeds, ...] = ()
    private: tuple[PrivateFacts, ...] = ()
    """What owners of private sessions published; newest first."""

    @property
    def everything(self) -> tuple[BundleFacts | PrivateFacts, ...]:
        """Bundles, then what stands for private ones."""
        return (*self.bundles, *self.private)

    @cached_property
    def by_id(self) -> dict[str, BundleFacts]:
        """Bundles by `bundle_id`."""
        return {bundle.bundle_id: bundle for bundle in self.bundles}

    @cached_property
    def guides(self) -> tuple[Guide, ...]:
        """One for every GPU and model of which anything is known."""
        keys = {(bundle.gpu, bundle.model) for bundle in self.bundles}
        keys |= {(manifest.gpu, manifest.model) for manifest in self.manifests if manifest.gpu}
        keys |= {(table.gpu, table.model) for table in self.speeds}
        keys |= {(table.gpu, table.model) for published in self.published for table in published.tables}
        return tuple(self._guide(gpu, model) for gpu, model in sorted(keys))

    def _guide(self, gpu: str, model: str) -> Guide:
        cohorts = [c for c in self.cohorts if (c.gpu, c.model) == (gpu, model)]
        published = (one.restricted(gpu, model) for one in self.published)
        return Guide(
            gpu=gpu,
            model=model,
            cohorts=tuple(sorted(cohorts, key=lambda c: (c.path != "prefill", -len(c.rows), c.key))),
            bundles=tuple(b for b in self.bundles if (b.gpu, b.model) == (gpu, model)),
            manifests=tuple(m for m in self.manifests if (m.gpu, m.model) == (gpu, model)),
            published=tuple(one for one in published if one.tables),
            speeds=tuple(table for table in self.speeds if (table.gpu, table.model) == (gpu, model)),
            private=tuple(one for one in self.private if (_gpu_of(one), one.model) == (gpu, model)),
        )


def _gpu_of(private: PrivateFacts) -> str:
    """The GPU as manifests name it, where the driver's name is that with a maker's name before it."""
    words = private.device.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return next((gpu.name for gpu in GPUS if words in (gpu.name, gpu.name.partition(" ")[0])), private.device)
