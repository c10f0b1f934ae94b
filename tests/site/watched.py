"""A page under watch: requests that leave the site, errors of its console, and what axe says of its accessibility."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, ViewportSize

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SERIOUS = ("serious", "critical")
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "wide": (1440, 900)}
OF_SIZE_AND_COLOUR = ("color-contrast", "target-size", "scrollable-region-focusable")
"""What can differ between a phone in the dark and a wide window by day; all else is looked at once."""


def window(size: str) -> ViewportSize:
    """A window of one of `SIZES`."""
    width, height = SIZES[size]
    return {"width": width, "height": height}


@dataclass(kw_only=True)
class Watched:
    """One page, and all that happened on it which may not happen."""

    page: Page
    context: BrowserContext
    home: str
    """What every address of the site begins with: an origin, or a folder as `file://` address."""
    outside: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)

    def on_request(self, request: Request) -> None:
        """Note a request for anything that is not of the site."""
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.outside.append(request.url)

    def on_console(self, message: ConsoleMessage) -> None:
        """Note errors and warnings; refusals by the content security policy are errors."""
        if message.type in ("error", "warning"):
            self.console.append(f"{message.type}: {message.text}")

    def require_clean(self) -> None:
        """Fail if anything left the page, was not found, or went wrong in a script."""
        assert self.outside == [], f"requests that leave the site: {self.outside}"
        assert self.failed == [], f"requests that failed: {self.failed}"
        assert self.console == [], f"the console says: {self.console}"

    def axe(self, *rules: str) -> list[str]:
        """What axe-core finds serious or critical, a line each: rule, help, the first elements.

        Args:
            rules: Only these; all for WCAG 2.2 AA, and axe's own good practice, where none is named.
        """
        # `evaluate` is not bound by the page's own policy, which forbids scripts from elsewhere.
        self.page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
        found: list[dict[str, Any]] = self.page.evaluate(
            # Without `preload` axe asks for style sheets again, which the policy of a page refuses.
            "chosen => axe.run(document, {preload: false, resultTypes: ['violations'],"
            " runOnly: chosen}).then(r => r.violations)",
            {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": WCAG},
        )
        return [
            f"{rule['id']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes'][:3]]}"
            for rule in found
            if rule["impact"] in SERIOUS
        ]

    def overflow(self) -> int:
        """By how many CSS pixels the page is wider than its window; 0 where nothing makes the page scroll sideways."""
        wider: int = self.page.evaluate(
            "() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        )
        return wider

    def close(self) -> None:
        """Close the page with its context."""
        self.context.close()


def watch(
    browser: Browser,
    target: Path | str,
    *,
    home: Path | str | None = None,
    size: Literal["phone", "tablet", "wide"] = "wide",
    dark: bool = False,
    scripts: bool = True,
    clipboard: bool = False,
) -> Watched:
    """Open a page in a context of its own and watch it from its first request.

    Args:
        browser: A running browser.
        target: A file, or an address.
        home: The site's folder or origin; the target's own folder or origin where it is left out.
        size: One of `SIZES`.
        dark: Whether the reader prefers dark.
        scripts: Whether scripts run.
        clipboard: Whether the page may use the clipboard without asking.
    """
    context = browser.new_context(
        viewport=window(size),
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        reduced_motion="reduce",
        service_workers="block",
    )
    if clipboard:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(15_000)
    page = context.new_page()
    watched = Watched(page=page, context=context, home=_home(target, home))
    context.on("request", watched.on_request)
    context.on("requestfailed", lambda request: watched.failed.append(f"{request.url}: {request.failure}"))
    context.on("console", watched.on_console)
    context.on("weberror", lambda error: watched.console.append(f"uncaught: {error.error}"))
    page.goto(target.as_uri() if isinstance(target, Path) else target)
    return watched


def _home(target: Path | str, home: Path | str | None) -> str:
    if isinstance(home, Path):
        return home.as_uri() + "/"
    if home is not None:
        return home
    if isinstance(target, Path):
        return target.parent.as_uri() + "/"
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc}/"
