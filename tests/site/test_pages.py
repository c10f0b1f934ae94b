"""The pages in a real browser: sorting, filtering, addresses, copying, without script, and nothing that leaves them."""

import json
import shutil
from pathlib import Path

import pytest

from suite.bundle.read import open_bundle
from suite.site.launches import command_of
from suite.site.serve import open_server
from tests.site.watched import OF_SIZE_AND_COLOUR, SIZES, window
from tests.site.world import GUIDE, amended, built, make_hostile, sbom, table_of_bundles

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site of one table, with a hostile bundle in it and manifests beside it."""
    root = tmp_path_factory.mktemp("pages")
    world = table_of_bundles(root / "world")
    for path in world.results.glob("tiny-kv-int8/*"):
        amended(path, sbom_cdx_json=sbom(*((f"package-{i}", f"{i}.0") for i in range(30))))
    for path in world.results.glob("tiny-kv-fp8/*"):
        make_hostile(path)
    built(world.results, root / "out", manifests=Path(__file__).parent.parent.parent / "manifests")
    shutil.copytree(world.results, root / "results")
    return root / "out"


def every_kind(site):
    """One page of each kind, and the hostile one."""
    found = [GUIDE, "guides/rtx-5090/qwen3-8-27b.html", "index.html", "method.html", "results/index.html"]
    found += ["leaderboard/index.html", "leaderboard/all.html"]
    for pattern in ("results/tiny-kv-fp8/*/index.html", "results/tiny-chunk-512/*/index.html"):
        found += [path.relative_to(site).as_posix() for path in site.glob(pattern)]
    found += [path.relative_to(site).as_posix() for path in site.glob("sbom/*/*.html")]
    assert len(found) >= 12
    return found


def visit(watched, path):
    """Go on to another page of the site, which may mean that the last one's icon was not read to its end."""
    watched.page.goto(path.as_uri())
    watched.failed[:] = [text for text in watched.failed if not text.endswith("icon.svg: net::ERR_ABORTED")]


def names(page, selector="table[data-state='prefill-1'] tr.stack:not([hidden]) th a"):
    return page.locator(selector).all_inner_texts()


def test_pages_keep_to_themselves_are_accessible_and_fit_every_window(open_page, site):
    """Each page is opened once, as the windows and the colours of its readers change around it."""
    watched = open_page(site / "index.html", home=site)
    for path in every_kind(site):
        watched.page.set_viewport_size(window("wide"))
        watched.page.emulate_media(color_scheme="light")
        visit(watched, site / path)
        assert watched.axe() == [], path
        for size in SIZES:
            watched.page.set_viewport_size(window(size))
            assert watched.overflow() == 0, (path, size)
        watched.page.set_viewport_size(window("phone"))
        watched.page.emulate_media(color_scheme="dark")
        assert watched.axe(*OF_SIZE_AND_COLOUR) == [], path
        assert watched.page.title() != "owned"
        watched.require_clean()


def test_sorting_goes_up_down_and_back_and_stays_in_the_address(open_page, site):
    page = open_page(site / GUIDE, home=site).page
    at_first = names(page)
    assert at_first == ["kv-fp16", "chunk-512", "kv-int8", "kv-fp8"]
    head = page.locator("table[data-state='prefill-1'] th[data-key='stack'] button")
    head.click()
    # 8 comes before 16.
    by_name = ["chunk-512", "kv-fp8", "kv-fp16", "kv-int8"]
    assert names(page) == by_name
    assert page.locator("th[data-key='stack'][aria-sort='ascending']").count() == 1
    head.press("Enter")
    assert names(page) == by_name[::-1]
    address = page.url
    assert "sort=stack.down" in address
    again = open_page(address, home=site.as_uri() + "/").page
    assert names(again) == by_name[::-1]
    head.click()
    assert names(page) == at_first
    assert "sort" not in page.url


def test_numbers_are_sorted_as_numbers(open_page, site):
    page = open_page(site / GUIDE, home=site).page
    page.locator("table[data-state='prefill-1'] th[data-key='flips'] button").click()
    flips = [
        int(cell.get_attribute("data-v"))
        for cell in page.locator("table[data-state='prefill-1'] tr.stack td:nth-child(3)").all()
    ]
    assert flips == sorted(flips)
    assert len(set(flips)) > 2


