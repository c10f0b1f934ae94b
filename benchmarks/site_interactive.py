"""How long a guide takes from navigation until its filter can be used, in a real browser, and how heavy it is.

    python benchmarks/site_interactive.py SITE [--pages N] [--rounds 7] [--chromium PATH]

SITE is a built site. The heaviest guides are opened from the disk, each round in a fresh context with an empty cache.
A page is interactive once its filters are shown (scripts show them when they work) and a choice has hidden a row or
counted them. Exit code 1 where the median of a page is a second or more, or a page is 300 kB or more.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

BAR_SECONDS, BAR_BYTES = 1.0, 300_000
_FLAGS = ["--no-sandbox", "--disable-gpu"]
_CHOOSE = """() => {
  const field = [...document.querySelectorAll('[data-controls] select')].find((one) => one.options.length > 1);
  const controls = field.closest('[data-controls]');
  field.value = field.options[1].value;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  return !controls.hidden && controls.querySelector('[data-count]').textContent !== '';
}"""


def main() -> None:
    """Print one line a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    guides = sorted(options.site.glob("guides/*/*.html"), key=lambda path: -path.stat().st_size)
    guides = [path for path in guides if b"data-controls=" in path.read_bytes()][: options.pages]
    if not guides:
        sys.exit("no guide with a table is here")
    missed = False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=_FLAGS)
        opened(browser, guides[0])  # not counted
        for path in guides:
            times = [opened(browser, path) for _ in range(options.rounds)]
            middle, size = statistics.median(times), path.stat().st_size
            missed |= middle >= BAR_SECONDS or size >= BAR_BYTES
            print(
                f"{path.relative_to(options.site)}: median {middle * 1000:.0f} ms ({min(times) * 1000:.0f} to "
                f"{max(times) * 1000:.0f}), bar {BAR_SECONDS * 1000:.0f}; {size / 1000:.0f} kB, bar 300"
            )
        browser.close()
    sys.exit(1 if missed else 0)


def opened(browser: Browser, path: Path) -> float:
    """Seconds from the start of navigation until a filter has done its work."""
    context = browser.new_context()
    page = context.new_page()
    start = time.perf_counter()
    page.goto(path.absolute().as_uri(), wait_until="domcontentloaded")
    if not page.evaluate(_CHOOSE):
        raise RuntimeError(f"{path}: the filter does nothing")
    seconds = time.perf_counter() - start
    context.close()
    return seconds


if __name__ == "__main__":
    main()
