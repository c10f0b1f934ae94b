"""A gzip file of a bundle, expanded once within bounds and thrown away, before anything expands it to read it."""

from __future__ import annotations

import zlib
from pathlib import Path

from suite.intake.limits import Limits
from suite.intake.refusal import Refused

_READ_BYTES = 1 << 16


def check_gzip(path: Path, limits: Limits) -> None:
    """Refuse what expands too far, or is not whole gzip members to its last byte.

    Raises:
        Refused: as above.
    """
    where = path.name
    expanded = 0
    with path.open("rb") as stream:
        expander = zlib.decompressobj(wbits=31)
        sent = b""
        while sent := sent or stream.read(_READ_BYTES):
            if expander.eof:
                expander = zlib.decompressobj(wbits=31)
            try:
                expanded += len(expander.decompress(sent, _READ_BYTES))
            except zlib.error as error:
                raise Refused("broken-archive", f"not a gzip file: {error}", where=where) from error
            if expanded > limits.gzip_bytes:
                raise Refused("gzip-bomb", f"expands to more than {limits.gzip_bytes:,} bytes", where=where)
            sent = expander.unused_data or expander.unconsumed_tail
    if not expander.eof:
        raise Refused("truncated", "the compressed stream ends early", where=where)
