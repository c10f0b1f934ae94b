"""The viewer of forking futures by keyboard, by address, with several stacks, and at 10,000 positions."""

from __future__ import annotations

import re

import pytest

from tests.site.test_browser import viewer_of

pytestmark = pytest.mark.browser


@pytest.fixture
def viewer(open_page, built_site):
    def open_viewer(probes=10_000, fragment="", **options):
        watched = open_page(viewer_of(built_site, probes).as_uri() + fragment, home=built_site, **options)
        watched.page.locator(".detail h2, .detail p").first.wait_for()
        return watched

    return open_viewer


def at(page):
    return int(re.search(r"[#&]at=(\d+)", page.url)[1])


def settled(page, place):
    page.wait_for_function("place => location.hash.includes(`at=${place}`)", arg=place)
    page.locator(f'.flip[data-at="{place}"][aria-current="true"]').wait_for()


def flips(page):
    return page.evaluate("() => [...document.querySelectorAll('.flip')].map(node => Number(node.dataset.at))")


def test_flip_by_flip_with_the_keyboard(viewer):
    page = viewer().page
    page.locator(".stream").focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(200)
    first = at(page)
    settled(page, first)
    order = sorted(flips(page))
    assert order[0] == first
    page.keyboard.press("ArrowRight")
    settled(page, order[1])
    assert page.locator(".detail h2").inner_text() == f"Token {order[1]:,}"
    assert page.evaluate("() => Number(document.activeElement.dataset.at)") == order[1]
    page.keyboard.press("ArrowLeft")
    settled(page, first)
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function("place => !location.hash.endsWith(`at=${place}`)", arg=first)
    assert "confident" in page.locator(f'.flip[data-at="{at(page)}"]').get_attribute("class")
    here = at(page)
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.textContent") == f"Token {here:,}"
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.evaluate("() => Number(document.activeElement.dataset.at)") == here
    page.keyboard.press("End")
    page.wait_for_function("place => !location.hash.endsWith(`at=${place}`)", arg=here)
    assert at(page) > 19_000


def test_both_futures_unroll_with_verdicts_candidates_and_literals(viewer):
    page = viewer().page
    page.locator(".stream").focus()
    page.keyboard.press("Home")
    # The fork generator harms every third.
    page.locator(".detail mark.mutated").wait_for()
    assert (
        page.locator(".detail .verdict-line").inner_text().startswith("Wrong literal: GigabitEthernet0/0/1.201 stands")
    )
    columns = page.locator(".detail .pair > section")
    assert columns.count() == 2
    assert [columns.nth(i).locator("h3 .tag").inner_text() for i in (0, 1)] == ["ok", "literals changed"]
    assert columns.nth(0).locator("mark.intact").inner_text() == "GigabitEthernet0/0/1"
    assert columns.nth(1).locator("mark.mutated").inner_text() == "GigabitEthernet0/0/1.201"
    rows = page.locator(".detail table tbody tr")
    assert rows.count() == 2
    shares = [float(text) for text in rows.nth(0).locator("td.num").all_inner_texts()]
    assert all(0 <= share <= 1 for share in shares)
    page.get_by_role("button", name="first token only").click()
    assert columns.nth(1).locator(".future").inner_text().strip() == "wrong"
    page.get_by_role("button", name="+ one token").click()
    assert "show" in columns.nth(1).locator(".future").inner_text()
    page.get_by_role("button", name="all tokens").click()
    page.get_by_label("Future beside the reference’s").select_option("reference_candidate_token")
    assert "given the stack’s token" in columns.nth(1).locator("h3").inner_text()


def test_an_address_opens_the_place_that_it_names(viewer):
    first = viewer()
    first.page.locator(".stream").focus()
    first.page.keyboard.press("End")
    first.page.wait_for_timeout(300)
    place = at(first.page)
    second = viewer(fragment=first.page.url[first.page.url.index("#") :])
    settled(second.page, place)
    assert second.page.locator(".detail h2").inner_text() == f"Token {place:,}"
    box = second.page.locator(f'.flip[data-at="{place}"]').bounding_box()
    stream = second.page.locator(".stream").bounding_box()
    assert stream["y"] <= box["y"] <= stream["y"] + stream["height"]
    second.page.evaluate("() => { location.hash = 'at=1'; }")
    second.page.wait_for_function("() => /at=1(&|$)/.test(location.hash)")


@pytest.mark.parametrize("probes", [7177, 10_000])
def test_the_place_that_is_open_is_in_sight_from_the_start(viewer, probes):
    page = viewer(probes).page
    place = page.locator('.flip[aria-current="true"]')
    place.wait_for()
    page.wait_for_timeout(300)
    box, stream = place.bounding_box(), page.locator(".stream").bounding_box()
    assert stream["y"] <= box["y"] <= stream["y"] + stream["height"]


def test_a_bad_address_is_no_error(viewer):
    for fragment in ("#at=99999999&stacks=nobody", "#at=<script>&classes=none", "#%E0%A4%A&at=-1"):
        page = viewer(fragment=fragment).page
        assert page.locator(".flip").count() > 0


def test_up_to_four_stacks_stand_in_one_stream(viewer):
    page = viewer(7177).page
    selects = page.locator(".stack-choice select")
    assert selects.count() == 4
    values = selects.nth(1).locator("option").evaluate_all("options => options.map(one => one.value).filter(Boolean)")
    assert len(values) >= 3
    one = int(page.locator(".said").inner_text().split(" ")[0].replace(",", ""))
    for place, value in enumerate(v for v in values[:3] if v != selects.nth(0).input_value()):
        selects.nth(place + 1).select_option(value)
    page.wait_for_function("() => location.hash.split('.').length > 2")
    more = int(page.locator(".said").inner_text().split(" ")[0].replace(",", ""))
    assert more > one
    assert page.locator(".overview svg").count() == len(page.url.split("stacks=")[1].split("&")[0].split("."))
    assert page.locator(".flip .who").first.is_visible()


def test_classes_are_shown_and_hidden(viewer):
    page = viewer(7177).page
    for name in ("tied", "uncertain", "leaning"):
        page.get_by_label(name, exact=True).uncheck()
    classes = page.locator(".flip").evaluate_all("nodes => [...new Set(nodes.map(node => node.classList[1]))]")
    assert set(classes) <= {"confident"}
    assert "classes=confident" in page.url


def test_the_stream_spells_the_session_where_its_text_is_at_hand(viewer):
    page = viewer(7177).page
    page.get_by_label("Token", exact=True).fill("250")
    page.get_by_role("button", name="Go", exact=True).click()
    page.wait_for_function("() => /at=250(&|$)/.test(location.hash)")
    text = "".join(page.locator(".chunk").first.all_inner_texts())
    assert "Write interface names in full" in " ".join(text.split())
    assert page.locator(".detail").inner_text() != ""


def test_ten_thousand_positions_are_loaded_by_range(viewer):
    watched = viewer()
    page = watched.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[-1]))
    assert "3,000 positions with a flip" in page.locator(".said").inner_text()
    page.locator(".stream").focus()
    page.keyboard.press("End")
    page.wait_for_timeout(300)
    # One jump over 20,000 tokens: what lies between is not loaded.
    assert len([name for name in asked if name.startswith("tokens-")]) <= 3
    assert len([name for name in asked if name.startswith("forks-")]) <= 2
    for _ in range(60):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(300)
    filled = page.evaluate(
        "() => [...document.querySelectorAll('.chunk')].filter(node => node.childNodes.length > 1).length"
    )
    assert filled <= 14
    assert page.evaluate("() => document.querySelectorAll('*').length") < 8_000
