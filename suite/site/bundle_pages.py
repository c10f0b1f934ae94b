"""The page of one bundle, and its files for download."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from suite.bundle.arbiter import ARBITER_NAME, ArbiterRecord, read_arbiter
from suite.bundle.read import Bundle
from suite.bundle.show import settings_table
from suite.compare.comparison import MUST_NOT
from suite.errors import SuiteError, VerificationFailed
from suite.files import read_regular, sha256_bytes
from suite.manifest.lock import Lock
from suite.sbom.read import BUNDLE_NAME
from suite.site.answers import answers
from suite.site.bundle_facts import object_in
from suite.site.charts import class_bar, histogram, strip_paths
from suite.site.data import BundleFacts, Site
from suite.site.facts import RowFacts, plain
from suite.site.interface import Copied, Link, Output, Section
from suite.site.keys import key_of
from suite.site.launches import ManifestFacts, command_of
from suite.site.rendering import Renderer
from suite.site.reopen import reopened
from suite.site.slugs import slug
from suite.site.standing import PrivateFacts, Standing
from suite.stack.receipt_view import first_rank

LOG_NAME = "engine.log"
LOG_SHOWN = 24_000
"""Characters of the engine's log on the page; the whole of it can be downloaded."""
ATTESTATION_NAME = "attestation.json"
_MOST_ATTESTATION_BYTES = 64 << 10
_MOST_GROUPS = 120
_BOOLEANS = {"True": "true", "False": "false"}
"""As manifests and locks write them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One line of the lock, beside the reference's."""

    key: str
    reference: str
    candidate: str

    @property
    def differs(self) -> bool:
        """Whether the two sides have other values."""
        return self.reference != self.candidate


class BundlePages:
    """One page for every bundle."""

    name = "bundles"

    def __init__(self, *, linked: tuple[Section, ...] = ()) -> None:
        """Args: linked: sections that may have something to show of a bundle."""
        self._linked = linked

    def outputs(self, site: Site) -> Iterable[Output | Copied]:
        """Pages and files."""
        manifests = {manifest.name: manifest for manifest in site.manifests}
        rows = {row.bundle_id: row for cohort in site.cohorts for row in cohort.rows}
        newer = {(b.standing.owner, b.name): b.page for b in site.bundles if b.latest}
        by_record = {b.record_sha256: b.page for b in site.everything}
        pages = {b.bundle_id: b.page for b in site.everything}
        for bundle in site.bundles:
            links = tuple(link for section in self._linked for link in section.links(bundle))
            # A name says nothing of a stack that someone else ran.
            manifest = manifests.get(bundle.name) if bundle.standing.origin == "own" else None
            known = {b.bundle_id: site.by_id[b.bundle_id].page for b in bundle.band if b.bundle_id in site.by_id}
            view = _View(
                facts=bundle,
                row=rows.get(bundle.bundle_id),
                links=links,
                manifest=manifest,
                newer="" if bundle.latest else newer.get((bundle.standing.owner, bundle.name), ""),
                band_pages=known,
                standing_pages=_standing_pages(bundle.standing, by_record, pages),
            )
            yield Output(path=bundle.page, key=view.key, make=partial(_page, view))
            yield from _files(bundle)
        for private in site.private:
            pointed = _standing_pages(private.standing, by_record, pages)
            key = key_of("private", private.model_dump(mode="json"), pointed)
            yield Output(path=private.page, key=key, make=partial(_private, private, pointed))
        for one in site.everything:
            yield from _checks(one.standing)

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """None: these are the pages themselves."""
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _View:
    """What a bundle's page shows beside the bundle itself."""

    facts: BundleFacts
    row: RowFacts | None
    """Of the table in which it stands."""
    links: tuple[Link, ...]
    manifest: ManifestFacts | None
    newer: str
    band_pages: dict[str, str]
    standing_pages: dict[str, str]
    """Of a reproducer's bundle by its record, and of a bundle that replaces this one by its id."""

    @property
    def key(self) -> str:
        return key_of(
            self.facts.key,
            self.facts.latest,
            None if self.row is None else self.row.model_dump(mode="json"),
            [[link.path, link.text, link.detail] for link in self.links],
            None if self.manifest is None else self.manifest.model_dump(mode="json"),
            self.newer,
            self.band_pages,
            self.standing_pages,
        )


def _files(bundle: BundleFacts) -> Iterator[Copied]:
    folder = Path(bundle.folder)
    for name, sha256 in bundle.file_hashes:
        if name == BUNDLE_NAME:
            continue  # offered once for all bundles that have the same, beside its page
        shown = f"{name}.txt" if name == LOG_NAME else name
        yield Copied(path=f"{bundle.folder_page}/{shown}", folder=folder, name=name, sha256=sha256)


def _standing_pages(standing: Standing, by_record: Mapping[str, str], pages: Mapping[str, str]) -> dict[str, str]:
    """Pages of this site to which what is said of a bundle points."""
    own = {
        c.own_record_sha256: by_record[c.own_record_sha256] for c in standing.checks if c.own_record_sha256 in by_record
    }
    return own | {n.replaced_by: pages[n.replaced_by] for n in standing.notices if n.replaced_by in pages}


