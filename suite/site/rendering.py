"""Turning page data into HTML: one Jinja2 environment in which nothing from a bundle can become markup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined, Undefined
from markupsafe import Markup

from suite.site.charts import Counted, Part, class_bar
from suite.site.numbers import FILTERS
from suite.site.resources import site_folder
from suite.site.text import visible
from suite.site.urls import allowed_url

_AS_THEY_ARE = (Markup, bool, int, float, Undefined)
_PATH_SIGNS = dict.fromkeys(map(ord, "MmVvHhLlZz0123456789.,- "))


class Renderer:
    """Renders templates of `site/templates`."""

    def __init__(self, *, compiled: Path | None = None) -> None:
        """Args: compiled: folder in which this program keeps compiled templates; None: they are compiled each time."""
        self._environment = Environment(
            loader=FileSystemLoader(site_folder() / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalise,
            trim_blocks=True,
            lstrip_blocks=True,
            # Templates change only between builds.
            auto_reload=False,
            bytecode_cache=None if compiled is None else FileSystemBytecodeCache(str(compiled)),
        )
        self._environment.filters |= FILTERS
        self._environment.filters["outside"] = allowed_url
        self._environment.filters["long"] = _long
        self._environment.filters["drawn"] = _drawn
        self._environment.filters["class_bar"] = _class_bar

    def page(self, template: str, *, path: str, title: str, **context: Any) -> bytes:
        """One page.

        Args:
            template: Name of a file in `site/templates`, which extends `base.html`.
            path: Where the page will lie; links are made relative to it.
            title: For the window and the search engine; from a bundle or not.
            context: What the template needs; a name that it asks for and does not get is an error.
        """
        above = path.split("/")[:-1]

        def href(target: str) -> str:
            """Relative address of a file of the site; may end in `#anchor` or `?query`."""
            bare = min((target.find(mark) for mark in "#?" if mark in target), default=len(target))
            if not bare:
                return target
            # Not `relpath`, which asks the system for the working folder at each of tens of thousands of links.
            parts, shared = target[:bare].split("/"), 0
            while shared < min(len(above), len(parts) - 1) and above[shared] == parts[shared]:
                shared += 1
            return "../" * (len(above) - shared) + "/".join(parts[shared:]) + target[bare:]

        html = self._environment.get_template(template).render(href=href, path=path, title=title, **context)
        return html.encode("utf-8", errors="replace")


def script_call(function: str, value: Any) -> bytes:
    """The bytes of a script that does nothing but `FUNCTION(JSON);`, for data that a script of the site loads.

    Args:
        function: Dotted name of a function that a script of the site defines; not from a bundle.
        value: JSON values; strings may hold anything.
    """
    # ASCII only, so neither encoding nor line separators of Unicode can matter.
    data = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"{function}({data});\n".encode("ascii")


def _finalise(value: Any) -> Any:
    """Applied to everything that a template prints, before it is escaped."""
    if type(value) is str:
        return visible(value)
    return value if isinstance(value, _AS_THEY_ARE) else visible(str(value))


def _drawn(path: str) -> Markup:
    """The commands of an SVG path that this program computed: longer than any text, and of a few letters only."""
    assert not path.translate(_PATH_SIGNS)
    return Markup("{}").format(path)


def _class_bar(counts: Counted, top: int) -> tuple[Part, ...]:
    return class_bar(counts, top=top)


def _long(value: str, limit: int) -> Markup:
    """Text of several lines, longer than values usually are; escaped here, since it is not to be cut again."""
    return Markup("{}").format(visible(value, limit=limit, lines=True))
