"""Cards of many shapes: what is claimed, what is disclosed, what is missing, what contradicts what."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.card.document import parse_document, read_document
from suite.card.fields import FIELDS
from suite.card.lint import lint, lint_file
from suite.errors import InvalidInput
from tests.growth import assert_linear

CARDS = Path(__file__).parent / "cards"
ERRORS = {field.name for field in FIELDS if field.level == "error"}
NAMES = {field.name for field in FIELDS}


def of(name):
    return lint_file(CARDS / f"{name}.md")


def by_status(report, status):
    return {item.field.name for item in report.fields if item.status == status}


def codes(report, level=None):
    return {f.code for f in report.findings if f.code != "missing" and level in (None, f.level)}


def claims(report):
    return [(c.metric, c.statistic, c.value, c.n) for c in report.claims]


@pytest.mark.parametrize("name", ["complete-prose", "complete-table"])
def test_a_complete_card_has_no_error(name):
    report = of(name)
    assert report.num_errors == 0, report.findings
    assert by_status(report, "missing") <= {"sampler"}
    assert len(report.claims) >= 4


DISCLOSED = {
    "json-front-matter": {
        *("reference_revision", "reference_dtype", "candidate_revision", "kl_direction", "positions_n"),
        *(
            "positions_stride",
            "context_length",
            "aggregation",
            "attention_backend",
            "kv_cache_dtype",
            "tensor_parallel",
        ),
    },
    "yaml-model-index": {"reference_revision", "reference_dtype", "aggregation"},
    "toml-front-matter": {"positions_n", "reference_dtype", "aggregation"},
    "llama-output": {"reference_dtype", "context_length", "aggregation"},
    "german": {
        *("reference_revision", "reference_dtype", "positions_n", "positions_stride", "positions_spans"),
        *("context_length", "vocabulary", "vocabulary_truncation", "aggregation", "calibration"),
    },
    "french": {"reference_revision", "reference_dtype", "positions_n", "context_length", "aggregation"},
    "spanish": {"reference_dtype", "positions_n", "positions_stride", "vocabulary_truncation", "aggregation"},
    "chinese": {"reference_dtype", "positions_n", "positions_stride", "context_length", "aggregation"},
    "html-table": {"aggregation"},
    "requested-only": {"reference_dtype", "positions_n", "aggregation", "tensor_parallel"},
    "auto-and-tag": {"reference_dtype", "aggregation"},
    "launch-is-not-measure": {"reference_dtype", "positions_n", "aggregation"},
    "unknown": {"kl_direction", "aggregation"},
    "percent-without-n": {"reference_dtype"},
}


@pytest.mark.parametrize("name", sorted(DISCLOSED))
def test_what_a_card_discloses(name):
    report = of(name)
    found = by_status(report, "disclosed") | by_status(report, "contradictory")
    assert found & ERRORS == DISCLOSED[name] & ERRORS
    assert found >= DISCLOSED[name]
    # Whatever is not disclosed is said, with its level.
    missing = {f.field: f.level for f in report.findings if f.code == "missing"}
    assert missing.keys() == by_status(report, "missing")
    assert {level for field, level in missing.items() if field in ERRORS} <= {"error"}


CLAIMS = {
    "llama-output": [
        ("kl", "mean", 0.012345, None),
        ("kl", "max", 4.123456, None),
        ("kl", "quantile", 0.712345, None),
        ("kl", "quantile", 0.153456, None),
        ("kl", "median", 0.004567, None),
        ("top-1 agreement", "unstated", 93.12, None),
    ],
    "german": [
        ("kl", "mean", 0.0213, None),
        ("kl", "quantile", 0.41, None),
        ("kl", "max", 2.9, None),
        ("flips", "count", 156, 7114),
        ("flips", "unstated", 2.2, 7114),
    ],
    "french": [("kl", "mean", 0.0213, 7114)],
    "spanish": [("kl", "mean", 0.0213, 7114)],
    "chinese": [("kl", "mean", 0.0213, 7114)],
    "html-table": [
        ("kl", "mean", 0.0012, None),
        ("kl", "quantile", 0.024, None),
        ("kl", "mean", 0.0031, None),
        ("kl", "quantile", 0.044, None),
    ],
    "yaml-model-index": [("kl", "mean", 0.0345, None), ("top-1 agreement", "unstated", 95.31, None)],
    "json-front-matter": [("kl", "mean", 0.0112, None), ("kl", "quantile", 0.19, None), ("flips", "count", 81, None)],
    "percent-without-n": [("top-1 agreement", "unstated", 97.8, None), ("flips", "unstated", 2.2, None)],
}


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_what_a_card_claims(name):
    assert claims(of(name)) == CLAIMS[name]


CONTRADICTIONS = {
    "complete-prose": set(),
    "complete-table": set(),
    "percent-no-whole-count": {"no whole count"},
    "count-and-share": {"count and share"},
    "flips-and-agreement": {"flips and agreement"},
    "tails-out-of-order": {"order of statistics"},
    "two-factors": {"more than one factor"},
    "two-factor-table": {"more than one factor"},
    "mixed-bases": {"mixed bases"},
    "units": {"units"},
    "said-twice": {"said twice"},
    "both-directions": {"said twice"},
    "negative": {"negative", "over ln 2"},
    "grid": set(),
    "per-window": set(),
    "german": set(),
    "launch-is-not-measure": set(),
}


@pytest.mark.parametrize("name", sorted(CONTRADICTIONS))
def test_what_contradicts_what(name):
    assert codes(of(name), "error") == CONTRADICTIONS[name]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("llama-output", "reference not BF16"),
        ("calibration-overlap", "calibration overlaps"),
        ("french", "mean without tails"),
        ("percent-without-n", "percentage without n"),
        ("grid", "more than one factor"),
    ],
)
def test_warnings(name, code):
    assert code in codes(of(name), "warning")


@pytest.mark.parametrize(
    ("name", "field", "said"),
    [
        ("requested-only", "attention_backend", "only asks for FLASHINFER"),
        ("requested-only", "context_length", "only a limit, 32768"),
        ("auto-and-tag", "image_digest", "the tag vllm/vllm-openai:v0.25.1, which can move"),
        ("auto-and-tag", "kv_cache_dtype", "auto"),
        ("yaml-model-index", "text_hash", "without a hash"),
        ("p-and-q", "kl_direction", "without saying which is the reference"),
        ("unknown", "attention_backend", "not known"),
    ],
)
def test_what_does_not_count_is_said(name, field, said):
    missing = {f.field: f.message for f in of(name).findings if f.code == "missing"}
    assert said in missing[field]


def test_letters_that_are_explained_count():
    assert "kl_direction" in by_status(of("p-and-q-said"), "disclosed")


def test_a_card_without_a_claim_owes_nothing():
    report = of("no-claims")
    assert (report.claims, report.fields, report.findings) == ((), (), ())


def test_the_count_that_a_share_means_is_named():
    message = next(f.message for f in of("percent-no-whole-count").findings if f.code == "no whole count")
    assert message == "3.3 % of 250 is no whole number of positions: 8 are 3.20 %, 9 are 3.60 %"


@pytest.mark.parametrize("n", [250, 3512, 7114, 9060])
def test_a_share_of_any_whole_count_is_no_contradiction(n):
    for count in range(0, n, n // 25):
        text = f"# Card\n\nFlips: {count:,} of {n:,} ({100 * count / n:.2f} %) against the BF16 reference.\n"
        assert codes(lint(parse_document(text)), "error") == set(), text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing is in it"),
        ("---\na: [1\n---\nKL 0.1\n", "no YAML"),
        ("---\na: &x [1]\nb: *x\n---\nKL 0.1\n", "aliases"),
        ("+++\na = \n+++\n", "no TOML"),
        (";;;\n{\n;;;\n", "not JSON"),
        ("+++\na = 1\n", "never closed"),
    ],
)
def test_front_matter_that_cannot_be_read(text, said):
    with pytest.raises(InvalidInput, match=said):
        parse_document(text)


@pytest.mark.parametrize(
    ("data", "said"), [(b"\xff\xfe\x00", "not UTF-8"), (b"KL\0", "zero byte"), (b"x" * (1 << 20) + b"y", "larger than")]
)
def test_files_that_are_no_cards(tmp_path, data, said):
    (tmp_path / "card.md").write_bytes(data)
    with pytest.raises(InvalidInput, match=said):
        read_document(tmp_path / "card.md")


def test_an_absent_file(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_document(tmp_path / "none.md")


def test_lines_are_those_of_the_file():
    report = of("complete-table")
    lines = (CARDS / "complete-table.md").read_text(encoding="utf-8").splitlines()
    for item in report.fields:
        for found in item.found:
            words = found.statement.text.split()[0]
            assert words in lines[found.statement.line - 1], item.field.name


PIECES = st.sampled_from(
    [
        "KL",
        "KLD",
        " ",
        "0.01",
        "7,114",
        "|",
        "\n",
        "---",
        "n =",
        "%",
        "flips",
        "of",
        "BF16",
        "reference",
        "`",
        "<td>",
        "# ",
        "<table>",
        "sha256:",
        "a" * 64,
        "KL(ref||cand)",
        "TP 2",
        "every 32 tokens",
        "1e-3",
        "平均",
        "\u202e",
        "[x](y)",
    ]
)


@given(st.lists(PIECES, max_size=60).map(" ".join))
def test_no_text_breaks_the_lint(text):
    try:
        report = lint(parse_document(text))
    except InvalidInput:
        return
    assert {item.field.name for item in report.fields} in (set(), NAMES)
    assert all(f.line is None or 1 <= f.line <= text.count("\n") + 1 for f in report.findings)


@pytest.mark.parametrize("unit", ["KL ", "1 234 ", "|", "a_"])
@pytest.mark.parametrize("size", [3_000, pytest.param(15_000, marks=pytest.mark.soak)])
def test_long_lines_take_no_more_than_linear_work(unit, size):
    opening = {"1 234 ": "KL 0.1 ", "a_": "KL("}.get(unit, "")
    assert_linear(lambda length: lint(parse_document(opening + unit * (length // len(unit)))), size)
