"""`suite gate` on two manifests with a real engine: what is missing is run, what is there is not."""

import json

import pytest
from click.testing import CliRunner

from suite.bundle.arbiter import read_arbiter
from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.cli.gate import gate
from suite.errors import InvalidInput
from tests.two_machines import maker, repository  # noqa: F401 - fixtures

pytestmark = pytest.mark.vllm


def test_a_new_stack_is_held_against_its_reference(repository, maker, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("SUITE_HOME", str(maker))
    manifests = repository / "manifests"
    old, new = manifests / "once.yaml", manifests / "new.yaml"
    old.write_text("extends: cpu-bf16.yaml\nname: once\nrepeats: 1\n")
    new.write_text("extends: float32.yaml\nname: new\nreference: once.yaml\nrepeats: 1\narbiter: arbiter.yaml\n")
    # The new stack has the arbiter's precision and reads in other chunks.
    (manifests / "arbiter.yaml").write_text(
        "extends: cpu-bf16.yaml\nname: arbiter\ncapture: {codec: logits}\n"
        "engine: {dtype: float32, kv_cache_dtype: auto, max_num_batched_tokens: 128}\n"
    )

    def run(*rules):
        arguments = [str(old), str(new), "--results", str(tmp_path / "results"), "--quiet", *map(str, rules)]
        return CliRunner().invoke(gate, [*arguments, "--json"], catch_exceptions=False)

    passed = run("--max-flips", 10_000)
    assert passed.exit_code == 0, passed.output
    assert json.loads(passed.stdout)["old"] == "the reference"
    captures = sorted(p for p in (maker / "captures").glob("*/start-*/index.json"))
    assert len(captures) == 3
    written = [path.stat().st_mtime_ns for path in captures]

    failed = run("--max-kl", 0)
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["rules"][0]["passed"] is False
    assert [path.stat().st_mtime_ns for path in captures] == written
    with pytest.raises(InvalidInput, match="two candidates of one reference"):
        run("--no-worse")

    bundle = open_bundle(next((tmp_path / "results" / "new").iterdir()))
    record = read_arbiter(bundle)
    assert record.name == "arbiter"
    assert record.evidence.dtype == "float32"
    assert len(record.flips) == bundle.record.headlines.flips > 0
    report = verify_bundle(bundle.folder, captures=maker / "captures")
    assert "from its capture" in next(check.detail for check in report.checks if check.name == "arbiter")
