"""`suite gate` on two manifests with a real engine: what is missing is run, what is there is not."""

import json

import pytest
from click.testing import CliRunner

from suite.bundle.arbiter import read_arbiter
from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.cli.gate import gate
from suite.errors import InvalidInput
from tests.run.world import write_manifest, write_repository

pytestmark = pytest.mark.vllm


def test_a_new_stack_is_held_against_its_reference(tmp_path, smollm2, smollm2_int8, vllm_python, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUITE_VLLM_PYTHON", str(vllm_python))
    root = write_repository(tmp_path / "repository", smollm2, smollm2_int8).parent
    old = write_manifest(root, "small-fp32", smollm2, repeats=1, **{"capture.stride": 1})
    # An arbiter has the weights of both; here it reads in other chunks than the reference.
    chunks = {"capture.stride": 1, "engine.max_num_batched_tokens": 128}
    write_manifest(root, "small-chunk128", smollm2, **chunks)
    new = write_manifest(
        root,
        "small-bf16",
        smollm2,
        role="candidate",
        repeats=1,
        arbiter="small-chunk128.yaml",
        **{"engine.dtype": "bfloat16", "engine.kv_cache_dtype": "bfloat16", "capture.stride": 1},
    )

    def run(*rules):
        arguments = [str(old), str(new), "--results", str(tmp_path / "results"), "--quiet", *map(str, rules)]
        return CliRunner().invoke(gate, [*arguments, "--json"], catch_exceptions=False)

    passed = run("--max-flips", 10_000)
    assert passed.exit_code == 0, passed.output
    assert json.loads(passed.stdout)["old"] == "the reference"
    captures = sorted(p for p in (tmp_path / "home" / "captures").glob("*/start-*/index.json"))
    assert len(captures) == 3
    written = [path.stat().st_mtime_ns for path in captures]

    failed = run("--max-kl", 0)
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["rules"][0]["passed"] is False
    assert [path.stat().st_mtime_ns for path in captures] == written
    with pytest.raises(InvalidInput, match="two candidates of one reference"):
        run("--no-worse")

    bundle = open_bundle(next((tmp_path / "results" / "small-bf16").iterdir()))
    record = read_arbiter(bundle)
    assert record.name == "small-chunk128"
    assert record.evidence.dtype == "float32"
    assert len(record.flips) == bundle.record.headlines.flips > 0
    report = verify_bundle(bundle.folder, captures=tmp_path / "home" / "captures")
    assert "from its capture" in next(check.detail for check in report.checks if check.name == "arbiter")
