"""Where templates and assets lie: the top-level `site/` of the repository, or its copy inside the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from suite.errors import MissingPrerequisite
from suite.files import canonical_json, sha256_bytes, sha256_file

_HERE = Path(__file__).parent
_TEMPLATES = frozenset({".html", ".xml"})
"""Other files are copied, each under a key of its own."""


@cache
def site_folder() -> Path:
    """The folder that holds `templates/`, `assets/` and `published/`.

    Raises:
        MissingPrerequisite: neither place has it.
    """
    for folder in (_HERE / "_packaged", _HERE.parent.parent / "site"):
        if (folder / "templates" / "base.html").is_file():
            return folder
    raise MissingPrerequisite(
        "the site's templates are not here", where=str(_HERE), hint="install suite again from its wheel or repository"
    )


def code_key() -> str:
    """Digest of templates and of all code: when any of it changes, facts are taken and pages are made again."""
    files = [path for path in site_folder().rglob("*") if path.suffix in _TEMPLATES]
    files += _HERE.parent.rglob("*.py")
    return sha256_bytes(canonical_json([[path.name, sha256_file(path)] for path in sorted(files)]))
