import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suite.errors import InvalidInput
from suite.score.labels import Labels
from suite.score.ledger import COLUMNS, LedgerFacts, arrow_schema, read_ledger, write_ledger
from suite.score.scorer import write_scores
from tests.score.session import logits, rendered, source


@pytest.fixture
def path(tmp_path):
    sides = [source(tmp_path / str(seed), logits(seed)) for seed in (0, 1)]
    write_scores(tmp_path / "ledger.parquet", *sides, labels=Labels.of(rendered()))
    return tmp_path / "ledger.parquet"


def rewrite(path, change):
    table = change(pq.read_table(path))
    pq.write_table(table, path)


def test_a_ledger_is_read_back_column_by_column(path):
    ledger = read_ledger(path)
    table = pq.read_table(path)
    assert table.column_names == list(COLUMNS)
    assert ledger.columns["kl_ref_cand"].tolist() == table["kl_ref_cand"].to_pylist()
    assert [bytes(row) for row in ledger.columns["ref_row_sha256"]] == table["ref_row_sha256"].to_pylist()
    assert ledger.facts.vocab_size == 6


def test_many_rows_stream_into_row_groups_of_one_size(path, tmp_path):
    ledger = read_ledger(path)
    long = {name: np.concatenate([values] * 32) for name, values in ledger.columns.items()}
    blocks = (long for _ in range(100))
    count = write_ledger(tmp_path / "long.parquet", blocks, ledger.facts)
    metadata = pq.ParquetFile(tmp_path / "long.parquet").metadata
    assert count == 35_200 == metadata.num_rows
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [16_384, 16_384, 2_432]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.drop_columns(["jsd"]), "not those of a ledger"),
        (lambda t: t.append_column("more", pa.array(range(len(t)))), "not those of a ledger"),
        (lambda t: t.set_column(0, "position", t["position"].cast(pa.int32())), "not those of a ledger"),
        (lambda t: t.replace_schema_metadata({}), "not a ledger"),
        (lambda t: t.replace_schema_metadata({**t.schema.metadata, "more": "x"}), "not those of a ledger"),
        (
            lambda t: t.replace_schema_metadata(
                {b"suite.ledger": t.schema.metadata[b"suite.ledger"].replace(b":1,", b":2,")}
            ),
            "newer than this program reads",
        ),
        (lambda t: t.replace_schema_metadata({b"suite.ledger": b'{"schema_version":1}'}), "metadata cannot be used"),
        (lambda t: t.replace_schema_metadata({b"suite.ledger": b"\xff"}), "metadata cannot be used"),
    ],
)
def test_a_table_of_another_shape_is_refused(path, change, told):
    rewrite(path, change)
    with pytest.raises(InvalidInput, match=told):
        read_ledger(path)


def test_empty_cells_are_refused(path):
    ledger = read_ledger(path)
    schema = arrow_schema(ledger.facts)
    loose = pa.schema([f.with_nullable(True) for f in schema], metadata=schema.metadata)
    rewrite(path, lambda t: t.cast(loose).set_column(0, loose[0], pa.array([None] * len(t), pa.int64())))
    with pytest.raises(InvalidInput, match="not those of a ledger"):
        read_ledger(path)


def test_garbage_is_refused(tmp_path):
    (tmp_path / "ledger.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(InvalidInput, match="not a readable Parquet file"):
        read_ledger(tmp_path / "ledger.parquet")


def test_every_flipped_byte_gives_another_ledger_or_a_clear_error(path):
    # Hash checks come first in a bundle; here only: no other exception escapes the reader.
    data = path.read_bytes()
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        with contextlib.suppress(InvalidInput):
            read_ledger(path)


def test_the_metadata_say_the_tie_rule_and_no_time(path):
    facts = LedgerFacts(
        tokens_sha256="a" * 64, num_tokens=9, vocab_size=4, path="decode", ref_dtype="float16", cand_dtype="float32"
    )
    text = arrow_schema(facts).metadata[b"suite.ledger"].decode()
    assert '"tie_rule":"lowest_id"' in text
    assert '"window_tokens":8000' in text
    assert np.frombuffer(path.read_bytes()[:4], dtype="S4")[0] == b"PAR1"