def _checks(standing: Standing) -> Iterator[Output]:
    """The attestations of a bundle, for download."""
    for check in standing.checks:
        yield Output(
            path=check.page, key=key_of("check", check.sha256), make=partial(_attestation, check.folder, check.sha256)
        )


def _attestation(folder: str, sha256: str, renderer: Renderer) -> bytes:
    data = read_regular(Path(folder) / ATTESTATION_NAME, limit_bytes=_MOST_ATTESTATION_BYTES)
    if sha256_bytes(data) != sha256:
        raise VerificationFailed("the attestation has changed while the site was built", where=Path(folder).name)
    return data


def _private(facts: PrivateFacts, pages: dict[str, str], renderer: Renderer) -> bytes:
    return renderer.page(
        "private.html",
        path=facts.page,
        title=facts.name,
        section="results",
        b=facts,
        pages=pages,
        bar=class_bar(facts, top=facts.flips, width=600),
    )


def _page(view: _View, renderer: Renderer) -> bytes:
    facts = view.facts
    bundle = reopened(facts)
    lock, reference = bundle.lock(), bundle.lock("reference-lock.json")
    headlines = bundle.record.headlines
    receipt = object_in(bundle, "receipt.json")
    return renderer.page(
        "bundle.html",
        path=facts.page,
        title=facts.name,
        section="results",
        b=facts,
        record=bundle.record,
        view=view,
        row=view.row,
        must_not=MUST_NOT,
        bar=class_bar(facts, top=facts.flips, width=600),
        strip=strip_paths(facts.strip),
        kl_chart=histogram(facts.kl_histogram, rounding=facts.rounding_kl),
        window_top=max([window.flips for window in facts.windows], default=0),
        windows=[(window, class_bar(window, top=max(w.flips for w in facts.windows))) for window in facts.windows],
        groups=[
            (title, groups[:_MOST_GROUPS], len(groups))
            for title, groups in (
                ("Kind of text", headlines.by_span),
                ("Turn", headlines.by_turn),
                ("Range", headlines.by_range),
            )
            if len(groups) > 1
        ],
        settings=[tuple(_BOOLEANS.get(cell, cell) for cell in row) for row in settings_table(bundle)],
        lock_rows=list(lock_rows(reference, lock)),
        environment=environment_rows(receipt),
        receipt_ranks=receipt_tables(receipt),
        answers=answers(facts, bundle),
        arbiter=_arbiter(bundle),
        log=_log(bundle),
        log_limit=LOG_SHOWN,
        command=command_of(lock, weights=facts.weights),
        performance=object_in(bundle, "performance.json"),
        guide_page=f"guides/{slug(facts.gpu)}/{slug(facts.model)}.html",
        viewed_files=[
            (name, sha256, "engine.log.txt" if name == LOG_NAME else name) for name, sha256 in facts.file_hashes
        ],
    )


def lock_rows(reference: Lock, candidate: Lock) -> Iterator[Setting]:
    """Every value of the two locks, side by side, in order of its name."""
    left, right = (dict(_flat(lock.to_json())) for lock in (reference, candidate))
    for key in sorted(left.keys() | right.keys()):
        yield Setting(key=key, reference=left.get(key, "not set"), candidate=right.get(key, "not set"))


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if prefix and {"path", "sha256"} <= value.keys():
            yield f"{prefix}{value['path']}", str(value["sha256"])
            return
        for key, item in value.items():
            yield from _flat(item, f"{prefix}{key}.")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from _flat(item, prefix)
    else:
        yield prefix.removesuffix("."), plain(value)


def environment_rows(receipt: dict[str, Any]) -> list[tuple[str, str]]:
    """Machine, driver, packages and variables, as the engine's first worker reported them."""
    first = first_rank(receipt)
    rows = [("vllm", plain(receipt.get("vllm"))), ("python", plain(first.get("python")))]
    for part in ("device", "torch", "parallel", "packages", "environment"):
        values = first.get(part)
        if isinstance(values, dict):
            rows += [(f"{part}.{key}", plain(value)) for key, value in sorted(values.items(), key=lambda i: str(i[0]))]
    return rows


def receipt_tables(receipt: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Kernels by layer group of the first worker: title, columns, rows."""
    first = first_rank(receipt)
    shapes = (
        ("Attention layers", "attention", ("count", "layer", "backend", "implementation", "kv_cache_dtype", "k_scale")),
        ("Linear layers", "linear", ("count", "layer", "quant_method", "scheme", "kernels", "weight_dtype")),
    )
    tables = []
    for title, key, columns in shapes:
        entries = first.get(key)
        if isinstance(entries, list) and entries:
            rows = [[plain(e.get(column)) for column in columns] for e in entries[:200] if isinstance(e, dict)]
            tables.append((title, [column.replace("_", " ") for column in columns], rows))
    return tables


def _arbiter(bundle: Bundle) -> ArbiterRecord | None:
    if ARBITER_NAME not in bundle.record.files:
        return None
    try:
        return read_arbiter(bundle)
    except SuiteError:
        return None


def _log(bundle: Bundle) -> str:
    try:
        return bundle.read(LOG_NAME).decode("utf-8", errors="replace")
    except SuiteError:
        return ""
