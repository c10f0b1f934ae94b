"""Fuzzes the grammars and the ladder with atheris: no input may raise, loop, or read otherwise when cut elsewhere.

    python fuzz/grade.py fuzz/corpus -max_total_time=3600

The first byte of an input chooses the format, the second where the text is cut, the rest is the output.
"""

from __future__ import annotations

import sys
import time

import atheris

with atheris.instrument_imports(include=["suite.grade"]):
    from suite.grade.formats import GRAMMARS, make_grammar
    from suite.grade.interface import State
    from suite.grade.literals import Context, listed
    from suite.grade.tools import ToolSet
    from suite.grade.verdict import Ending, grade, grade_parsed, text_from

NAMES = tuple(GRAMMARS)
PROPERTIES = {
    "command": {"type": "string"},
    "n": {"type": "integer"},
    "v": {"type": ["string", "null"]},
    "o": {"type": "object"},
}
TOOLS = ToolSet({"run": {"type": "object", "properties": PROPERTIES, "required": ["command"]}})
CONTEXT = listed(["5432", "GigabitEthernet0/0/1.201", "page_size"])
WIDE = Context()
WIDE.add_text("host db-1 at 10.0.0.5/24, https://db-1:5432/api/v1/x?page_size=3, /etc/a.conf, aa:bb:cc:dd:ee:ff, 1.2.3")
SECONDS_PER_MEGABYTE = 4  # instrumented code is several times slower


def check(data: bytes) -> None:
    """One input."""
    if len(data) < 2:
        return
    name, text = NAMES[data[0] % len(NAMES)], text_from(data[2:])
    started = time.process_time()
    whole = make_grammar(name)
    state = whole.feed(text)
    parsed = whole.finish()
    cut = data[1] * (len(text) + 1) // 256
    pieces = make_grammar(name)
    pieces.feed(text[:cut])
    assert pieces.feed(text[cut:]) is state or not text[cut:]
    assert pieces.finish() == parsed
    assert isinstance(state, State)
    for call in parsed.calls:
        assert 0 <= call.start <= parsed.length == len(text)
        assert call.fault is None or 0 <= call.fault.position <= len(text)
        assert call.closed or call.fault is not None
        assert not call.parsed or (call.name and call.arguments is not None)
    for ending in Ending:
        graded = grade_parsed(parsed, tools=TOOLS, context=CONTEXT, ending=ending, text=text)
        graded.to_json()
    grade(data[2:], format=name, context=WIDE)
    assert time.process_time() - started < 1 + SECONDS_PER_MEGABYTE * len(data) / 1e6


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
