"""The plug point of the site: a section gets the site's data and yields the files that it adds to it.

What holds for every file of the site:

- Pages work from `file://`: no `fetch`, no modules. A script that needs data adds a `<script src>` element whose file
  calls a function with one JSON value (`suite.site.rendering.script_call` writes such files).
- The content security policy of `base.html` allows scripts, styles and images of the site only, nothing inline: no
  `style` attribute, no `onclick`, no `data:` address.
- Every string from a bundle is hostile. Templates escape, and make control and direction characters visible; a script
  sets `textContent`, never `innerHTML`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from suite.bundle.read import read_file
from suite.errors import SuiteError

if TYPE_CHECKING:
    from suite.site.data import BundleFacts, Site
    from suite.site.rendering import Renderer


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """One file of the site, made only when its key has changed."""

    path: str
    """Below the site's root, with `/`, for instance `results/NAME/STAMP/index.html`."""
    key: str
    """Digest of everything the file is made from, except templates, assets and code: those are the same for all files
    and known to the builder. `suite.site.keys.key_of` makes one."""
    make: Callable[[Renderer], bytes]
    """The file's bytes. Called only if the key, the code or a template has changed, maybe in another process' turn; it
    must not depend on what else is built."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """One file of a bundle that is offered for download as it is."""

    path: str
    folder: Path
    """Of the bundle."""
    name: str
    """Of the file, as bundles name it."""
    sha256: str
    """What the file must have; one with another hash is not copied, and the build says so."""

    @property
    def key(self) -> str:
        """As that of an `Output`."""
        return f"copy {self.sha256}"

    def read(self) -> bytes | None:
        """The file's bytes, read as a bundle's are; None if it cannot be."""
        try:
            return read_file(self.folder, self.name)
        except SuiteError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link that a section wants to see on the page of a bundle."""

    path: str
    text: str
    detail: str = ""
    """One short sentence."""


class Section(Protocol):
    """A part of the site. Sections know nothing of each other."""

    name: str

    def outputs(self, site: Site) -> Iterable[Output | Copied]:
        """The files of this section."""

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """What the page of a bundle should link to in this section; nothing where the bundle has nothing for it."""
