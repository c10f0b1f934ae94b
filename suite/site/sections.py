"""The sections of the site, in the order in which their files are made."""

from __future__ import annotations

from suite.site.boards import Boards
from suite.site.bundle_pages import BundlePages
from suite.site.feeds import Feeds
from suite.site.front import Front
from suite.site.futures import FuturesPages
from suite.site.guides import Guides
from suite.site.interface import Section
from suite.site.sbom_pages import SbomPages


def all_sections(*, base_url: str = "") -> tuple[Section, ...]:
    """Every section.

    Args:
        base_url: Where the site will lie, with a closing `/`; empty where that is not known.
    """
    sboms = SbomPages()
    plugged: tuple[Section, ...] = (FuturesPages(), sboms)
    return (Front(), Guides(), Boards(), BundlePages(linked=plugged), *plugged, Feeds(base_url=base_url))
