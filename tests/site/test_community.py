"""Submissions, tiers, corrections, withdrawals and private results on the pages and in the feeds."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace

import jsonschema
import pytest

from suite.bundle.read import open_bundle
from suite.results.load import load_results
from suite.signing import sign_folder
from suite.site.data import BundleFacts, Guide, Site
from suite.site.guides import commands_of
from suite.site.launches import CommandFacts, ManifestFacts
from suite.site.standing import NoticeFacts, PrivateFacts, Standing
from tests.compare.world import CompareWorld, one_per_turn
from tests.results.repository import Repository, reproduced
from tests.site.community import community
from tests.site.test_browser import OF_SIZE_AND_COLOUR
from tests.site.world import GPU, GUIDE, HOSTILE, MODEL, built, table_of_bundles


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


def test_a_trusted_key_is_shown_with_its_name_and_names_stay_text(folder, site, tmp_path):
    lab, author = (folder.repository.key(name).key_id for name in ("lab", "author"))
    html = page_of(site, folder.reproduced.bundle_id)
    assert re.search(rf"{re.escape(lab)}</code> lab\b", html)
    # A key that nobody listed has no name.
    assert re.search(rf"{re.escape(author)}</code></td>", page_of(site, folder.namesake.bundle_id))
    results = tmp_path / "results"
    shutil.copytree(folder.results, results)
    trusted = json.loads((results / "trusted-keys.json").read_bytes())
    trusted["keys"][0]["name"] = f"{HOSTILE[1]} {HOSTILE[4]}"
    (results / "trusted-keys.json").write_text(json.dumps(trusted))
    built(results, tmp_path / "out")
    html = page_of(tmp_path / "out", folder.reproduced.bundle_id)
    assert f"{lab}</code> &lt;img src=x onerror=" in html
    assert "{{ 7 * 7 }}" in html
    assert "<img" not in html


def test_rows_that_were_reproduced_are_ranked_among_each_other(tmp_path):
    world = table_of_bundles(tmp_path)
    repository = Repository(root=tmp_path)
    repository.trust("lab")
    for name in ("tiny-kv-int8", "tiny-kv-fp8"):
        bundle = open_bundle(next((world.results / name).iterdir()))
        sign_folder(bundle.folder, repository.key("maintainer"), kind="result")
        repository.attest(bundle, by="lab", kind="reproduced", detail=reproduced())
    built(world.results, tmp_path / "out")
    (table,) = [table for table in index_of(tmp_path / "out")["tables"] if table["model"] == "Tiny-1B"]
    ranks = {row["bundle_id"].partition("/")[0]: (row["rank"], row["rank_reproduced"]) for row in table["rows"]}
    assert ranks["tiny-kv-int8"][1] == 1
    assert ranks["tiny-kv-fp8"] == (4, 2)
    assert {ranks[name][1] for name in ("tiny-chunk-512", "tiny-kv-fp16")} == {None}
    shown = re.findall(r'<td class="num rank" data-v="(\d*)">', page(tmp_path / "out", "leaderboard/index.html"))
    assert shown == ["1", "2"]


def test_a_guide_whose_only_result_was_withdrawn_says_so(tmp_path):
    world = CompareWorld(root=tmp_path)
    repository = Repository(root=tmp_path)
    bundle = open_bundle(world.bundle("lone", one_per_turn(range(3)), hardware=GPU, model=MODEL))
    built(world.results, tmp_path / "before")
    assert re.search(
        r'tiny-1b.html">Tiny-1B</a></td>\s*<td class="num">1 result</td>', page(tmp_path / "before", "index.html")
    )
    repository.notice(bundle, kind="withdrawal")
    out = tmp_path / "out"
    built(world.results, out)
    guide = page(out, GUIDE)
    assert (
        'The one result that was measured here with this model on RTX 5090 <a href="#withdrawn">was withdrawn</a>.'
        in guide
    )
    assert '<section id="withdrawn">' in guide
    assert "Nothing was measured here" not in guide
    assert not re.search(r"\.\s*\.", re.sub(r"<[^>]+>", "", guide))
    first = page(out, "index.html")
    assert re.search(
        r'tiny-1b.html">Tiny-1B</a></td>\s*<td class="num"><span class="soft">1 withdrawn</span></td>', first
    )
    assert "1 result<" not in first
    assert "None stands." in first
    every = page(out, "leaderboard/all.html")
    assert "reproduced yet" not in every
    assert "has what was withdrawn" in every
    assert "No result here has been reproduced yet" in page(out, "leaderboard/index.html")


def test_the_first_page_counts_withdrawn_results_apart(site):
    first = page(site, "index.html")
    assert re.search(r'Tiny-1B</a></td>\s*<td class="num">6 results, <span class="soft">1 withdrawn</span>', first)
    assert "All 6 results, and 1 withdrawn" in first


def test_a_command_whose_result_was_withdrawn_says_so():
    command = CommandFacts.model_construct(weights="bf16", backend="TRITON_ATTN", kv_cache_dtype="auto")
    pinned = [
        ManifestFacts.model_construct(
            name=name, role="candidate", command=command.model_copy(update={"kv_cache_dtype": name})
        )
        for name in ("gone", "new")
    ]
    notice = NoticeFacts(kind="withdrawal", created="2026-01-01T00:00:00Z", why="x", replaced_by="")
    bundle = BundleFacts.model_construct(name="gone", latest=False, standing=Standing(notices=(notice,)))
    guide = Guide(gpu="G", model="M", cohorts=(), bundles=(bundle,), manifests=tuple(pinned), published=())
    assert {one.label: one.is_withdrawn for one in commands_of(guide)} == {"gone": True, "new": False}
    later = BundleFacts.model_construct(name="gone", latest=True, standing=Standing())
    assert replace(guide, bundles=(bundle, later)).withdrawn_stacks == frozenset()


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
