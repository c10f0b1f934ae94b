"""Submissions, tiers, corrections, withdrawals and private results on the pages and in the feeds."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET

import jsonschema
import pytest

from suite.results.load import load_results
from suite.site.data import Site
from suite.site.launches import ManifestFacts
from suite.site.standing import PrivateFacts, Standing
from tests.site.community import community
from tests.site.test_browser import OF_SIZE_AND_COLOUR
from tests.site.world import GUIDE, built


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return community(tmp_path_factory.mktemp("community"))


@pytest.fixture(scope="module")
def site(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "out"
    report = built(folder.results, out)
    assert report.refused == ()
    return out


def page(site, path):
    return (site / path).read_text(encoding="utf-8")


def page_of(site, bundle_id):
    return page(site, f"results/{bundle_id}/index.html")


def index_of(site):
    return json.loads(page(site, "index.json"))


def test_tiers_signers_and_withdrawals_are_those_of_the_results_folder(folder, site):
    index = index_of(site)
    jsonschema.validate(index, json.loads(page(site, "index.schema.json")))
    theirs = {one.bundle_id: one for one in load_results(folder.results).results}
    mine = {one["bundle_id"]: one for one in (*index["bundles"], *index["private"])}
    assert mine.keys() == theirs.keys()
    for bundle_id, one in theirs.items():
        told = mine[bundle_id]
        assert (told["tier"], tuple(told["signers"]), told["withdrawn"]) == (one.tier, one.signers, one.is_withdrawn)
        assert [(n["kind"], n["why"]) for n in told["notices"]] == [(n.kind, n.why) for n in one.notices]
    assert {mine[b.bundle_id]["tier"] for b in (folder.reproduced, folder.consistent)} == {"reproduced", "consistent"}
    assert mine[folder.namesake.bundle_id]["tier"] == "self-reported"  # attested by its author alone


def test_ranks_are_of_reproduced_rows_and_the_others_are_one_click_away(folder, site):
    first = page(site, "leaderboard/index.html")
    assert first.count('<tr class="stack') == 1
    assert folder.reproduced.bundle_id in first
    assert 'href="all.html"' in first
    every = page(site, "leaderboard/all.html")
    assert every.count('<tr class="stack') == 7  # four, three submitted, of which one is withdrawn
    (table,) = [table for table in index_of(site)["tables"] if table["model"] == "Tiny-1B"]
    ranks = {row["bundle_id"]: row["rank_reproduced"] for row in table["rows"]}
    # One reproduced row alone has nothing to be ranked against; no other row has a place among reproduced ones.
    assert set(ranks.values()) == {None}
    assert len(ranks) == 6


def test_a_withdrawn_row_is_never_ranked_and_says_why(folder, site):
    gone = folder.withdrawn.bundle_id
    assert index_of(site)["withdrawn"] == [gone]
    assert all(row["bundle_id"] != gone for table in index_of(site)["tables"] for row in table["rows"])
    row = re.search(r'<tr class="stack withdrawn".*?</tr>', page(site, "leaderboard/all.html"), re.DOTALL)[0]
    assert "<s>tiny-kv-fp8</s>" in row
    assert "the driver was another one" in row
    html = page_of(site, gone)
    assert "This result was withdrawn" in html
    assert f">{folder.corrected.bundle_id}</a>" in html
    assert "the driver was another one" in page(site, GUIDE)
    assert 'id="command' in page(site, GUIDE)


def test_corrections_and_attestations_stand_on_the_page(folder, site):
    html = page_of(site, folder.corrected.bundle_id)
    assert re.search(r"Corrected</strong> <time[^>]*>2026-04-01</time>: its card was named wrongly", html)
    html = page_of(site, folder.reproduced.bundle_id)
    assert folder.repository.key("author").key_id in html
    assert folder.repository.key("lab").key_id in html
    assert "identical: 11 of 11 rows bit for bit" in html
    assert "the reproducer’s own result" in html
    (name,) = [path.name for path in (site / "attestations").glob("reproduced-*.json")]
    source = folder.results / "attestations" / name.removesuffix(".json") / "attestation.json"
    assert (site / "attestations" / name).read_bytes() == source.read_bytes()
    assert "Lifts no tier" in page_of(site, folder.namesake.bundle_id)


def test_the_feed_tells_of_corrections_and_withdrawals(folder, site):
    atom = "{http://www.w3.org/2005/Atom}"
    entries = ET.parse(site / "feed.xml").getroot().findall(f"{atom}entry")
    titles = [entry.findtext(f"{atom}title") for entry in entries]
    assert titles[:2] == ["Corrected: tiny-kv-int8", "Withdrawn: tiny-kv-fp8"]
    assert any("private session" in title for title in titles)
    assert len({entry.findtext(f"{atom}id") for entry in entries}) == len(entries) == 10
    assert len([line for line in page(site, "results.csv").splitlines() if line.endswith("Z")]) == 1


def test_a_stranger_s_namesake_takes_nobody_s_place(folder, site):
    bundles = {one["bundle_id"]: one for one in index_of(site)["bundles"]}
    same = [one for name, one in bundles.items() if name.startswith("tiny-kv-fp16/")]
    assert [one["latest"] for one in same] == [True, True]
    assert "suite run manifest.yaml" in page_of(site, folder.namesake.bundle_id)


def test_a_private_result_shows_counts_and_is_marked(folder, site):
    html = page_of(site, folder.private)
    assert "private session" in html
    assert "4 of 191 probes" in html
    assert "ledger" not in html
    for path in ("leaderboard/all.html", "results/index.html"):
        assert "From private sessions" in page(site, path), path


@pytest.mark.parametrize(
    ("device", "gpu"),
    [("NVIDIA H200", "H200 SXM"), ("NVIDIA GeForce RTX 5090", "RTX 5090"), ("NVIDIA L40S", "L40S"), ("cpu", "cpu")],
)
def test_a_private_result_stands_in_the_guide_of_its_gpu(device, gpu):
    one = PrivateFacts(
        bundle_id="a/b", record_sha256="0" * 64, created="2026-01-01T00:00:00Z", name="a", model="M", weights="bf16",
        engine="1", image="", device=device, reference="r", path="prefill", factors=(), causal_claim=False, n=1,
        num_turns=1, flips=0, flips_tied=0, flips_uncertain=0, flips_leaning=0, flips_confident=0, kl_mean=0.0,
        floor=(), turns=(), standing=Standing(origin="private"),
    )  # fmt: skip
    manifest = ManifestFacts.model_construct(gpu=gpu, model="M")
    site = Site(bundles=(), cohorts=(), refused=(), published=(), private=(one,), manifests=(manifest,))
    assert [guide.private for guide in site.guides] == [(one,)]


def test_what_does_not_hold_is_left_out_and_the_rest_stays(folder, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(folder.results, results)
    note = next(results.glob("submissions/tiny-e5m2-????????????/submission.json"))
    note.write_bytes(note.read_bytes().replace(b"alert", b"Alert"))
    check = next(results.glob("attestations/consistent-*/attestation.json"))
    check.write_bytes(check.read_bytes().replace(b"2026-03", b"2026-02"))
    (results / "notices" / "x.json").write_text("{}")
    log = next(results.glob("tiny-chunk-512/*/engine.log"))
    log.write_bytes(log.read_bytes() + b"more")
    (next(results.glob("tiny-kv-int8/2*")) / "notes.html").write_text("<script>")
    report = built(results, tmp_path / "out")
    refused = {one.place.partition("/")[0]: one.reason for one in report.refused}
    assert refused.keys() == {"submissions", "attestations", "notices", "tiny-chunk-512", "tiny-kv-int8"}
    assert "a file that may not be there" in refused["tiny-kv-int8"]
    assert "No result here has been reproduced yet" in page(tmp_path / "out", "leaderboard/index.html")
    assert "Not shown" in page(tmp_path / "out", "results/index.html")


def test_a_notice_changes_the_pages_and_nothing_is_done_twice(folder, tmp_path):
    results, out = tmp_path / "results", tmp_path / "out"
    shutil.copytree(folder.results, results)
    built(results, out)
    assert built(results, out).num_written == 0
    (notice,) = [path for path in (results / "notices").iterdir() if "withdrawal" in path.read_text()]
    notice.unlink()
    assert built(results, out).num_written > 0
    assert index_of(out)["withdrawn"] == []
    assert "withdrawn" not in page_of(out, folder.withdrawn.bundle_id)


@pytest.mark.browser
def test_strangers_words_stay_text_and_tiers_are_filtered(open_page, folder, site):
    watched = open_page(site / "leaderboard" / "index.html", home=site)
    watched.page.get_by_role("link", name="Show every tier").click()
    rows = watched.page.locator("tr.stack:not([hidden])")
    assert rows.count() == 7
    watched.page.locator("[data-filter='tier']").select_option("reproduced")
    assert rows.count() == 1
    assert watched.axe() == []
    for bundle_id in (folder.reproduced.bundle_id, folder.withdrawn.bundle_id, folder.private):
        one = open_page(site / "results" / bundle_id / "index.html", home=site, size="phone", dark=True)
        assert one.axe(*OF_SIZE_AND_COLOUR) == [], bundle_id
        assert one.overflow() == 0, bundle_id
        assert one.page.title() != "owned"
        assert "<script>document.title" in one.page.locator("main").inner_text()
        assert one.page.locator("main img, main script").count() == 0
