"""The block that a card carries: its figures are the ledger's, and it answers every field of the project's own lint."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from suite.bundle.read import open_bundle
from suite.card.badge import badge_svg
from suite.card.block import card_block
from suite.card.document import parse_document
from suite.card.fields import FIELDS
from suite.card.lint import lint
from suite.card.markdown import escaped
from suite.card.method import method_of
from suite.errors import InvalidInput, VerificationFailed

RESULTS = Path(__file__).parents[2] / "results"
SOME = ("h200-smollm2-kv-fp8-e4m3", "h200-smollm2-decode-flashinfer", "h200-smollm2-w4a16-g64")


def bundle(name):
    return open_bundle(next((RESULTS / name).iterdir()))


@pytest.mark.parametrize("name", ["receipt.json", "reference-receipt.json", "reference-lock.json", "repeats.json"])
def test_a_block_rests_on_no_changed_file(name, tmp_path):
    source = bundle(SOME[0]).folder
    folder = Path(shutil.copytree(source, tmp_path / source.name))
    (folder / name).write_text("{}")
    with pytest.raises(VerificationFailed, match=f"{name}: not the file that the record names"):
        card_block(open_bundle(folder))


@pytest.mark.parametrize("name", SOME)
def test_a_block_passes_the_lint(name):
    report = lint(parse_document(card_block(bundle(name), site="https://example.org/x")))
    assert [f.message for f in report.findings if f.level == "error"] == []
    assert {item.field.name for item in report.fields if item.status == "missing"} == set()
    assert {f.code for f in report.findings} <= {"no image"}


@pytest.mark.parametrize("name", SOME)
def test_a_block_says_what_the_record_says(name):
    opened = bundle(name)
    h = opened.record.headlines
    text = card_block(opened)
    assert f"| flips | {h.flips:,} of {h.n:,} " in text
    assert f"{h.flips_confident:,} of {h.n:,}" in text
    assert f"{h.kl_ref_cand.mean:.4g} nats" in text
    assert opened.record.record_sha256 in text
    assert opened.bundle_id in text
    assert re.search(r"\| flips \|[^|]*\| [\d,]+ to [\d,]+ \|", text)
    claimed = [(c.value, c.n) for c in lint(parse_document(text)).claims if c.statistic == "count"]
    assert (h.flips, h.n) in claimed
    assert (h.flips_tied, h.n) in claimed


def test_the_method_answers_every_field_in_order():
    assert [row.field for row in method_of(bundle(SOME[0]))] == [field.name for field in FIELDS]


def test_the_link_leads_to_the_page_of_the_result():
    opened = bundle(SOME[0])
    assert f"](https://example.org/s/results/{opened.bundle_id}/index.html)" in card_block(
        opened, site="https://example.org/s/"
    )
    assert "](" not in card_block(opened)


@pytest.mark.parametrize(
    "site", ["javascript:alert(1)", "http://example.org", "https://a b", "https://x/)(", "https://x\n"]
)
def test_an_address_that_cannot_stand_in_a_card(site):
    with pytest.raises(InvalidInput, match="https address"):
        card_block(bundle(SOME[0]), site=site)


def test_a_badge_shows_counts_and_is_plain_svg():
    record = bundle(SOME[0]).record
    root = ElementTree.fromstring(badge_svg(record))
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert (
        texts[1]
        == f"{record.headlines.flips:,} of {record.headlines.n:,}, {record.headlines.flips_confident} confident"
    )
    assert not re.search(rb"script|href|url\(|<image|@import", badge_svg(record))
    assert badge_svg(record) == badge_svg(record)


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "a|b",
        "`x`",
        "![i](http://x)",
        "a\u202eb",
        "https://evil.example",
        "*b*",
    ],
)
def test_text_from_a_bundle_stays_text(hostile):
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(f"| a |\n|---|\n| {escaped(hostile)} |\n")
    assert not re.search(r"<(script|a|img|em|strong|code)\b", html)
    assert html.count("<td>") == 1


def test_a_stack_in_an_image_that_was_built_is_told_as_one(tmp_path):
    source = bundle(SOME[0]).folder
    folder = Path(shutil.copytree(source, tmp_path / source.name))
    lock = json.loads((folder / "lock.json").read_text())
    build = {"recipe": "vllm-cuda", "recipe_sha256": "1" * 64, "base": f"sha256:{'b' * 64}"}
    lock["runtime"] |= {"kind": "docker", "image": {"build": build, "config_digest": f"sha256:{'c' * 64}"}}
    (folder / "lock.json").write_text(json.dumps(lock))
    (told,) = [row.value for row in method_of(open_bundle(folder)) if "image" in row.value]
    assert told == f"container image sha256:{'c' * 64}, built from the recipe vllm-cuda (sha256 {'1' * 64})"
