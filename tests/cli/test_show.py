import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from suite.bundle.schema import BandMember
from suite.bundle.show import shown
from suite.bundle.write import write_bundle
from suite.cli.show import show
from suite.errors import InvalidInput
from tests.bundle.world import World


@pytest.fixture
def folder(tmp_path):
    world = World(root=tmp_path)
    member = BandMember(
        name="chunk-512",
        bundle="chunk-512/20260304T050607Z-abcdefabcdef",
        flips=3,
        flips_tied=2,
        flips_uncertain=1,
        flips_leaning=0,
        flips_confident=0,
        n=11,
    )
    return write_bundle(replace(world.parts(), band=(member,)), results=world.results)


def run(*arguments):
    return CliRunner().invoke(show, [str(argument) for argument in arguments], catch_exceptions=False)


def test_one_screen_says_scope_counts_floor_band_and_factor(folder):
    text = run(folder).output
    for line in (
        "11 probes of one recorded session, prefill path",
        "must not be quoted for other workloads",
        "one factor varies: kv_cache_dtype",
        "flips                   2 of 11 (18.2 %)",
        "- confident (p >= 0.9)  1 of 11 (9.1 %)",
        "repeat floor            0, 0 flips, all rows identical (of 3 starts, n = 11)",
        "numerical band          3 to 3 flips of 11 (1 equally valid BF16 stacks)",
        "off-policy              0 of 11 (0.0 %)",
        "rounding KL",
        "BF16 is a reference, not the truth",
    ):
        assert line in text
    settings = [line.split() for line in text.splitlines() if line.startswith("kv_cache_dtype")]
    assert settings == [["kv_cache_dtype", "bfloat16", "fp8_e4m3"], ["kv_cache_dtype", "fp8_e4m3", "fp8_e4m3"]]
    assert max(len(line) for line in text.splitlines()) <= 170


def test_groups_are_added_on_request(folder):
    assert "tool_call" not in run(folder).output
    text = run(folder, "--by", "span").output
    assert "tool_call" in text
    assert "assistant_output" in text


def test_json_is_the_record(folder):
    record = json.loads((folder / "bundle.json").read_text())
    assert json.loads(run(folder, "--json").output) == record


def test_a_folder_that_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no bundle here"):
        run(tmp_path)


def test_nothing_from_a_bundle_can_drive_a_terminal():
    assert shown("a\x1b[31mred\nline\u202e") == "a?[31mred?line?"
    assert shown("x" * 200) == "x" * 97 + "..."


def test_a_folder_of_results_is_answered_with_its_latest_bundle(folder):
    for above in (folder.parent, folder.parent.parent):
        with pytest.raises(InvalidInput, match="the latest below this one is") as caught:
            run(above)
        assert str(folder) in str(caught.value)
