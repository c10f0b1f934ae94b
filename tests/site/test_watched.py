"""The watch itself: it must see what it is there for, and let a decent page be."""

from __future__ import annotations

import pytest

from tests.site.watched import watch

pytestmark = pytest.mark.browser

DECENT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Decent</title></head>
<body><main><h1>Decent</h1><p>Text.</p></main></body></html>"""


def written(tmp_path, html):
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    return path


def test_a_decent_page_is_let_be(open_page, tmp_path):
    watched = open_page(written(tmp_path, DECENT))
    assert watched.page.inner_text("h1") == "Decent"
    assert watched.axe() == []
    assert watched.overflow() == 0
    watched.require_clean()


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<img alt="" src="http://127.0.0.1:9/pixel.png">', "leave the site"),
        ('<script src="missing.js"></script>', "failed"),
        ("<script>console.error('broken')</script>", "broken"),
        ("<script>undefined_function()</script>", "undefined_function"),
        (
            '<meta http-equiv="Content-Security-Policy" content="script-src \'self\'"><script>1</script>',
            "Content Security Policy",
        ),
    ],
)
def test_what_may_not_happen_is_seen(browser, tmp_path, html, said):
    watched = watch(browser, written(tmp_path, DECENT.replace("</head>", f"{html}</head>")))
    watched.page.wait_for_load_state("networkidle")
    with pytest.raises(AssertionError, match=said):
        watched.require_clean()
    watched.close()


def test_a_file_beside_the_site_is_outside(browser, tmp_path):
    (tmp_path / "secret.css").write_text("p {}", encoding="utf-8")
    (tmp_path / "site").mkdir()
    page = written(tmp_path / "site", DECENT.replace("</head>", '<link rel="stylesheet" href="../secret.css"></head>'))
    watched = watch(browser, page)
    with pytest.raises(AssertionError, match=r"secret\.css"):
        watched.require_clean()
    watched.close()


def test_axe_sees_text_that_cannot_be_read(open_page, tmp_path):
    faint = DECENT.replace("<p>", '<p style="color: #ddd; background: #fff">')
    found = open_page(written(tmp_path, faint)).axe()
    assert [line.split(":")[0] for line in found] == ["color-contrast"]


def test_a_page_wider_than_its_window_is_seen(open_page, tmp_path):
    wide = DECENT.replace("<p>", '<p style="width: 700px">')
    assert open_page(written(tmp_path, wide), size="phone").overflow() > 300
    assert open_page(written(tmp_path, wide), size="wide").overflow() == 0
