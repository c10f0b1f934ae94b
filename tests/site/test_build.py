import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from suite.bundle.read import open_bundle
from suite.compare.comparison import compare
from suite.compare.data import to_json
from suite.errors import InvalidInput
from suite.files import pretty_json
from suite.site.build import MARKER
from tests.compare.world import one_per_turn
from tests.site.branched import branched_bundle
from tests.site.world import GPU, GUIDE, MODEL, amended, built, make_hostile, sbom, table_of_bundles


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return table_of_bundles(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def site(world, tmp_path_factory):
    """A site that no test changes."""
    out = tmp_path_factory.mktemp("site") / "out"
    built(world.results, out)
    return out


@pytest.fixture
def copied(world, tmp_path):
    """A results folder of one's own."""
    return Path(shutil.copytree(world.results, tmp_path / "results"))


def page(out, path=GUIDE):
    return (out / path).read_text(encoding="utf-8")


def files(out):
    return {p.relative_to(out).as_posix(): p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}


def test_every_link_leads_to_a_file(site):
    missing = set()
    for html in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"]*)"', html.read_text(encoding="utf-8")):
            bare = target.split("#")[0].split("?")[0]
            if not bare.startswith("https://") and bare and not (html.parent / bare).resolve().is_file():
                missing.add((html.relative_to(site).as_posix(), target))
    assert missing == set()


def test_the_guide_says_what_compare_says(world, site):
    index = json.loads((site / "index.json").read_text())
    (table,) = [table for table in index["tables"] if table["model"] == "Tiny-1B"]
    theirs = to_json(compare([world.results]))
    assert [(row["bundle_id"], row["rank"]) for row in table["rows"]] == [
        (row["bundle"], row["rank"]) for row in theirs["rows"]
    ]
    for mine, row in zip(table["rows"], theirs["rows"], strict=True):
        assert mine["kernel_change"] == row["kernel_change"]["outcome"]
        assert mine["kernel_change_p"] == row["kernel_change"]["p_holm"]
    bundles = {bundle["bundle_id"]: bundle for bundle in index["bundles"]}
    for row in theirs["rows"]:
        mine = bundles[row["bundle"]]
        assert mine["flips"] == row["headlines"]["flips"]
        if row["intervals"]["flips"] is None:
            assert mine["flips_interval"] is None
        else:
            assert mine["flips_interval"] == pytest.approx(row["intervals"]["flips"], rel=1e-9)
            assert mine["kl_ref_cand_mean_interval"] == pytest.approx(row["intervals"]["kl_ref_cand_mean"], rel=1e-9)


def test_the_scope_stands_before_any_number(site):
    html = page(site)
    assert html.index("Must not be quoted for") < html.index("<table")
    assert "BF16 is a reference, not the truth" in html


def test_what_was_not_measured_is_said(site):
    html = page(site)
    assert "which tool calls survive (no turn was replayed)" in html
    assert "what became of the flips (none was followed)" in html


def test_nothing_is_ranked_that_nobody_reproduced(site):
    assert "No result here has been reproduced yet" in page(site, "leaderboard/index.html")
    assert "tiny-kv-fp8" not in page(site, "leaderboard/index.html")
    every = page(site, "leaderboard/all.html")
    assert "has been reproduced yet" not in every
    assert every.count('class="stack') == 4
    assert "self-reported" in every


def test_a_guide_says_whom_its_ranks_are_among(site):
    assert "Rows of every tier are ranked together here; the <a" in page(site)


def test_the_index_is_as_its_schema_says(site):
    schema = json.loads((site / "index.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((site / "index.json").read_text()), schema)


def test_the_feed_is_atom_and_newest_first(world, tmp_path):
    built(world.results, tmp_path / "out", base_url="https://example.org/site/")
    root = ET.parse(tmp_path / "out" / "feed.xml").getroot()
    atom = "{http://www.w3.org/2005/Atom}"
    assert root.tag == f"{atom}feed"
    entries = root.findall(f"{atom}entry")
    assert len(entries) == 4
    times = [entry.findtext(f"{atom}updated") for entry in entries]
    assert times == sorted(times, reverse=True)
    assert root.findtext(f"{atom}updated") == times[0]
    links = [entry.find(f"{atom}link").get("href") for entry in entries]
    assert all((tmp_path / "out" / link.removeprefix("https://example.org/site/")).is_file() for link in links)
    assert len({entry.findtext(f"{atom}id") for entry in entries}) == 4


def test_a_second_build_writes_nothing(copied, tmp_path):
    out = tmp_path / "out"
    first = built(copied, out)
    before = files(out)
    second = built(copied, out)
    assert first.num_written == first.num_files == second.num_files
    assert (second.num_written, second.num_removed) == (0, 0)
    assert files(out) == before


def test_one_more_bundle_changes_its_own_pages_and_the_lists(world, copied, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(world.root / "captures", tmp_path / "captures")
    world.bundle("tiny-later", one_per_turn(range(2)), kv_cache_dtype="fp8_e5m2", hardware=GPU, model=MODEL)
    added = world.results / "tiny-later"
    try:
        built(copied, out)
        before = files(out)
        shutil.copytree(added, copied / "tiny-later")
        report = built(copied, out)
    finally:
        shutil.rmtree(added)
    after = files(out)
    written = {path for path, time in after.items() if before.get(path) != time}
    assert len(written) == report.num_written
    assert {GUIDE, "index.json", "feed.xml", "results.csv", "results/index.html", "leaderboard/all.html"} <= written
    assert any(path.startswith("results/tiny-later/") for path in written)
    assert not any(path.startswith("assets/") or path == "method.html" for path in written)
    assert not any(path.startswith("results/tiny-chunk-512/") and path.endswith(".parquet") for path in written)


def test_a_bundle_that_is_gone_leaves_no_page(copied, tmp_path):
    out = tmp_path / "out"
    built(copied, out)
    shutil.rmtree(copied / "tiny-kv-fp16")
    report = built(copied, out)
    assert report.num_removed > 3
    assert not (out / "results" / "tiny-kv-fp16").exists()
    assert "tiny-kv-fp16" not in (out / "index.json").read_text()


def test_the_same_site_from_one_process_and_from_two(world, copied, tmp_path, monkeypatch):
    monkeypatch.setattr("suite.site.workers._FEW_FILES", 0)
    monkeypatch.setattr("suite.site.workers._FEW_BUNDLES", 0)
    built(copied, tmp_path / "one")
    built(copied, tmp_path / "two", workers=2)
    one, two = tmp_path / "one", tmp_path / "two"
    assert files(one).keys() == files(two).keys()
    differing = [path for path in files(one) if (one / path).read_bytes() != (two / path).read_bytes()]
    assert differing == []


def test_the_latest_of_a_name_stands_in_the_table_and_the_earlier_one_keeps_its_page(world, copied, tmp_path):
    again = world.bundle("tiny-kv-fp16", (1,), kv_cache_dtype="float16", hardware=GPU, model=MODEL)
    shutil.move(again, copied / "tiny-kv-fp16" / again.name)
    built(copied, tmp_path / "out")
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    mine = [bundle for bundle in index["bundles"] if bundle["bundle_id"].startswith("tiny-kv-fp16/")]
    assert sorted(bundle["latest"] for bundle in mine) == [False, True]
    rows = [row["bundle_id"] for table in index["tables"] for row in table["rows"]]
    assert [bundle["bundle_id"] in rows for bundle in mine] == [bundle["latest"] for bundle in mine]
    older = next(bundle for bundle in mine if not bundle["latest"])
    assert "A later result has this name" in page(tmp_path / "out", older["page"])


def test_what_is_not_what_it_says_is_left_out_with_the_reason(copied, tmp_path):
    (folder,) = (copied / "tiny-kv-fp8").iterdir()
    ledger = folder / "ledger.parquet"
    ledger.write_bytes(ledger.read_bytes()[:-1] + b"\x00")
    (other,) = (copied / "tiny-kv-int8").iterdir()
    (other / "bundle.json").write_text("{")
    (third,) = (copied / "tiny-kv-fp16").iterdir()
    (third / "lock.json").write_bytes((third / "reference-lock.json").read_bytes())
    report = built(copied, tmp_path / "out")
    refused = {one.place.partition("/")[0]: one.reason for one in report.refused}
    assert refused.keys() == {"tiny-kv-fp8", "tiny-kv-int8", "tiny-kv-fp16"}
    assert "not the file that the bundle names" in refused["tiny-kv-fp8"]
    assert report.num_bundles == 1
    html = page(tmp_path / "out", "results/index.html")
    assert "Not shown" in html
    assert not re.search(r'href="[^"]*tiny-kv-fp8', html)


def test_forks_that_cannot_be_read_are_told_and_the_rest_stays(copied, tmp_path):
    folder = branched_bundle(copied, num_probes=400, num_flips=100)
    amended(folder, branches_json=pretty_json({"schema_version": 1, "forks": "many"}))
    report = built(copied, tmp_path / "out")
    assert [one.place for one in report.refused] == [f"branched/{folder.name}"]
    assert "branches.json" in report.refused[0].reason
    assert report.num_bundles == 4
    assert f"branched/{folder.name}" in page(tmp_path / "out", "results/index.html")


def test_a_file_that_is_not_the_bundle_s_is_not_offered(copied, tmp_path):
    (folder,) = (copied / "tiny-kv-fp8").iterdir()
    amended(folder, sbom_cdx_json=sbom(("a", "1")))
    (folder / "sbom.cdx.json").write_bytes(sbom(("a", "2")))
    report = built(copied, tmp_path / "out")
    assert [one.place.endswith("sbom.cdx.json") for one in report.refused] == [True]
    assert not list((tmp_path / "out").rglob("sbom.cdx.json"))


def test_links_out_of_the_results_are_not_followed(copied, tmp_path):
    (folder,) = (copied / "tiny-kv-fp8").iterdir()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (folder / "engine.log").unlink()
    (folder / "engine.log").symlink_to(secret)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(copied / "tiny-kv-int8", elsewhere)
    (copied / "tiny-kv-int8").symlink_to(elsewhere)
    report = built(copied, tmp_path / "out")
    assert report.num_bundles == 2
    assert not any(path.read_bytes() == b"secret" for path in (tmp_path / "out").rglob("*") if path.is_file())


def test_a_folder_of_other_things_is_not_written_to(world, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("all I have")
    with pytest.raises(InvalidInput, match="no build of a site wrote"):
        built(world.results, mine)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
    with pytest.raises(InvalidInput, match="no such folder"):
        built(tmp_path / "nowhere", tmp_path / "out")


def test_the_folder_holds_no_path_of_this_machine(world, site):
    assert (site / MARKER).exists()
    for path in site.rglob("*"):
        if path.is_file():
            assert str(world.root).encode() not in path.read_bytes(), path


def test_sboms_are_shared_and_compared(copied, tmp_path):
    documents = [sbom(("torch", "2.1")), sbom(("torch", "2.2"), ("numpy", "2")), sbom(("torch", "2.1"))]
    names = ("tiny-kv-fp8", "tiny-kv-int8", "tiny-kv-fp16")
    for name, document in zip(names, documents, strict=True):
        (folder,) = (copied / name).iterdir()
        amended(folder, sbom_cdx_json=document)
    built(copied, tmp_path / "out")
    folders = sorted(path for path in (tmp_path / "out" / "sbom").iterdir())
    assert len(folders) == 2
    diffs = [path.read_text() for folder in folders for path in folder.glob("from-*.html")]
    assert len(diffs) == 2
    assert all("2 packages differ (1 " in html for html in diffs)
    (folder,) = (copied / "tiny-kv-fp8").iterdir()
    assert "Every component of the stack" in page(tmp_path / "out", f"results/tiny-kv-fp8/{folder.name}/index.html")


def test_hostile_strings_stay_text(copied, tmp_path):
    (folder,) = (copied / "tiny-kv-fp8").iterdir()
    make_hostile(folder)
    report = built(copied, tmp_path / "out")
    assert report.refused == ()
    for path in (tmp_path / "out").rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        assert "<script>document" not in html
        assert "<img" not in html
        assert 'href="javascript:' not in html
        assert "\u202e" not in html
        assert "x" * 5_000 not in html.replace("\n", "") or path.parent.parent.name == "tiny-kv-fp8"
        assert html.count("</main>") == 1
    shown = page(tmp_path / "out", f"results/tiny-kv-fp8/{folder.name}/index.html")
    assert "&lt;script&gt;document" in shown
    assert "[U+202E]gnp.exe" in shown
    assert re.search(r"x… \(1\d,\d{3} characters\)", shown)
    table = (tmp_path / "out" / "results.csv").read_text()
    assert "\u202e" not in table


def test_a_spreadsheet_gets_no_formula():
    from suite.site.feeds import _cell

    assert _cell('=HYPERLINK("http://evil")').startswith("'=")
    assert _cell("@SUM(1)") == "'@SUM(1)"
    assert (_cell("plain"), _cell(3), _cell(None), _cell("-1")) == ("plain", 3, "", "'-1")


def test_a_guide_is_light(site):
    assert (site / GUIDE).stat().st_size < 300_000


def test_bundles_of_the_repository_make_a_site(tmp_path):
    """Every published bundle has a page, and the guide the verdict that its tests allow."""
    root = Path(__file__).parent.parent.parent
    chosen = tmp_path / "results"
    for name in (
        "h200-smollm2-decode-flashinfer",
        "h200-smollm2-decode-flash-attn-3",
        "h200-smollm2-decode-kv-fp8-e4m3",
    ):
        shutil.copytree(root / "results" / name, chosen / name)
    report = built(chosen, tmp_path / "out", manifests=root / "manifests")
    assert (report.num_bundles, report.refused) == (3, ())
    html = page(tmp_path / "out", "guides/h200-sxm/smollm2-135m-instruct.html")
    assert "Every candidate flips more than a change of kernel does" in html
    assert "48 of 1,418" in html
    assert "FLASH_ATTN 3" in html
    (folder,) = (chosen / "h200-smollm2-decode-kv-fp8-e4m3").iterdir()
    shown = page(tmp_path / "out", f"results/{folder.parent.name}/{folder.name}/index.html")
    assert "suite run manifests/h200-smollm2/decode-kv-fp8-e4m3.yaml" in shown
    assert open_bundle(folder).record.lock_digest in shown
    for gpu in ("rtx-5090", "rtx-pro-6000-blackwell", "b200-sxm", "h200-sxm"):
        pages = list((tmp_path / "out" / "guides" / gpu).glob("*.html"))
        assert any("Published elsewhere, not reproduced here" in p.read_text(encoding="utf-8") for p in pages), gpu
