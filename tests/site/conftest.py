"""A real Chromium for the pages of the site, watched: what leaves a page, and what its console says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.site.watched import Watched, watch

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
