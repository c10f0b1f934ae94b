"""What this machine's processor cannot run is refused before anything is fetched or started, or left out by name."""

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.agent.processor import Processor
from suite.cli.main import cli
from suite.errors import InvalidInput
from suite.observer import SilentObserver
from suite.run import measure as measure_module
from suite.run import plan as plan_module
from suite.run import stack as stack_module
from suite.run.execute import RunReport
from suite.run.measure import measure
from tests.agent_stack import ROOT

AVX2 = Processor(architecture="x86_64", name="Made-up 7702", isa="avx2")
BF16 = Processor(architecture="x86_64", name="Made-up 9354", isa="avx512_bf16")
KV_FP8 = ROOT / "manifests" / "cpu-kv-fp8.yaml"
DEMO = ROOT / "manifests" / "demo"


@pytest.fixture
def on(monkeypatch, tmp_path):
    """Makes this machine's processor another one; the state folder is empty."""
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))

    def become(processor: Processor) -> None:
        for module in (plan_module, stack_module):
            monkeypatch.setattr(module, "this_processor", lambda: processor)

    return become


def asked(monkeypatch) -> list[Path]:
    """What a run is prepared with; nothing is."""
    seen: list[Path] = []

    class Nothing:
        stacks = references = all_stacks = ()
        store = None

        def require_room(self, options):
            pass

    def prepare(manifests, **_):
        seen.extend(manifests)
        return Nothing()

    monkeypatch.setattr(measure_module, "prepare", prepare)
    monkeypatch.setattr(measure_module, "execute", lambda *_, **__: RunReport())
    return seen


def test_plan_refuses_the_fp8_cache_on_avx2_with_reason_and_way_out(on):
    on(AVX2)
    done = CliRunner().invoke(cli, ["plan", str(KV_FP8), "--json"])
    assert done.exit_code == 3
    # Its reference is not looked at: nothing would be compared with it.
    (candidate,) = json.loads(done.output)
    (obstacle,) = candidate["obstacles"]
    assert obstacle.startswith("engine.kv_cache_dtype: an FP8 cache on a CPU needs AVX-512 or AMX")
    assert "Made-up 7702 (AVX2 only)" in obstacle
    assert "the nearest that runs here is" in obstacle
    assert any("float32 takes a third of the time" in note for note in candidate["notes"])


def test_plan_says_nothing_of_the_processor_that_can(on):
    on(BF16)
    done = CliRunner().invoke(cli, ["plan", str(KV_FP8), "--json"])
    assert done.exit_code == 0
    assert [item["obstacles"] for item in json.loads(done.output)] == [[], []]
    assert "Made-up" not in done.output


def test_run_refuses_it_too_before_the_model_is_fetched(on, tmp_path):
    on(AVX2)
    with pytest.raises(InvalidInput, match="needs AVX-512 or AMX"):
        measure(
            [KV_FP8],
            results=tmp_path / "results",
            root=ROOT,
            observer_for=lambda _: SilentObserver(),
            cancelled=threading.Event(),
        )
    assert not list((tmp_path / "home").glob("**/*.whl"))


def test_what_is_refused_is_left_out_by_name_where_that_is_wanted(on, monkeypatch, tmp_path):
    on(AVX2)
    seen = asked(monkeypatch)
    names = ["w8a8-int8.yaml", "kv-fp8.yaml", "bf16.yaml", "chunk512.yaml"]
    files = [DEMO / name for name in names]
    command = ["run", "--skip-refused", "--json", "-q", "--results", str(tmp_path), *map(str, files)]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert seen == [file for file in files if file.name != "kv-fp8.yaml"]
    left_out = json.loads(done.stdout)["left_out"]
    assert list(left_out) == ["demo-kv-fp8"]
    assert "needs AVX-512 or AMX" in left_out["demo-kv-fp8"]


def test_nothing_is_left_out_where_everything_runs(on, monkeypatch, tmp_path):
    on(BF16)
    seen = asked(monkeypatch)
    files = sorted(DEMO.glob("*.yaml"))
    done = CliRunner().invoke(
        cli, ["run", "--skip-refused", "--json", "-q", "--results", str(tmp_path), *map(str, files)]
    )
    assert done.exit_code == 0, done.output
    assert seen == files
    assert json.loads(done.stdout)["left_out"] == {}


def test_a_run_of_which_nothing_is_left_is_an_error(on, tmp_path):
    on(AVX2)
    done = CliRunner().invoke(cli, ["run", "--skip-refused", "-q", "--results", str(tmp_path), str(KV_FP8)])
    with pytest.raises(InvalidInput, match="this machine can run none of these stacks"):
        raise done.exception
