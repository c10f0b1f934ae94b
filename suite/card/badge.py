"""A small SVG for a model card: the flips of a bundle as a count, never as a bare percentage."""

from __future__ import annotations

from html import escape

from suite.bundle.schema import BundleRecord
from suite.bundle.show import shown

_CHARACTER_WIDTH = 6.6
_PADDING = 9
_HEIGHT = 22


def badge_text(record: BundleRecord) -> tuple[str, str]:
    """What stands on the left and on the right."""
    headlines = record.headlines
    return (
        f"flips, {headlines.path} path",
        f"{headlines.flips:,} of {headlines.n:,}, {headlines.flips_confident:,} confident",
    )


def badge_svg(record: BundleRecord) -> bytes:
    """A badge without script, font, link or anything from elsewhere; the same record gives the same bytes."""
    left, right = badge_text(record)
    left_width, right_width = (round(len(text) * _CHARACTER_WIDTH + 2 * _PADDING) for text in (left, right))
    width = left_width + right_width
    title = escape(f"{shown(record.name)}: {right} ({record.tier})")
    round_end = f"a3 3 0 0 1 3 3v{_HEIGHT - 6}a3 3 0 0 1-3 3"
    texts = "".join(
        f'<text x="{x + _PADDING}" y="15" fill="{colour}" textLength="{size - 2 * _PADDING}">{escape(text)}</text>'
        for x, size, colour, text in ((0, left_width, "#fff", left), (left_width, right_width, "#111827", right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<rect width="{width}" height="{_HEIGHT}" rx="3" fill="#1f2937"/>'
        f'<path d="M{left_width} 0h{right_width - 3}{round_end}h-{right_width - 3}z" fill="#f3f4f6"/>'
        '<g font-family="ui-sans-serif,system-ui,sans-serif" font-size="12">'
        f"{texts}"
        "</g></svg>\n"
    ).encode()
