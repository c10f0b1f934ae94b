"""The first page, the page on method, and the assets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from suite.files import sha256_file
from suite.site.data import BundleFacts, Guide, Site
from suite.site.interface import Link, Output
from suite.site.keys import key_of
from suite.site.published import ORIGINS
from suite.site.rendering import Renderer
from suite.site.resources import site_folder
from suite.stack.gpus import find_gpu

_NEWEST = 8


class Front:
    """What every site has."""

    name = "front"

    def outputs(self, site: Site) -> Iterable[Output]:
        """The first page, the method, and every asset."""
        shown = [[g.page, g.num_results, len(g.withdrawn), g.num_published, len(g.manifests)] for g in site.guides]
        newest = [b.key for b in site.bundles if b.standing.withdrawal is None][:_NEWEST]
        yield Output(path="index.html", key=key_of("home", shown, newest), make=partial(_home, site))
        yield Output(path="method.html", key=key_of("method"), make=_method)
        for path in sorted((site_folder() / "assets").rglob("*")):
            if path.is_file():
                name = path.relative_to(site_folder()).as_posix()
                yield Output(path=name, key=key_of("asset", sha256_file(path)), make=partial(_asset, path))

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """None."""
        return ()


def _home(site: Site, renderer: Renderer) -> bytes:
    by_gpu: dict[str, list[Guide]] = {}
    for guide in site.guides:
        by_gpu.setdefault(guide.gpu, []).append(guide)
    ordered = sorted(by_gpu, key=lambda name: (-sum(g.num_results for g in by_gpu[name]), find_gpu(name) is None, name))
    return renderer.page(
        "home.html",
        path="index.html",
        title="suite: what one serving flag does to a local model’s answers",
        section="guides",
        gpus=[
            (name, find_gpu(name), sorted(by_gpu[name], key=lambda guide: (not guide.num_results, guide.model)))
            for name in ordered
        ],
        newest=[bundle for bundle in site.bundles if bundle.standing.withdrawal is None][:_NEWEST],
        num_results=sum(guide.num_results for guide in site.guides),
        num_withdrawn=sum(len(guide.withdrawn) for guide in site.guides),
    )


def _method(renderer: Renderer) -> bytes:
    return renderer.page(
        "method.html", path="method.html", title="How it is measured", section="method", origins=ORIGINS
    )


def _asset(path: Path, renderer: Renderer) -> bytes:
    return path.read_bytes()
