import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suite.bundle.schema import seal
from suite.compare.entries import load_entries
from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_bytes
from tests.compare.world import CompareWorld, one_per_turn


def names(found):
    return [entry.label for entry in found.entries]


def test_a_results_folder_gives_the_latest_bundle_of_each_name(world):
    old = world.bundle("a", one_per_turn([1]))
    world.bundle("a", one_per_turn([1, 2]))
    world.bundle("b", kv_cache_dtype="float16")
    found = load_entries([world.results])
    assert names(found) == ["a", "b"]
    assert found.entries[0].headlines.flips == 2
    assert found.passed_over == (f"a/{old.name}: a later bundle of that name is there",)


def test_bundles_named_one_by_one_are_all_kept_and_told_apart(world):
    old, new = world.bundle("a", one_per_turn([1])), world.bundle("a", one_per_turn([1, 2]))
    assert names(load_entries([old, new, old])) == ["a 2026-03-04T00:01:00Z", "a 2026-03-04T00:02:00Z"]


def test_what_cannot_be_read_below_a_folder_is_passed_over_and_refused_when_named(world):
    world.bundle("a")
    broken = world.bundle("b", kv_cache_dtype="float16")
    (broken / "bundle.json").write_text("{}")
    found = load_entries([world.results])
    assert names(found) == ["a"]
    assert found.passed_over[0].startswith(f"b/{broken.name}: ")
    with pytest.raises(InvalidInput):
        load_entries([broken])


def test_a_folder_without_bundles_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="neither a bundle nor a folder of results"):
        load_entries([tmp_path])


def test_another_ledger_under_the_same_name_is_refused(world):
    first, second = world.bundle("a", one_per_turn([1])), world.bundle("b", kv_cache_dtype="float16")
    shutil.copy(second / "ledger.parquet", first / "ledger.parquet")
    with pytest.raises(VerificationFailed, match="not the file that the bundle names"):
        load_entries([first])


def test_headlines_that_do_not_follow_from_the_ledger_are_refused(world):
    folder = world.bundle("a", one_per_turn([1, 2]))
    record = json.loads((folder / "bundle.json").read_text())
    del record["record_sha256"]
    record["headlines"]["flips"] = 1
    (folder / "bundle.json").write_bytes(seal(record))
    with pytest.raises(VerificationFailed, match="does not give the bundle's headlines"):
        load_entries([folder])
    assert record["files"]["ledger.parquet"] == sha256_bytes((folder / "ledger.parquet").read_bytes())


@pytest.mark.parametrize(
    ("column", "value"), [("kl_ref_cand", float("nan")), ("nll_ref", float("inf")), ("kl_ref_cand", -1.0)]
)
def test_a_sealed_ledger_with_impossible_numbers_is_refused(world, column, value):
    folder = world.bundle("a", one_per_turn([1, 2]))
    table = pq.read_table(folder / "ledger.parquet")
    place = table.schema.get_field_index(column)
    values = [value, *table.column(place).to_pylist()[1:]]
    field = table.schema.field(place)
    pq.write_table(table.set_column(place, field, pa.array(values, type=field.type)), folder / "ledger.parquet")
    record = json.loads((folder / "bundle.json").read_text())
    del record["record_sha256"]
    record["files"]["ledger.parquet"] = sha256_bytes((folder / "ledger.parquet").read_bytes())
    (folder / "bundle.json").write_bytes(seal(record))
    with pytest.raises(VerificationFailed, match=column):
        load_entries([folder])


def test_bundles_of_two_references_never_share_a_table(world):
    a = world.bundle("a")
    other = world.rows() + np.float32(0.5) * np.arange(6, dtype=np.float32)
    moved = CompareWorld(root=world.root / "other", turns=world.turns)
    b = moved.bundle("b", kv_cache_dtype="float16", reference=other)
    with pytest.raises(InvalidInput, match="b differs from a in reference rows") as error:
        load_entries([a, b])
    assert str(error.value).endswith(":\n  - a\n  - b")


def test_prefill_and_decode_never_share_a_table(world):
    a = world.bundle("a")
    decode = CompareWorld(root=world.root / "decode", turns=world.turns, path="decode")
    b = decode.bundle("b", kv_cache_dtype="float16")
    with pytest.raises(InvalidInput, match=r"path \(prefill and decode\)"):
        load_entries([a, b])


def test_another_session_is_named_by_its_tokens(world):
    a = world.bundle("a")
    b = CompareWorld(root=world.root / "long", turns=30).bundle("b")
    with pytest.raises(InvalidInput, match=r"tokens_sha256 .* num_tokens \(192 and 240\), positions"):
        load_entries([a, b])
