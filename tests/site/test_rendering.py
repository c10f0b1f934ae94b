import json

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from suite.site import rendering
from suite.site.rendering import Renderer, script_call


@pytest.fixture
def render(tmp_path, monkeypatch):
    """Render one template text as a page would be."""
    (tmp_path / "templates").mkdir()
    monkeypatch.setattr(rendering, "site_folder", lambda: tmp_path)

    def run(text, path="a/b/page.html", **context):
        (tmp_path / "templates" / "one.html").write_text(text, encoding="utf-8")
        return Renderer().page("one.html", path=path, title="t", **context).decode()

    return run


def test_values_are_escaped_spelt_and_cut(render):
    assert render("{{ v }}", v='<b a="\'">&') == "&lt;b a=&#34;&#39;&#34;&gt;&amp;"
    assert render("{{ v }}", v="\u202ex") == "[U+202E]x"
    assert len(render("{{ v }}", v="x" * 10_000)) < 500
    assert render("{{ v }}", v={"<i>": "\u202e"}) == "{&#39;&lt;i&gt;&#39;: &#39;\\u202e&#39;}"
    assert render("{{ v }}{{ w }}", v=7, w=True) == "7True"
    assert render("{{ v }}", v="{{ 7 * 7 }}") == "{{ 7 * 7 }}"


def test_long_text_is_escaped_once_and_keeps_its_lines(render):
    text = "a & b\n" * 300
    assert render("{{ v|long(5000) }}", v=text) == text.replace("&", "&amp;").removesuffix("\n") + "\n"
    assert render("{{ v|long(3) }}", v="abcdef") == "abc… (6 characters)"


def test_links_are_relative_to_the_page(render):
    links = "{{ href('index.html') }} {{ href('a/c.html#x') }} {{ href('#here') }} {{ href('a/b/page.html') }}"
    assert render(links) == "../../index.html ../c.html#x #here page.html"
    assert render("{{ href('assets/style.css') }}", path="index.html") == "assets/style.css"


def test_a_name_that_a_template_lacks_is_an_error(render):
    with pytest.raises(UndefinedError):
        render("{{ missing }}")


def test_only_drawn_paths_pass_as_geometry(render):
    assert render("{{ v|drawn }}", v="M1 2v-3.5" * 100) == "M1 2v-3.5" * 100
    with pytest.raises(AssertionError):
        render("{{ v|drawn }}", v='M1"/><script>')


def test_data_for_scripts_is_one_call_of_plain_letters():
    value = {"</script>": ["\u2028", "\u202e", "é", "'\"\\"]}
    data = script_call("suite.receive", value)
    assert data.isascii()
    assert data.startswith(b"suite.receive(")
    assert json.loads(data.removeprefix(b"suite.receive(").removesuffix(b");\n")) == value
    with pytest.raises(ValueError, match="JSON compliant"):
        script_call("f", float("nan"))


def test_markup_is_only_what_templates_and_filters_make(render):
    assert render("{{ v }}", v=Markup("<b>")) == "<b>"
