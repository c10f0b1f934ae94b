"""The same data for programs: `index.json` with its schema, CSV, and an Atom feed of new results."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from suite.files import canonical_json, pretty_json
from suite.site.data import BundleFacts, Site
from suite.site.index_file import Index, index_of
from suite.site.interface import Link, Output
from suite.site.keys import key_of
from suite.site.rendering import Renderer
from suite.site.standing import Standing
from suite.site.text import visible

_NEWEST = 50
_COLUMNS = (
    "bundle_id", "tier", "created", "role", "gpu", "gpu_count", "model", "weights", "attention_backend",
    "kv_cache_dtype", "tensor_parallel_size", "vllm", "image", "workload", "workload_tokens", "path", "reference",
    "causal_claim", "n", "flips", "flips_tied", "flips_uncertain", "flips_leaning", "flips_confident",
    "rounding_kl", "off_policy", "kv_capacity_tokens", "weight_bytes", "lock_digest", "record_sha256",
)  # fmt: skip
_OWN = ("origin", "withdrawn")


class Feeds:
    """Files for programs."""

    name = "feeds"

    def __init__(self, *, base_url: str = "") -> None:
        """Args: base_url: where the site will lie, with a closing `/`, or empty."""
        self._base_url = base_url

    def outputs(self, site: Site) -> Iterable[Output]:
        """The index with its schema, the CSV, and the feed."""
        keys = [[bundle.key, bundle.latest] for bundle in site.bundles]
        private = [one.model_dump(mode="json") for one in site.private]
        tables = [cohort.key for cohort in site.cohorts]
        guides = [guide.page for guide in site.guides]
        yield Output(path="index.json", key=key_of("index", keys, tables, guides, private), make=partial(_index, site))
        yield Output(path="index.schema.json", key=key_of("schema"), make=_schema)
        yield Output(path="results.csv", key=key_of("csv", keys), make=partial(_csv, site))
        yield Output(
            path="feed.xml",
            key=key_of("feed", self._base_url, keys, private),
            make=partial(_feed, site, self._base_url),
        )

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """None."""
        return ()


def _index(site: Site, renderer: Renderer) -> bytes:
    # Not indented: a thousand bundles are 1.5 MB, and programs read it.
    return canonical_json(index_of(site).model_dump(mode="json"))


def _schema(renderer: Renderer) -> bytes:
    return pretty_json({"$schema": "https://json-schema.org/draft/2020-12/schema"} | Index.model_json_schema())


def _csv(site: Site, renderer: Renderer) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        [*_COLUMNS, "factors", "kl_ref_cand_mean", "kl_ref_cand_p99", "kl_ref_cand_max", "repeat_floor_flips", *_OWN]
    )
    for bundle in site.bundles:
        own = [_cell(getattr(bundle, name)) for name in _COLUMNS]
        factors = "; ".join(f"{factor.key}: {factor.candidate}" for factor in bundle.factors)
        floor = " ".join(str(flips) for flips in bundle.floor)
        writer.writerow(
            [*own, _cell(factors), bundle.kl.mean, bundle.kl.p99, bundle.kl.max, floor, *_standing(bundle.standing)]
        )
    return buffer.getvalue().encode()


def _cell(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    plain = visible(value)
    return f"'{plain}" if plain[:1] in {"=", "+", "-", "@", "\t"} else plain


def _standing(standing: Standing) -> tuple[str, str]:
    return standing.origin, "" if standing.withdrawal is None else standing.withdrawal.created


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of the feed: a result, or what was said of one afterwards."""

    updated: str
    urn: str
    title: str
    page: str
    category: str
    summary: str


def entries_of(site: Site) -> list[Entry]:
    """Results, private ones too, with every correction and withdrawal, newest first."""
    found = []
    for b in site.bundles:
        found.append(
            Entry(
                updated=b.created,
                urn=f"urn:sha256:{b.record_sha256}",
                title=f"{b.name}: {b.flips:,} of {b.n:,} flips",
                page=b.page,
                category=b.tier,
                summary=f"{b.model} on {b.gpu}, {b.path} path, against {b.reference}. {b.factor_text}. "
                f"{b.flips_tied:,} tied, {b.flips_confident:,} confident. {b.tier}; of one recorded session.",
            )
        )
    for one in site.private:
        found.append(
            Entry(
                updated=one.created,
                urn=f"urn:sha256:{one.record_sha256}",
                title=f"{one.name}: {one.flips:,} of {one.n:,} flips, private session",
                page=one.page,
                category="self-reported",
                summary=f"{one.model} on {one.device}, {one.path} path, against {one.reference}. Aggregates only.",
            )
        )
    for result in site.everything:
        for notice in result.standing.notices:
            found.append(
                Entry(
                    updated=notice.created,
                    urn=f"urn:sha256:{key_of('notice', result.record_sha256, notice.model_dump())}",
                    title=f"{'Withdrawn' if notice.kind == 'withdrawal' else 'Corrected'}: {result.name}",
                    page=result.page,
                    category=notice.kind,
                    summary=notice.why,
                )
            )
    return sorted(found, key=lambda entry: (entry.updated, entry.urn), reverse=True)


def _feed(site: Site, base_url: str, renderer: Renderer) -> bytes:
    newest = entries_of(site)[:_NEWEST]
    return renderer.page(
        "feed.xml",
        path="feed.xml",
        title="New results",
        entries=newest,
        updated=newest[0].updated if newest else "1970-01-01T00:00:00Z",
        base_url=base_url,
        self_url=posixpath.join(base_url, "feed.xml") if base_url else "feed.xml",
    )
