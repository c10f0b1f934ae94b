"""Pages of forking futures in a real browser: accessible, whole without script, hostile strings, and from a server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from suite.site.serve import open_server
from tests.site.branched import HOSTILE
from tests.site.watched import OF_SIZE_AND_COLOUR

pytestmark = pytest.mark.browser


def viewer_of(site: Path, probes: int) -> Path:
    """The viewer of the table whose bundles have so many probes."""
    return next(site.glob(f"futures/prefill-{probes}-*/index.html"))


@pytest.mark.parametrize("probes", [None, 7177, 10_000])
def test_every_page_is_accessible_fits_and_keeps_to_itself(open_page, built_site, probes):
    path = built_site / "futures/index.html" if probes is None else viewer_of(built_site, probes)
    for size, dark, rules in (("phone", True, OF_SIZE_AND_COLOUR), ("wide", False, ())):
        watched = open_page(path, home=built_site, size=size, dark=dark)
        watched.page.wait_for_load_state("networkidle")
        assert watched.axe(*rules) == [], size
        assert watched.overflow() == 0, size
        watched.require_clean()
        watched.close()


def test_the_viewer_is_readable_without_script(open_page, built_site):
    page = open_page(viewer_of(built_site, 10_000), home=built_site, scripts=False).page
    assert page.locator("#viewer:visible").count() == 0
    assert page.locator("#plain tbody tr").count() > 20
    page.locator("details.plain-fork summary").first.click()
    assert "GigabitEthernet0/0/1" in page.locator("details.plain-fork[open] .future").first.inner_text()


def test_hostile_futures_stay_text(open_page, built_site):
    watched = open_page(viewer_of(built_site, 400), home=built_site)
    page = watched.page
    page.locator(".detail .future").first.wait_for()
    assert HOSTILE in page.locator(".detail .future").nth(1).inner_text()
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("main img, main script").count() == 0
    assert "\u202e" not in page.content()
    assert watched.overflow() == 0


def test_a_hostile_bundle_has_a_page_that_fits(open_page, built_site):
    path = next((built_site / "results" / "hostile").glob("*/index.html"))
    watched = open_page(path, home=built_site, size="phone")
    assert watched.page.evaluate("() => window.pwned") is None
    assert "[U+202E]" in watched.page.content()
    assert "\u202e" not in watched.page.content()
    assert watched.overflow() == 0


def test_the_viewer_is_the_same_from_a_server(open_page, built_site):
    with open_server(built_site, port=0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            home = f"http://127.0.0.1:{server.server_port}/"
            path = viewer_of(built_site, 10_000).relative_to(built_site).as_posix()
            watched = open_page(f"{home}{path}", home=home)
            watched.page.locator(".detail .future").first.wait_for()
            watched.require_clean()
            watched.close()
        finally:
            server.shutdown()
            thread.join()
