"""The ledger: one Parquet row per probe, from which every headline is recomputed.

The same input gives the same bytes: no time, host or path is written, and row groups have a fixed size.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.capture.index import CapturePath, RowDtype, Sha256
from suite.errors import InvalidInput, MissingPrerequisite
from suite.files import canonical_json
from suite.score.interface import KERNEL_COLUMNS, Columns

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
TIE_RULE: Literal["lowest_id"] = "lowest_id"
WINDOW_TOKENS = 8_000

_ROW_GROUP = 16_384
_ROW_LIMIT = 1 << 24
_SIZE_LIMIT_BYTES = 2 << 30
_METADATA_KEY = b"suite.ledger"

TEXT_COLUMNS = ("span_kind", "path", "flip_class")
HASH_COLUMNS = ("ref_row_sha256", "cand_row_sha256")
COLUMNS: tuple[str, ...] = (
    "position",
    "token_id",
    "target_id",
    "turn",
    "window",
    "range_index",
    "span_kind",
    "path",
    *KERNEL_COLUMNS,
    "flip_class",
    "replayed",
    *HASH_COLUMNS,
)
"""All columns, in the order of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerFacts:
    """What holds for every row of a ledger; kept in the file's metadata."""

    tokens_sha256: str
    num_tokens: int
    vocab_size: int
    path: CapturePath
    ref_dtype: RowDtype
    cand_dtype: RowDtype


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """A whole ledger in memory (about 350 bytes a probe)."""

    facts: LedgerFacts
    columns: Columns
    """Every name of `COLUMNS` to an array [n]; text as unicode arrays, hashes as uint8 [n, 32]."""

    @property
    def num_rows(self) -> int:
        """Number of probes."""
        return len(self.columns["position"])


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: Literal[1]
    tie_rule: Literal["lowest_id"]
    window_tokens: Literal[8000]
    tokens_sha256: Sha256
    num_tokens: Annotated[int, Field(gt=1, le=1 << 24)]
    vocab_size: Annotated[int, Field(gt=0, le=1 << 24)]
    path: CapturePath
    ref_dtype: RowDtype
    cand_dtype: RowDtype


@lru_cache(maxsize=8)
def arrow_schema(facts: LedgerFacts) -> pa.Schema:
    """The exact Arrow schema of a ledger with these facts; no column is nullable."""
    import pyarrow as pa

    integers = {"position": pa.int64(), "token_id": pa.int32(), "target_id": pa.int32()}
    integers |= {"turn": pa.int32(), "window": pa.int32(), "range_index": pa.int32()}
    kinds = {np.int32: pa.int32(), np.float64: pa.float64(), np.bool_: pa.bool_()}
    types = integers | {name: kinds[kind] for name, kind in KERNEL_COLUMNS.items()}
    types |= (
        {"replayed": pa.bool_()}
        | {name: pa.string() for name in TEXT_COLUMNS}
        | {name: pa.binary(32) for name in HASH_COLUMNS}
    )
    value = {"schema_version": SCHEMA_VERSION, "tie_rule": TIE_RULE, "window_tokens": WINDOW_TOKENS, **asdict(facts)}
    return pa.schema(
        [pa.field(name, types[name], nullable=False) for name in COLUMNS],
        metadata={_METADATA_KEY: canonical_json(value)},
    )


