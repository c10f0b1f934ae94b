"""Where templates and assets lie: the top-level `site/` of the repository, or its copy inside the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from suite.errors import MissingPrerequisite
from suite.files import canonical_json, sha256_bytes, sha256_file

_HERE = Path(__file__).parent


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
    """Digest of templates, assets and the site's code: when one of them changes, every page is made again."""
    files = sorted(
        path
        for folder in (site_folder(), _HERE, _HERE.parent / "compare")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in {".py", ".html", ".svg", ".css", ".js", ".json", ".xml"}
    )
    return sha256_bytes(canonical_json([[path.name, sha256_file(path)] for path in files]))
