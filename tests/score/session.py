"""A tiny rendered session and captures of it."""

import numpy as np

from suite.capture.rows import open_rows
from suite.capture.store import open_capture
from suite.workload.rendered import Rendered, Span, Turn, tokens_sha256
from tests.capture.synthetic import bf16, write_capture

TOKENS = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
VOCABULARY = 6


def rendered(tokens=TOKENS) -> Rendered:
    """Two turns: 5 tokens of the user, then the assistant, whose last tokens are a call with a literal."""
    end = len(tokens)
    return Rendered(
        token_ids=tuple(tokens),
        spans=(
            Span(start=0, end=1, kind="scaffold", turn=0),
            Span(start=1, end=5, kind="user", turn=0),
            Span(start=5, end=6, kind="scaffold", turn=1),
            Span(start=6, end=end, kind="assistant_output", turn=1),
            Span(start=8, end=11, kind="tool_call", turn=1, label="ping"),
            Span(start=9, end=10, kind="literal", turn=1, label="eth0"),
        ),
        turns=(
            Turn(index=0, role="user", start=0, end=5, output_start=None),
            Turn(index=1, role="assistant", start=5, end=end, output_start=6),
        ),
        workload_digest="3" * 64,
        tokens_sha256=tokens_sha256(tokens),
        tokenizer_sha256="4" * 64,
        chat_template_sha256="5" * 64,
    )


def logits(seed: int = 0, count: int = len(TOKENS) - 1) -> np.ndarray:
    """Rows whose top-1 is the recorded token by a wide margin at even positions, and close at odd ones."""
    values = np.random.default_rng(seed).normal(0, 0.25, (count, VOCABULARY))
    for position in range(count):
        values[position, TOKENS[position + 1]] += 6 if position % 2 == 0 else 1.5
    return values


def source(folder, values, **options):
    """A `RowSource` over a new capture of `values`, rounded to BF16 unless they are float32."""
    rows = values if values.dtype == np.float32 else bf16(values)
    return open_rows(open_capture(write_capture(folder, rows, options.pop("tokens", TOKENS), **options)))