def write_ledger(path: Path, blocks: Iterable[Columns], facts: LedgerFacts) -> int:
    """Write a ledger atomically, holding one row group in memory; returns the number of rows.

    Args:
        path: Where the finished file shall stand.
        blocks: Columns of consecutive probes, of any length; how they are cut does not show in the file.
        facts: What holds for all rows.

    Raises:
        MissingPrerequisite: the disk is full.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    schema = arrow_schema(facts)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")  # two runs may score the same captures
    rows = 0
    try:
        with pq.ParquetWriter(
            temporary, schema, compression="zstd", use_dictionary=list(TEXT_COLUMNS), store_schema=True, version="2.6"
        ) as writer:
            waiting: list[pa.Table] = []
            for block in blocks:
                waiting.append(_table(block, schema))
                rows += len(block["position"])
                held = pa.concat_tables(waiting)
                while held.num_rows >= _ROW_GROUP:
                    writer.write_table(held.slice(0, _ROW_GROUP).combine_chunks(), row_group_size=_ROW_GROUP)
                    held = held.slice(_ROW_GROUP)
                waiting = [held]
            if waiting and waiting[0].num_rows:
                writer.write_table(waiting[0].combine_chunks(), row_group_size=_ROW_GROUP)
        temporary.replace(path)
    except OSError as error:
        raise MissingPrerequisite(
            f"the ledger cannot be written: {error}", where=str(path), hint="free disk space, then run again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def read_ledger(path: Path, *, names: Sequence[str] = COLUMNS) -> Ledger:
    """Read a ledger, refusing any other schema, nulls, and more than 16,777,216 rows.

    Args:
        path: The file.
        names: Columns to take; others are then absent from the result, and nothing is checked of their cells.

    Raises:
        InvalidInput: not a ledger that this program reads.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = str(path)
    try:
        if path.stat().st_size > _SIZE_LIMIT_BYTES:
            raise InvalidInput(f"larger than {_SIZE_LIMIT_BYTES:,} bytes", where=where)
        with pq.ParquetFile(path, memory_map=False) as file:
            facts = _read_facts(file.schema_arrow.metadata or {}, where=where)
            if not file.schema_arrow.equals(arrow_schema(facts), check_metadata=True):
                raise InvalidInput("the columns are not those of a ledger", where=where)
            if file.metadata.num_rows > _ROW_LIMIT:
                raise InvalidInput(f"more than {_ROW_LIMIT:,} rows", where=where)
            declared = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            if declared > _SIZE_LIMIT_BYTES:
                raise InvalidInput(f"expands to more than {_SIZE_LIMIT_BYTES:,} bytes", where=where)
            table = file.read(list(names), use_threads=False)
            table.validate(full=True)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a readable Parquet file: {error}", where=where) from error
    return Ledger(facts=facts, columns={name: _array(table, name, where=where) for name in names})


def _table(block: Columns, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    arrays = []
    for field in schema:
        values = block[field.name]
        if field.name in HASH_COLUMNS:
            flat = pa.py_buffer(np.ascontiguousarray(values, dtype=np.uint8).tobytes())
            arrays.append(pa.FixedSizeBinaryArray.from_buffers(field.type, len(values), [None, flat]))
        else:
            arrays.append(pa.array(values.tolist() if field.name in TEXT_COLUMNS else values, type=field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(table: pa.Table, name: str, *, where: str) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        raise InvalidInput(f"the column {name!r} has empty cells", where=where)
    whole = column.combine_chunks()
    if name in TEXT_COLUMNS:
        return np.array(whole.to_pylist(), dtype=np.str_)
    if name in HASH_COLUMNS:
        size = whole.type.byte_width
        flat = np.frombuffer(whole.buffers()[1] or b"", dtype=np.uint8)
        return flat[whole.offset * size : (whole.offset + len(whole)) * size].reshape(-1, size)
    values: NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return values


def _read_facts(metadata: dict[bytes, bytes], *, where: str) -> LedgerFacts:
    text = metadata.get(_METADATA_KEY)
    if text is None:
        raise InvalidInput("not a ledger: its metadata names no schema version", where=where)
    try:
        version = json.loads(text).get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise InvalidInput(
                f"schema version {version} is newer than this program reads ({SCHEMA_VERSION})",
                where=where,
                hint="update suite",
            )
        parsed = _Facts.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"the ledger's metadata cannot be used: {error}", where=where) from error
    return LedgerFacts(**parsed.model_dump(exclude={"schema_version", "tie_rule", "window_tokens"}))