def test_filters_hide_rows_count_them_and_stay_in_the_address(open_page, site):
    page = open_page(site / GUIDE, home=site).page
    page.locator("[data-controls='prefill-1'] [data-filter='kv']").select_option("int8_per_token_head")
    assert names(page) == ["kv-int8"]
    assert page.locator("[data-controls='prefill-1'] [data-count]").inner_text() == "1 of 4 rows"
    # The second table of the same stacks follows.
    assert names(page, "table[data-state='prefill-1-kl'] tr.stack:not([hidden]) th a") == ["kv-int8"]
    again = open_page(page.url, home=site.as_uri() + "/").page
    assert names(again) == ["kv-int8"]
    again.locator("[data-controls='prefill-1'] [data-reset]").click()
    assert len(names(again)) == 4
    assert "#" not in again.url


def test_memory_filters_by_weights_and_says_what_is_not_known(open_page, site):
    page = open_page(site / GUIDE, home=site).page
    memory = page.locator("[data-controls='prefill-1'] [data-filter='memory']")
    memory.fill("2")
    assert names(page) == []
    memory.fill("8")
    assert len(names(page)) == 4
    page.locator("[data-controls='prefill-1'] [data-filter='tools']").check()
    assert "not known or not measured" in page.locator("[data-controls='prefill-1'] [data-count]").inner_text()


def test_a_leaderboard_address_restores_its_filters(open_page, site):
    page = open_page(
        f"{(site / 'leaderboard/all.html').as_uri()}#board.factor=kv_cache_dtype", home=site.as_uri() + "/"
    ).page
    assert page.locator("[data-filter='factor']").input_value() == "kv_cache_dtype"
    assert page.locator("[data-count]").inner_text() == "4 of 4 rows"
    # A value that no row has is not taken over.
    page.goto(page.url.replace("kv_cache_dtype", "phase_of_the_moon"))
    assert page.locator("[data-filter='factor']").input_value() == ""
    assert len(names(page, "table[data-state='board'] tr.stack:not([hidden]) th a")) == 4


def test_the_other_tiers_are_one_click_away(open_page, site):
    page = open_page(site / "leaderboard/index.html", home=site).page
    page.get_by_role("link", name="Show every tier").click()
    assert page.locator("tr.stack").count() == 4


def test_the_copied_command_is_the_rendered_one(open_page, site, tmp_path):
    (folder,) = (site.parent / "results" / "tiny-kv-int8").iterdir()
    expected = command_of(open_bundle(folder).lock(), weights="").shown
    assert expected.startswith(("env ", "vllm serve"))
    with open_server(site, port=0) as server:
        import threading

        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}/"
        page = open_page(origin + GUIDE, clipboard=True).page
        page.locator("[data-pick='kv']").select_option("int8_per_token_head")
        shown = page.locator("details.launch:not([hidden])")
        assert shown.count() == 1
        shown.get_by_role("button", name="Copy").click()
        shown.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == expected
        assert "launch.kv=int8_per_token_head" in page.url
        server.shutdown()


def test_components_are_searched(open_page, site):
    (path,) = [p for p in site.glob("sbom/*/index.html") if "package-17" in p.read_text(encoding="utf-8")]
    page = open_page(path, home=site).page
    page.get_by_label("Find").fill("package-17")
    assert names(page, "tr.stack:not([hidden]) th") == ["package-17"]


def test_pages_work_without_script(open_page, site):
    page = open_page(site / GUIDE, home=site, scripts=False).page
    assert page.locator("[data-controls]:visible").count() == 0
    assert page.locator("#pick:visible").count() == 0
    assert len(names(page)) == 4
    assert page.locator("details.launch[open]").count() == 1
    assert page.locator("details.launch").count() >= 4
    assert page.locator("svg.chart").first.is_visible()
    assert (
        open_page(site / "leaderboard/all.html", home=site, scripts=False).page.locator("tr.stack:visible").count() == 4
    )


def test_hostile_strings_are_text_on_the_page(open_page, site):
    (path,) = site.glob("results/tiny-kv-fp8/*/index.html")
    watched = open_page(path, home=site)
    text = watched.page.locator("main").text_content()
    assert "<script>document.title='owned'</script>" in text
    assert "[U+202E]gnp.exe" in text
    assert "{{ 7 * 7 }}" in text
    assert watched.page.locator("main img, main script").count() == 0


def test_keyboard_reaches_the_content_first(open_page, site):
    page = open_page(site / GUIDE, home=site).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_what_programs_read_is_linked(open_page, site):
    page = open_page(site / "index.html", home=site).page
    links = [link.get_attribute("href") for link in page.locator("footer a").all()]
    assert {"index.json", "results.csv", "feed.xml"} <= set(links)
    assert json.loads((site / "index.json").read_text())["bundles"]
