"""What every source of components gives: one list of `Component`, whatever the package manager."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from suite.sbom.schema import Inventory

OPERATING_SYSTEM = "operating_system"
DPKG = "dpkg"
PYTHON = "python"
CUDA_LIBRARY = "cuda_library"
SHARED_OBJECT = "shared_object"
EXECUTABLE = "executable"
MOUNTED_FILE = "mounted_file"
OTHER = "other"

KINDS = (OPERATING_SYSTEM, DPKG, PYTHON, CUDA_LIBRARY, SHARED_OBJECT, EXECUTABLE, MOUNTED_FILE, OTHER)
"""In the order of every listing. `mounted_file` is the host's, lent to a container; `other` is from foreign files."""

PACKAGE_KINDS = frozenset({DPKG, PYTHON})
FILE_KINDS = frozenset({CUDA_LIBRARY, SHARED_OBJECT, EXECUTABLE, MOUNTED_FILE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One thing a stack is made of."""

    kind: str
    """One of `KINDS`."""
    name: str
    version: str | None = None
    architecture: str | None = None
    """Debian's name of it (`amd64`); None where the kind has none."""
    purl: str | None = None
    """Package URL; None where none can be written."""
    content_sha256: str | None = None
    """What two components are compared by, beside the version: of a Debian package its md5sums list, of a Python
    distribution its RECORD without what the installer added, of a file its bytes."""
    licence: str | None = None
    """As the package declares it: an SPDX expression or free text."""
    places: tuple[str, ...] = ()
    """Where it was found, relative to the root or to `{prefix}`."""
    properties: tuple[tuple[str, str], ...] = ()
    """Sorted further facts, as (name, value)."""


class Source(Protocol):
    """A source of components: pure, from an inventory that was read before."""

    def __call__(self, inventory: Inventory) -> Iterable[Component]:
        """The components that this source accounts for."""
