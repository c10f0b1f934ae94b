"""The ledger's Parquet file by its footer alone: schema, rows and sizes, before a column is expanded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from suite.intake.limits import Limits
from suite.intake.refusal import Refused
from suite.score.ledger import COLUMNS

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

_WHERE = "ledger.parquet"
_CODECS = frozenset({"ZSTD", "UNCOMPRESSED", "SNAPPY"})
_FOOTER_LIMIT_BYTES = 4 << 20


def check_ledger_file(path: Path, limits: Limits) -> None:
    """Refuse a file whose footer claims more than a ledger may hold, or other columns.

    `suite.score.ledger.read_ledger` compares the exact types afterwards.

    Raises:
        Refused: the first bound that does not hold.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check_ends(path)
    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            metadata = file.metadata
            names = [metadata.schema.column(k).path for k in range(metadata.num_columns)]
            if names != list(COLUMNS):
                raise Refused("ledger-schema", "the columns are not those of a ledger", where=_WHERE)
            if metadata.num_rows > limits.ledger_rows:
                raise Refused(
                    "ledger-rows",
                    f"{metadata.num_rows:,} rows; at most {limits.ledger_rows:,} are taken in",
                    where=_WHERE,
                )
            if metadata.num_row_groups > max(1, metadata.num_rows):
                raise Refused("ledger-rows", "more row groups than rows", where=_WHERE)
            _check_groups(metadata, limits)
    except (OSError, pa.ArrowException, UnicodeDecodeError, ValueError) as error:
        raise Refused("not-parquet", f"not a readable Parquet file: {error}", where=_WHERE) from error


def _check_ends(path: Path) -> None:
    with path.open("rb") as stream:
        start = stream.read(4)
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        tail = stream.read(8)
    if start != b"PAR1" or tail[4:] != b"PAR1":
        raise Refused("not-parquet", "does not begin and end as a Parquet file does", where=_WHERE)
    footer = int.from_bytes(tail[:4], "little")
    if not 0 < footer <= min(_FOOTER_LIMIT_BYTES, size - 12):
        raise Refused("not-parquet", f"a footer of {footer:,} bytes", where=_WHERE)


def _check_groups(metadata: FileMetaData, limits: Limits) -> None:
    rows = expanded = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows += group.num_rows
        for column in range(group.num_columns):
            chunk = group.column(column)
            expanded += chunk.total_uncompressed_size
            if chunk.num_values != group.num_rows:
                raise Refused("ledger-rows", f"{chunk.path_in_schema} has more or fewer values than rows", where=_WHERE)
            if chunk.compression not in _CODECS:
                raise Refused(
                    "ledger-codec", f"{chunk.path_in_schema} is packed with {chunk.compression}", where=_WHERE
                )
    if rows != metadata.num_rows:
        raise Refused("ledger-rows", f"the footer says {metadata.num_rows:,} rows, its groups {rows:,}", where=_WHERE)
    most = limits.ledger_row_bytes * rows + (1 << 20)
    if not 0 <= expanded <= most:
        raise Refused(
            "ledger-expands", f"expands to {expanded:,} bytes; {rows:,} rows take at most {most:,}", where=_WHERE
        )
