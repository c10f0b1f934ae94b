"""A real Chromium for the pages of the site, watched: what leaves a page, and what its console says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from suite.site.build import BuildOptions, build_site
from suite.site.cache import Cache
from tests.site.branched import HOSTILE, branched_bundle
from tests.site.watched import Watched, watch

ROOT = Path(__file__).parents[2]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # tests run as root in containers, where Chromium's own sandbox cannot start
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser; a test that asks for it fails where there is none."""
    named = os.environ.get("SUITE_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found is not None, "no Chromium: run `make browser`, install the package chromium, or set SUITE_CHROMIUM"
    assert os.access(found, os.X_OK), f"SUITE_CHROMIUM={found} is no program that can be run"
    return found


# Not for the whole session: while Playwright is active in a thread, asyncio.run of other packages' tests fails there.
@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    """One browser for all tests of this package."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture(scope="package", autouse=True)
def compiled_templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sites of all tests share the folder of compiled templates; each would compile them for half a second."""
    folder = tmp_path_factory.mktemp("templates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cache, "templates", folder)
        yield


PUBLISHED = (
    "h200-smollm2-kv-fp8-e4m3",
    "h200-smollm2-kv-int4",
    "h200-smollm2-w4a16-g64",
)
NUM_PROBES, NUM_FLIPS = 10_000, 3_000
LONG = "\u202e" + "x" * 10_000


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of published bundles, of one with 3,000 futures, and of one in which every string is hostile."""
    root = tmp_path_factory.mktemp("site")
    results = root / "results"
    for name in PUBLISHED:
        shutil.copytree(ROOT / "results" / name, results / name)
    branched_bundle(results, num_probes=NUM_PROBES, num_flips=NUM_FLIPS)
    branched_bundle(
        results,
        num_probes=400,
        num_flips=100,
        name="hostile",
        seed=2,
        texts=HOSTILE,
        factor=f"{HOSTILE} javascript:alert(1) {LONG}",
        log=f"{HOSTILE}\njavascript:alert(1)\n{LONG}\n".encode(),
    )
    out = root / "out"
    report = build_site(
        BuildOptions(results=(results,), out=out, cache=root / "cache", manifests=ROOT / "manifests", workers=1)
    )
    assert report.refused == ()
    return out


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Open a file or an address in a context of its own; at the end every opened page must have kept to itself."""
    opened: list[Watched] = []

    def open_one(target: Path | str, **options: Any) -> Watched:
        opened.append(watch(browser, target, **options))
        return opened[-1]

    yield open_one
    try:
        for watched in opened:
            watched.require_clean()
    finally:
        for watched in opened:
            watched.close()
