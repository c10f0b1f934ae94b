"""Building the site: bundles to facts, facts to files, and only those that are not there already."""

from __future__ import annotations

import multiprocessing
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from suite.errors import InvalidInput, SuiteError
from suite.files import sha256_bytes
from suite.observer import Observer, SilentObserver
from suite.site.cache import Cache, MadeFile
from suite.site.data import Site
from suite.site.facts import Measured, Refused
from suite.site.interface import Copied, Output, Section
from suite.site.keys import key_of
from suite.site.launches import ManifestFacts, launches
from suite.site.measure import measure
from suite.site.published import load_published
from suite.site.rendering import Renderer
from suite.site.resources import code_key, site_folder
from suite.site.scan import Found, Scan, scan
from suite.site.sections import all_sections

MARKER = ".suite-site"
"""Stands in every folder that a build may write to and delete from."""
_SHARE = 150
"""Files that one process makes at a time."""
_FEW_FILES, _FEW_BUNDLES = 300, 60
"""So few are made here: starting other processes takes longer."""


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
    workers: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildReport:
    """What a build did."""

    num_bundles: int
    num_files: int
    num_written: int
    num_removed: int
    refused: tuple[Refused, ...]
    size_bytes: int


def build_site(options: BuildOptions, *, observer: Observer | None = None) -> BuildReport:
    """Bring the folder `options.out` up to date. Every file in it is whole at any moment.

    Raises:
        InvalidInput: no results folder, or `out` holds something that no build of a site put there.
    """
    observer = observer or SilentObserver()
    _claim(options.out)
    cache = Cache(options.cache, code_key=code_key())
    site, groups = _site(options, cache, observer)
    outputs = {output.path: output for section in _sections(options) for output in section.outputs(site)}
    made = _write(options, site, outputs, cache, observer)
    removed = _remove(options.out, cache.made.keys() - outputs.keys())
    cache.close(made=made.files, groups=groups)
    return BuildReport(
        num_bundles=len(site.bundles),
        num_files=len(outputs),
        num_written=made.num_written,
        num_removed=removed,
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


def _site(options: BuildOptions, cache: Cache, observer: Observer) -> tuple[Site, dict[str, str]]:
    scanned = scan(options.results, known_groups=cache.groups)
    groups: dict[str, list[Found]] = {}
    for found in scanned.found:
        groups.setdefault(found.group, []).append(found)
    keys = {group: key_of("group", [[f.key, f.latest] for f in members]) for group, members in groups.items()}
    known = {group: cache.facts(key) for group, key in keys.items()}
    missing = [group for group, measured in known.items() if measured is None]
    observer.phase("bundles", total=len(scanned.found), unit="bundles")
    observer.advance(len(scanned.found) - sum(len(groups[group]) for group in missing))
    for group, measured in zip(missing, _measured([groups[group] for group in missing], options), strict=True):
        cache.keep_facts(keys[group], measured)
        known[group] = measured
        observer.advance(len(groups[group]))
    measured_groups = [measured for measured in known.values() if measured is not None]
    site = _assembled(scanned, measured_groups, launches(options.manifests, kept=cache))
    return site, {found.key: found.group for found in scanned.found}


def _assembled(scanned: Scan, groups: Sequence[Measured], manifests: tuple[ManifestFacts, ...]) -> Site:
    bundles = [bundle for group in groups for bundle in group.bundles]
    cohorts = [cohort for group in groups for cohort in group.cohorts]
    refused = [*scanned.refused, *(one for group in groups for one in group.refused)]
    return Site(
        bundles=tuple(sorted(bundles, key=lambda b: (b.created, b.bundle_id), reverse=True)),
        cohorts=tuple(sorted(cohorts, key=lambda c: (c.gpu, c.model, c.path != "prefill", -len(c.rows), c.key))),
        refused=tuple(sorted(refused, key=lambda one: one.place)),
        published=load_published(site_folder() / "published"),
        manifests=manifests,
    )


def _measured(groups: Sequence[Sequence[Found]], options: BuildOptions) -> Iterable[Measured]:
    if options.workers < 2 or sum(map(len, groups)) < _FEW_BUNDLES:
        yield from map(measure, groups)
        return
    with _one_thread_each(), ProcessPoolExecutor(options.workers, _FRESH) as pool:
        yield from pool.map(measure, groups)


@dataclass(kw_only=True)
class _Made:
    files: dict[str, MadeFile]
    refused: list[Refused]
    num_written: int = 0


def _write(
    options: BuildOptions,
    site: Site,
    outputs: dict[str, Output | Copied],
    cache: Cache,
    observer: Observer,
) -> _Made:
    made = _Made(files={}, refused=[])
    due: list[str] = []
    before = cache.made
    for path, output in outputs.items():
        old = before.get(path)
        if old is not None and old.key == output.key and _size(options.out / path) == old.size_bytes:
            made.files[path] = old
        else:
            due.append(path)
    observer.phase("pages", total=len(due), unit="files")
    for path, size in _rendered(options, site, due, outputs, cache.templates):
        observer.advance(1)
        if isinstance(size, str):
            made.refused.append(Refused(place=path, reason=size))
            (options.out / path).unlink(missing_ok=True)
            continue
        made.files[path] = MadeFile(key=outputs[path].key, size_bytes=size)
        made.num_written += 1
    return made


def _rendered(
    options: BuildOptions, site: Site, due: Sequence[str], outputs: dict[str, Output | Copied], templates: Path
) -> Iterable[tuple[str, int | str]]:
    if options.workers < 2 or len(due) < _FEW_FILES:
        renderer = Renderer(compiled=templates)
        for path in due:
            yield path, make_file(outputs[path], options.out, renderer)
        return
    # Files that follow each other are often made of the same bundle, which one process then reads once.
    shares = [list(due[start : start + _SHARE]) for start in range(0, len(due), _SHARE)]
    started = partial(ProcessPoolExecutor, options.workers, _FRESH, initializer=_start_worker)
    with _one_thread_each(), started(initargs=(options, site, templates)) as pool:
        for result in pool.map(_work, shares):
            yield from result


def make_file(output: Output | Copied, out: Path, renderer: Renderer) -> int | str:
    """Make one file and write it below `out`.

    Returns:
        Its size in bytes, or why it was not made: the bundle is not what it was when its facts were read.

    Raises:
        InvalidInput: its path does not lie below `out`.
    """
    if PurePosixPath(output.path).is_absolute() or ".." in PurePosixPath(output.path).parts:
        raise InvalidInput("a page would be written outside the site", where=output.path)
    if isinstance(output, Copied):
        data = output.read()
        if data is None or sha256_bytes(data) != output.sha256:
            return "not the file that the bundle names; it is not offered"
    else:
        try:
            data = output.make(renderer)
        except SuiteError as error:
            return error.message
    target = out / output.path
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{secrets.token_hex(6)}.tmp")
    # Not flushed to the disk one by one, as `write_atomic` does: a lost page is made again, and there are thousands.
    temporary.write_bytes(data)
    temporary.replace(target)
    return len(data)


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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _sections(options: BuildOptions) -> tuple[Section, ...]:
    return all_sections(base_url=options.base_url)


# Processes are started fresh, not forked: numerical libraries hold threads.
_FRESH = multiprocessing.get_context("spawn")
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started in here do linear algebra in one thread each: more of them would only wait for one another."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_worker: tuple[Path, dict[str, Output | Copied], Renderer] | None = None


def _start_worker(options: BuildOptions, site: Site, templates: Path) -> None:
    global _worker
    outputs = {output.path: output for section in _sections(options) for output in section.outputs(site)}
    _worker = (options.out, outputs, Renderer(compiled=templates))


def _work(paths: Sequence[str]) -> list[tuple[str, int | str]]:
    assert _worker is not None
    out, outputs, renderer = _worker
    return [(path, make_file(outputs[path], out, renderer)) for path in paths]


def workers_here() -> int:
    """How many processes are worth starting."""
    return max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
