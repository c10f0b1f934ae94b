"""Tables of speeds: strict files, medians of their rounds, and what the guide says of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite.bundle.read import open_bundle
from suite.errors import InvalidInput
from suite.site import resources
from suite.site.speeds import Rate, load_speeds, parse_speeds
from tests.results.repository import Repository
from tests.site.world import GUIDE, HOSTILE, built, table_of_bundles

ROOT = Path(__file__).parents[2]
ROUNDS = [{"prefill_seconds": s, "decode_seconds": 2 * s} for s in (1.0, 2.0, 4.0)]


def stack(name="tiny-kv-int8", **changes):
    own = {"stack": name, "backend": "TRITON_ATTN", "kv_cache_dtype": "int8_per_token_head", "weights": "bf16"}
    return own | {"is_reference": False, "rounds": ROUNDS, "kv_tokens": 123_456, "error": ""} | changes


def table(*stacks, **changes):
    value = {
        "schema_version": 1, "gpu": "RTX 5090", "model": "Tiny-1B", "created": "2026-11-30", "engine": "vLLM 0.25.0",
        "eager": False, "prompt_tokens": 8_000, "decoded_tokens": 201, "stacks": list(stacks or (stack(),)),
    }  # fmt: skip
    return json.dumps(value | changes).encode()


def test_speeds_are_medians_of_the_rounds():
    speeds = parse_speeds(table(), where="x")
    (one,) = speeds.stacks
    assert speeds.prefill(one) == Rate(lowest=2_000.0, median=4_000.0, highest=8_000.0)
    assert speeds.decode(one) == Rate(lowest=25.0, median=50.0, highest=100.0)
    assert (speeds.context_tokens, speeds.num_rounds) == (8_201, 3)
    assert parse_speeds(speeds.to_bytes(), where="x") == speeds


@pytest.mark.parametrize(
    "changed",
    [
        {"stacks": [stack(), stack()]},
        {"stacks": [stack(rounds=[])]},
        {"stacks": [stack(error="no memory")]},
        {"stacks": [stack(rounds=[{"prefill_seconds": 0.0, "decode_seconds": 1.0}])]},
        {"stacks": [stack(kv_tokens=0)]},
        {"stacks": []},
        {"decoded_tokens": 1},
        {"created": "yesterday"},
        {"schema_version": 2},
        {"more": 1},
    ],
)
def test_what_is_no_table_of_speeds_is_refused(changed):
    with pytest.raises(InvalidInput):
        parse_speeds(table(**changed), where="x")


def test_the_guide_shows_speeds_beside_flips(tmp_path, monkeypatch):
    own = tmp_path / "own"
    shutil.copytree(resources.site_folder(), own)
    (own / "speeds").mkdir(exist_ok=True)
    failed = stack("tiny-kv-fp8", rounds=[], kv_tokens=None, error=HOSTILE[0])
    (own / "speeds" / "tiny.json").write_bytes(table(stack(), failed, stack("tiny-bf16", is_reference=True)))
    for module in ("build", "rendering", "front"):
        monkeypatch.setattr(f"suite.site.{module}.site_folder", lambda: own)
    results = table_of_bundles(tmp_path / "world").results
    built(results, tmp_path / "out")
    html = (tmp_path / "out" / GUIDE).read_text(encoding="utf-8")
    section = html[html.index('id="speed-1"') :]
    assert "4,000</span>" in section
    assert "2,000 to 8,000" in section
    assert "50.0</span>" in section
    assert "25.0 to 100.0" in section
    assert "123,456" in section
    assert "5 of " in section  # flips of tiny-kv-int8
    assert "&lt;script&gt;document" in section
    assert "<script>document" not in html
    assert "speed of a server under load" in html
    assert "result withdrawn" not in section
    gone = open_bundle(next((results / "tiny-kv-int8").iterdir()))
    Repository(root=tmp_path / "world").notice(gone, kind="withdrawal")
    built(results, tmp_path / "out")
    html = (tmp_path / "out" / GUIDE).read_text(encoding="utf-8")
    section = html[html.index('id="speed-1"') :]
    assert "5 of " not in section
    assert '<span class="soft">result withdrawn</span>' in section


def test_tables_in_the_repository_can_be_read():
    load_speeds(ROOT / "site" / "speeds")


def test_a_measured_matrix_becomes_a_table(tmp_path):
    rows = [
        {"stack": "h200-gemma3-270m-kv-int8", "kv_cache_dtype": "int8_per_token_head", "backend": "TRITON_ATTN",
         "flips": None, "prefill_tokens_per_second": 1.0, "decode_tokens_per_second": 1.0, "kv_tokens": 9,
         "rounds": [one | {"wall_seconds": 9.0} for one in ROUNDS]},
        {"stack": "h200-gemma3-270m-flex", "kv_cache_dtype": "bfloat16", "backend": "FLEX_ATTENTION", "flips": None,
         "error": "out of memory"},
    ]  # fmt: skip
    (tmp_path / "matrix.json").write_text(json.dumps(rows))
    script = ROOT / "benchmarks" / "gpu" / "publish_speeds.py"
    command = [sys.executable, str(script), str(tmp_path / "matrix.json"), "--out", str(tmp_path / "table.json")]
    command += ["--manifests", str(ROOT / "manifests" / "h200-gemma3-270m")]
    subprocess.run([*command, "--engine", "vLLM 0.25.0", "--created", "2026-11-30"], check=True)
    made = parse_speeds((tmp_path / "table.json").read_bytes(), where="x")
    assert (made.gpu, made.model, made.prompt_tokens) == ("H200 SXM", "gemma-3-270m", 32_512)
    assert [(s.stack, len(s.rounds), s.error) for s in made.stacks] == [
        ("h200-gemma3-270m-kv-int8", 3, ""),
        ("h200-gemma3-270m-flex", 0, "out of memory"),
    ]
