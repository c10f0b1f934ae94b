"""Building the site: bundles to facts, facts to files, and only those that are not there already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.errors import InvalidInput
from suite.observer import Observer, SilentObserver
from suite.site.cache import Cache, MadeFile
from suite.site.data import Site
from suite.site.facts import Measured, Refused
from suite.site.interface import Copied, Output
from suite.site.keys import key_of
from suite.site.launches import ManifestFacts, launches
from suite.site.published import load_published
from suite.site.resources import code_key, site_folder
from suite.site.scan import Found, Scan, scan
from suite.site.sections import all_sections
from suite.site.speeds import load_speeds
from suite.site.workers import Workers

MARKER = ".suite-site"
"""Stands in every folder that a build may write to and delete from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """What to build from and where."""

    results: tuple[Path, ...]
    out: Path
    cache: Path
    """Folder in which this site's builds remember what they did."""
    manifests: Path | None = None
    """Folder of manifests whose launch commands are shown even where nothing was measured."""
    base_url: str = ""
    """Where the site will lie, with a closing `/`; empty: the feed has relative addresses."""
    published_only: bool = False
    """Whether bundles that git does not know are left out: what a person measured in a checkout."""
    workers: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildReport:
    """What a build did."""

    num_bundles: int
    num_files: int
    num_written: int
    num_removed: int
    num_unknown: int
    """Bundles shown that git does not know; 0 where the results lie in no checkout."""
    refused: tuple[Refused, ...]
    size_bytes: int


def build_site(options: BuildOptions, *, observer: Observer | None = None) -> BuildReport:
    """Bring the folder `options.out` up to date. Every file in it is whole at any moment.

    Raises:
        InvalidInput: no results folder, one in no checkout of which only the published part is wanted, or `out` holds
            something that no build of a site put there.
    """
    observer = observer or SilentObserver()
    _claim(options.out)
    cache = Cache(options.cache, code_key=code_key())
    with Workers(number=options.workers, out=options.out, templates=cache.templates) as workers:
        scanned = scan(options.results, known_groups=cache.groups, kept=cache, published_only=options.published_only)
        site = _site(scanned, options, workers, cache, observer)
        sections = all_sections(base_url=options.base_url)
        outputs = {output.path: output for section in sections for output in section.outputs(site)}
        made = _write(options, workers, outputs, cache, observer)
    removed = _remove(options.out, cache.made.keys() - outputs.keys())
    cache.close(made=made.files, groups={found.key: (found.group, found.record_sha256) for found in scanned.found})
    return BuildReport(
        num_bundles=len(site.bundles),
        num_files=len(outputs),
        num_written=made.num_written,
        num_removed=removed,
        num_unknown=sum(bundle.bundle_id in scanned.unknown for bundle in site.bundles),
        refused=(*site.refused, *made.refused),
        size_bytes=sum(one.size_bytes for one in made.files.values()),
    )


def _claim(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InvalidInput("not a folder", where=str(out), hint="name another with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise InvalidInput(
            "this folder holds files that no build of a site wrote",
            where=str(out),
            hint="name an empty folder: files that a site no longer has are deleted there",
        )
    out.mkdir(parents=True, exist_ok=True)
    if not (out / MARKER).exists():
        (out / MARKER).touch()


def _site(scanned: Scan, options: BuildOptions, workers: Workers, cache: Cache, observer: Observer) -> Site:
    groups: dict[str, list[Found]] = {}
    for found in scanned.found:
        groups.setdefault(found.group, []).append(found)
    keys = {
        group: key_of("group", [[f.key, f.latest, f.standing.model_dump(mode="json")] for f in members])
        for group, members in groups.items()
    }
    known = {group: cache.facts(key) for group, key in keys.items()}
    missing = [group for group, measured in known.items() if measured is None]
    observer.phase("bundles", total=len(scanned.found), unit="bundles")
    observer.advance(len(scanned.found) - sum(len(groups[group]) for group in missing))
    measuring = workers.measured([groups[group] for group in missing])
    # Meanwhile, where others measure.
    manifests = launches(options.manifests, kept=cache)
    for group, measured in zip(missing, measuring, strict=True):
        cache.keep_facts(keys[group], measured)
        known[group] = measured
        observer.advance(len(groups[group]))
    measured_groups = [measured for measured in known.values() if measured is not None]
    return _assembled(scanned, measured_groups, manifests)


def _assembled(scanned: Scan, groups: Sequence[Measured], manifests: tuple[ManifestFacts, ...]) -> Site:
    bundles = [bundle for group in groups for bundle in group.bundles]
    cohorts = [cohort for group in groups for cohort in group.cohorts]
    refused = [*scanned.refused, *(one for group in groups for one in group.refused)]
    return Site(
        bundles=tuple(sorted(bundles, key=lambda b: (b.created, b.bundle_id), reverse=True)),
        cohorts=tuple(sorted(cohorts, key=lambda c: (c.gpu, c.model, c.path != "prefill", -len(c.rows), c.key))),
        refused=tuple(sorted(refused, key=lambda one: one.place)),
        published=load_published(site_folder() / "published"),
        speeds=load_speeds(site_folder() / "speeds"),
        manifests=manifests,
        private=tuple(sorted(scanned.private, key=lambda p: (p.created, p.bundle_id), reverse=True)),
    )


@dataclass(kw_only=True)
class _Made:
    files: dict[str, MadeFile]
    refused: list[Refused]
    num_written: int = 0


def _write(
    options: BuildOptions,
    workers: Workers,
    outputs: dict[str, Output | Copied],
    cache: Cache,
    observer: Observer,
) -> _Made:
    made = _Made(files={}, refused=[])
    due: list[str] = []
    before = cache.made
    for path, output in outputs.items():
        old = before.get(path)
        if old is not None and old.key == output.key and _size(f"{options.out}/{path}") == old.size_bytes:
            made.files[path] = old
        else:
            due.append(path)
    observer.phase("pages", total=len(due), unit="files")
    for path, size in workers.made([outputs[path] for path in due]):
        observer.advance(1)
        if isinstance(size, str):
            made.refused.append(Refused(place=path, reason=size))
            (options.out / path).unlink(missing_ok=True)
            continue
        made.files[path] = MadeFile(key=outputs[path].key, size_bytes=size)
        made.num_written += 1
    return made


def _remove(out: Path, paths: Iterable[str]) -> int:
    count = 0
    for path in paths:
        target = out / path
        if target.exists():
            target.unlink()
            count += 1
        folder = target.parent
        while folder != out and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
    return count


def _size(path: str) -> int:
    try:
        # Not by way of a Path: there are tens of thousands of files.
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return -1
