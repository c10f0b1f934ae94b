import json
import re
from pathlib import Path

import pytest

from suite.errors import InvalidInput
from suite.files import pretty_json
from suite.site.published import Published, load_published
from suite.stack.gpus import find_gpu

FOLDER = Path(__file__).parent.parent.parent / "site" / "published"

PUBLICATION = {
    "schema_version": 1,
    "name": "a-post",
    "title": "A post",
    "author": "Someone",
    "date": "2026",
    "sources": [{"title": "it", "url": "https://github.com/a/b"}],
    "method": "counted",
    "caution": "one session",
    "tables": [
        {
            "gpu": "RTX 5090",
            "model": "Tiny-1B",
            "title": "weights",
            "population": "all",
            "columns": ["flips"],
            "rows": [{"stack": "FP8", "flips": 156, "n": 7114, "percent": 2.193, "origin": "exact from percent"}],
        }
    ],
}


def row(**changes):
    value = json.loads(json.dumps(PUBLICATION))
    value["tables"][0]["rows"][0] |= changes
    return value


def loaded(tmp_path, value):
    (tmp_path / "x.json").write_text(json.dumps(value))
    return load_published(tmp_path)


def test_every_published_figure_of_the_repository_has_a_source_and_a_known_gpu():
    published = load_published(FOLDER)
    tables = [table for one in published for table in one.tables]
    assert {table.gpu for table in tables} >= {"RTX 5090", "RTX PRO 6000 Blackwell", "H200 SXM", "B200 SXM"}
    assert all(find_gpu(table.gpu) is not None for table in tables)
    assert all(one.sources and one.caution for one in published)
    assert len({one.name for one in published}) == len(published)


def test_the_release_s_counts_are_sums_over_its_four_sessions():
    (release,) = [one for one in load_published(FOLDER) if one.name == "diverging-universes"]
    for table in release.tables:
        for figure in table.rows:
            parts = [int(count) for count in re.findall(r"sp\d\d (\d+)", figure.where)]
            assert (len(parts), sum(parts), figure.n) == (4, figure.flips, 9060)
            assert round(100 * figure.flips / figure.n, 3) == figure.percent


def test_the_schema_beside_the_figures_is_the_program_s():
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Published.model_json_schema()
    assert (FOLDER / "published.schema.json").read_bytes() == pretty_json(schema)


def test_a_count_must_be_the_only_one_that_gives_its_percentage(tmp_path):
    assert loaded(tmp_path, PUBLICATION)[0].tables[0].rows[0].flips == 156
    with pytest.raises(InvalidInput, match="is not 157 alone"):
        loaded(tmp_path, row(flips=157))
    with pytest.raises(InvalidInput, match="is not 156 alone"):
        loaded(tmp_path, row(percent=2.2))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (row(flips=8000), "8000 flips of 7114"),
        (row(origin="not given"), "a count without its origin"),
        (row(kl=0.1), "Extra inputs"),
        (PUBLICATION | {"sources": [{"title": "x", "url": "javascript:alert(1)"}]}, "no https address"),
        (PUBLICATION | {"sources": []}, "at least 1"),
        (PUBLICATION | {"schema_version": 2}, "newer than this program reads"),
    ],
)
def test_what_is_no_publication_is_refused(tmp_path, value, message):
    with pytest.raises(InvalidInput, match=message):
        loaded(tmp_path, value)


def test_a_guide_gets_its_own_tables_only():
    for one in load_published(FOLDER):
        for table in one.tables:
            mine = one.restricted(table.gpu, table.model).tables
            assert table in mine
            assert {(t.gpu, t.model) for t in mine} == {(table.gpu, table.model)}
