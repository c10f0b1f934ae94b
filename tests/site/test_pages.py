"""The whole site in a real browser: every kind of page, sorting, filtering, permalinks, copying, hostile strings."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from suite.bundle.read import open_bundle
from suite.site.launches import command_of
from suite.site.serve import open_server
from tests.site.branched import HOSTILE

pytestmark = pytest.mark.browser

GUIDE = "guides/h200-sxm/smollm2-135m-instruct.html"


def page_of(site: Path, kind: str) -> Path:
    """One page of a kind; bundles by their name."""
    if "/" in kind or kind.endswith(".html"):
        return site / kind
    return next((site / "results" / kind).glob("*/index.html"))


def viewer_of(site: Path, probes: int) -> Path:
    return next(site.glob(f"futures/prefill-{probes}-*/index.html"))


def one_sbom(site: Path, *, diff: bool = False) -> Path:
    pages = sorted(path for path in site.rglob("*.html") if "sbom" in str(path.relative_to(site)))
    found = [path for path in pages if ("diff" in path.name or "with" in path.name) == diff]
    return found[0] if found else pages[-1]


PAGES = (
    "index.html",
    GUIDE,
    "guides/rtx-5090/qwen3-8-27b.html",
    "leaderboard/index.html",
    "leaderboard/all.html",
    "results/index.html",
    "h200-smollm2-kv-int4",
    "hostile",
    "method.html",
    "futures/index.html",
)


OF_SIZE_AND_COLOUR = ("color-contrast", "target-size", "scrollable-region-focusable")
"""What can differ between a phone in the dark and a wide window by day; all else is looked at once."""


@pytest.mark.parametrize("kind", [*PAGES, "sbom", "viewer", "viewer with futures"])
def test_every_page_is_accessible_fits_and_keeps_to_itself(open_page, built_site, kind):
    special = {
        "sbom": lambda: one_sbom(built_site),
        "viewer": lambda: viewer_of(built_site, 7177),
        "viewer with futures": lambda: viewer_of(built_site, 10_000),
    }
    path = special[kind]() if kind in special else page_of(built_site, kind)
    for size, dark, rules in (("phone", True, OF_SIZE_AND_COLOUR), ("wide", False, ())):
        watched = open_page(path, home=built_site, size=size, dark=dark)
        watched.page.wait_for_load_state("networkidle")
        assert watched.axe(*rules) == [], (kind, size)
        assert watched.overflow() == 0, (kind, size)
        watched.require_clean()
        watched.close()


@pytest.mark.parametrize("kind", PAGES)
def test_pages_are_whole_without_script(open_page, built_site, kind):
    watched = open_page(page_of(built_site, kind), home=built_site, scripts=False)
    main = watched.page.locator("main")
    assert len(main.inner_text()) > 200
    assert watched.page.locator("[data-controls]:visible, #viewer:visible").count() == 0


def test_the_viewer_is_readable_without_script(open_page, built_site):
    page = open_page(viewer_of(built_site, 10_000), home=built_site, scripts=False).page
    assert page.locator("#plain tbody tr").count() > 20
    page.locator("details.plain-fork summary").first.click()
    assert "GigabitEthernet0/0/1" in page.locator("details.plain-fork[open] .future").first.inner_text()


def order(page, column):
    cells = page.locator(f'table[data-state="board"] tr.stack > *:nth-child({column})')
    return [float(value) for value in cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)")]


def test_a_table_sorts_and_its_address_keeps_the_order(open_page, built_site):
    watched = open_page(built_site / "leaderboard/all.html", home=built_site)
    page = watched.page
    tables = page.locator('table[data-state="board"] tbody')
    sizes = tables.evaluate_all("bodies => bodies.map(body => body.querySelectorAll('tr.stack').length)")

    def by_table(values):
        groups, start = [], 0
        for size in sizes:
            groups.append(values[start : start + size])
            start += size
        return groups

    page.get_by_role("button", name="Mean KL").click()
    up = by_table(order(page, 9))
    assert up == [sorted(group) for group in up]
    page.get_by_role("button", name="Mean KL").click()
    down = by_table(order(page, 9))
    assert down == [sorted(group, reverse=True) for group in down]
    assert down != up
    again = open_page(page.url, home=built_site)
    assert by_table(order(again.page, 9)) == down
    assert again.page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_a_table_filters_and_its_address_keeps_the_choice(open_page, built_site):
    page = open_page(built_site / "leaderboard/all.html", home=built_site).page
    rows = page.locator("tr.stack:visible")
    everything = rows.count()
    page.get_by_label("Factor").select_option("kv_cache_dtype")
    chosen = rows.evaluate_all("rows => rows.map(row => row.dataset.factor)")
    assert 0 < len(chosen) < everything
    assert all("kv_cache_dtype" in factor.split() for factor in chosen)
    assert f"{len(chosen)} of {everything} rows" in page.locator("[data-count]").inner_text()
    again = open_page(page.url, home=built_site).page
    assert again.locator("tr.stack:visible").count() == len(chosen)
    assert again.get_by_label("Factor").input_value() == "kv_cache_dtype"
    page.get_by_role("button", name="Reset").click()
    assert rows.count() == everything


def test_a_guide_filters_by_context_and_memory(open_page, built_site):
    page = open_page(built_site / GUIDE, home=built_site).page
    controls = page.locator("[data-controls]").first
    rows = page.locator("table.hero").first.locator("tr.stack:visible")
    everything = rows.count()
    controls.get_by_label("Memory").fill("0.5")
    controls.get_by_label("Context").fill("100000000")
    assert rows.count() < everything
    controls.get_by_role("button", name="Reset").click()
    assert rows.count() == everything


def copied(page, block):
    block.get_by_role("button", name="Copy", exact=True).click()
    block.get_by_role("button", name="Copied").wait_for()
    return page.evaluate("() => navigator.clipboard.readText()")


def test_the_copy_button_gives_the_launch_command_of_the_lock(open_page, built_site):
    path = page_of(built_site, "h200-smollm2-kv-int4")
    bundle = open_bundle(built_site.parent / "results" / path.parent.relative_to(built_site / "results"))
    command = command_of(bundle.lock(), weights="bf16")
    page = open_page(path, home=built_site, clipboard=True).page
    blocks = page.locator(".command:visible")
    texts = [copied(page, blocks.nth(place)) for place in range(blocks.count())]
    assert texts == blocks.locator("code").all_text_contents()
    assert command.shown
    assert command.shown in texts


def test_the_copy_button_of_a_guide_gives_what_stands_beside_it(open_page, built_site):
    page = open_page(built_site / GUIDE, home=built_site, clipboard=True).page
    block = page.locator(".command:visible").first
    text = copied(page, block)
    assert text == block.locator("code").text_content()
    assert "vllm" in text


def test_hostile_strings_stay_text(open_page, built_site):
    watched = open_page(page_of(built_site, "hostile"), home=built_site)
    page = watched.page
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("main script, main img").count() == 0
    links = page.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert not [link for link in links if re.match(r"(?i)\s*(javascript|data|vbscript):", link or "")]
    text = page.locator("main").inner_text()
    assert HOSTILE in text
    assert "\u202e" not in page.content()
    assert "[U+202E]" in text
    assert "x" * 5000 not in page.locator(".scope").inner_text()
    assert watched.overflow() == 0


def test_hostile_futures_stay_text(open_page, built_site):
    watched = open_page(viewer_of(built_site, 400), home=built_site)
    page = watched.page
    page.locator(".detail .future").first.wait_for()
    assert HOSTILE in page.locator(".detail .future").nth(1).inner_text()
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("main img, .detail script").count() == 0


def test_the_site_is_the_same_from_a_server(open_page, built_site):
    with open_server(built_site, port=0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            home = f"http://127.0.0.1:{server.server_port}/"
            for path in ("index.html", GUIDE, viewer_of(built_site, 10_000).relative_to(built_site).as_posix()):
                watched = open_page(f"{home}{path}", home=home)
                watched.page.wait_for_load_state("networkidle")
                watched.require_clean()
                watched.close()
        finally:
            server.shutdown()
            thread.join()
