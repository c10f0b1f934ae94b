"""The check as one HTML page without scripts: findings, counts, and the text with its spans in colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from suite.workload.check.interface import Finding
from suite.workload.check.segments import Segment

COLOURS = {
    "system": ("#e8eaf6", "#283593"),
    "user": ("#e3f2fd", "#0d47a1"),
    "assistant_output": ("#e8f5e9", "#1b5e20"),
    "reasoning": ("#f3e5f5", "#6a1b9a"),
    "tool_call": ("#fff3e0", "#a84300"),
    "tool_result": ("#e0f7fa", "#005662"),
    "scaffold": ("#eeeeee", "#424242"),
}
"""Background and text of each kind of span; contrast of at least 4.5 to 1."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #111; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { text-align: left; padding: .3rem .8rem; border-bottom: 1px solid #ccc; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 14px/1.6 ui-monospace, monospace }
pre span { border-radius: 2px } .literal { text-decoration: underline 2px }
h2 + pre { border-left: 4px solid #ccc; padding-left: 1rem } .error { color: #b00020; font-weight: 600 }
"""


def page(name: str, findings: Sequence[Finding], parts: Sequence[Segment], hashes: Sequence[tuple[str, str]]) -> bytes:
    """The page's bytes. All text of the session is escaped."""
    kinds: Counter[str] = Counter()
    for part in parts:
        kinds[part.kind] += part.end - part.start
    rules = "".join(f".{kind} {{ background: {back}; color: {ink} }}\n" for kind, (back, ink) in COLOURS.items())
    body = [f"<h1>{escape(name)}</h1>", "<h2>Findings</h2>", *_findings(findings)]
    total = sum(kinds.values())
    rows = "".join(
        f'<tr><td><span class="{kind}">{kind}</span></td><td class="n">{count:,}</td></tr>'
        for kind, count in kinds.most_common()
    )
    body.append(
        f'<h2>Tokens</h2><table><tr><th>innermost kind</th><th class="n">tokens</th></tr>{rows}'
        f'<tr><td>all</td><td class="n">{total:,}</td></tr></table>'
    )
    body.append(
        "<table>"
        + "".join(f"<tr><td>{escape(k)}</td><td><code>{escape(v)}</code></td></tr>" for k, v in hashes)
        + "</table>"
    )
    turn = -1
    for part in parts:
        if part.turn != turn:
            body.append(f"{'</pre>' if turn >= 0 else ''}<h2>{part.turn} {escape(part.role)}</h2><pre>")
            turn = part.turn
        classes = f"{part.kind} literal" if part.literal else part.kind
        title = f"{part.kind}, tokens {part.start} to {part.end} ({part.end - part.start})"
        body.append(f'<span class="{classes}" title="{title}">{escape(part.text)}</span>')
    body.append("</pre>" if turn >= 0 else "<p>The session could not be rendered.</p>")
    # Text of a session stands in here: nothing in it may run or fetch.
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    head = f'<meta charset="utf-8">{policy}<title>{escape(name)}</title><style>{_STYLE}{rules}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'.encode()


def _findings(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return ["<p>None.</p>"]
    rows = "".join(
        f'<tr><td class="{f.severity}">{f.severity}</td><td>{escape(f.code)}</td><td>{escape(f.where)}</td>'
        f"<td>{escape(f.message)}</td><td>{escape(f.effect)}</td><td>{escape(f.hint)}</td></tr>"
        for f in findings
    )
    heads = "".join(f"<th>{h}</th>" for h in ("", "", "where", "what", "what it does to a measurement", "what to do"))
    return [f"<table><tr>{heads}</tr>{rows}</table>"]
