import json
import struct

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, MissingPrerequisite
from tests.llama.files import write_kld
from tests.reference.world import hidden_capture, reference_lock


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))


def run(*arguments: object, code: int = 0, text: str | None = None) -> str:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=text)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def test_import_and_export_are_each_others_inverse(tmp_path):
    path = write_kld(tmp_path / "a.kld", vocab=200)
    told = run("import", "llama-kld", path, "-q")
    assert "clip max-16 (llama.cpp), inferred" in told
    assert "9 rows of 200 ids" in told
    folder = told.splitlines()[0]
    told = run("export", "llama-kld", folder, "--out", tmp_path / "b.kld", "-q")
    assert "clip max-16" in told
    assert (tmp_path / "b.kld").read_bytes() == path.read_bytes()


def test_import_says_as_json_what_it_took_in(tmp_path):
    data = json.loads(run("import", "llama-kld", write_kld(tmp_path / "a.kld", vocab=200, clip=24), "-q", "--json"))
    assert (data["clip_nats"], data["clip_source"], data["num_rows"]) == (24, "inferred", 9)


def test_a_wrong_clip_is_refused(tmp_path):
    path = write_kld(tmp_path / "a.kld", vocab=200, clip=24)
    with pytest.raises(InvalidInput, match="more than max-16"):
        run("import", "llama-kld", path, "--clip", "16", "-q")


def test_stats_stand_beside_what_was_printed(tmp_path):
    base, candidate = write_kld(tmp_path / "a.kld", chunks=40), write_kld(tmp_path / "b.kld", chunks=40, seed=1)
    printed = run("llama", "stats", base, candidate, "--plain", "-q")
    assert printed.startswith("====== Perplexity statistics ======\n")
    (tmp_path / "log").write_text(printed)
    told = run("llama", "stats", base, candidate, "--printed", tmp_path / "log", "-q")
    assert "printed" in told.splitlines()[0]
    assert "renormalised FP64" in told.splitlines()[0]
    assert "n = 120 rows in 40 chunks" in told
    data = json.loads(run("llama", "stats", base, candidate, "--printed", tmp_path / "log", "--json", "-q"))
    kld = next(figure for figure in data["figures"] if figure["name"] == "Mean KLD")
    assert kld["printed"]["value"] == pytest.approx(kld["its_formulas"]["value"], abs=1e-6)
    assert kld["renormalised"]["value"] > 0


def test_few_rows_are_said_to_be_few(tmp_path):
    path = write_kld(tmp_path / "a.kld")
    assert "prints no summary below 100 rows" in run("llama", "stats", path, path, "-q")
    data = json.loads(run("llama", "stats", path, path, "--json", "-q"))
    assert data["n"] == 9


def test_lint_reads_files_and_standard_input(tmp_path):
    good = "llama-perplexity -m BF16.gguf --kl-divergence-base b\n"
    good += "llama-perplexity -m q.gguf --kl-divergence-base b --kl-divergence\n"
    assert "0 errors, 0 warnings" in run("llama", "lint", "-", text=good)
    (tmp_path / "run.sh").write_text(good.replace(" --kl-divergence\n", "\n"))
    assert "overwrites the base" in run("llama", "lint", tmp_path / "run.sh", code=2)
    findings = json.loads(run("llama", "lint", tmp_path / "run.sh", "--json", code=2))
    assert [finding["kind"] for finding in findings] == ["base_overwritten"]


def test_a_warning_alone_is_no_failure():
    text = "llama-perplexity -m Q8_0.gguf --kl-divergence-base b\n"
    assert "0 errors, 1 warning" in run("llama", "lint", "-", text=text)


def test_a_damaged_file_is_refused_everywhere(tmp_path):
    path = tmp_path / "a.kld"
    path.write_bytes(b"_logits_" + struct.pack("<3i", 256, 2**31 - 1, 1))
    for command in (["import", "llama-kld", path], ["llama", "stats", path, path]):
        with pytest.raises(InvalidInput, match="vocabulary"):
            run(*command)


def test_export_of_hidden_states_asks_for_the_interpreter_that_replays_them(tmp_path, monkeypatch):
    stored = hidden_capture(tmp_path / "home", reference_lock(tmp_path))
    monkeypatch.setenv("SUITE_VLLM_PYTHON", "/no/such/python")
    with pytest.raises(MissingPrerequisite, match="SUITE_VLLM_PYTHON=/no/such/python"):
        run("export", "llama-kld", stored.capture.folder, "--out", tmp_path / "x.kld", "-q")
