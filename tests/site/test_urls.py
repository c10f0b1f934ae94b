from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.site.urls import HOSTS, allowed_url


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "//github.com/x",
        "http://github.com/x",
        "https://github.com.evil.example/x",
        "https://evil.example/github.com",
        "https://github.com@evil.example/",
        "https://user:word@github.com/",
        "https://github.com:8443/x",
        "https://github.com:x/",
        "https://github.com\\@evil.example/",
        "https://github.com/\u202e",
        " https://github.com/",
        'https://github.com/"onclick="x',
        "https://[github.com/",
        "",
    ],
)
def test_other_addresses_are_no_links(text):
    assert allowed_url(text) is None


def test_sources_that_the_repository_names_are_links():
    for host in HOSTS:
        assert allowed_url(f"https://{host}/a/b?c=d#e") == f"https://{host}/a/b?c=d#e"


@given(st.text(max_size=60) | st.from_regex(r"https?://[a-z.@:/\\-]{0,40}", fullmatch=True))
def test_what_is_allowed_has_a_known_host_and_nothing_else_to_it(text):
    if (url := allowed_url(text)) is not None:
        parts = urlsplit(url)
        assert (parts.scheme, parts.hostname in HOSTS, parts.username, parts.port) == ("https", True, None, None)
