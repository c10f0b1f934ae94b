import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from suite.cli.score import score
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed
from suite.score.ledger import read_ledger
from tests.capture.synthetic import bf16, write_capture
from tests.compare.world import CompareWorld, one_per_turn, session
from tests.score.session import TOKENS, logits, rendered

FIXTURES = Path(__file__).parent.parent / "fixtures" / "llama_kld"
CONTRACT = {
    "n",
    "vocab_size",
    "invalid_rows",
    "tie_rule",
    "flips",
    "flips_tied",
    "flips_uncertain",
    "flips_leaning",
    "flips_confident",
    "rounding_kl",
    "kl_ref_cand",
    "kl_cand_ref",
    "jsd",
    "total_variation",
    "nll_ref",
    "nll_cand",
    "top1_agreement",
    "intervals",
}


def run(*arguments):
    return CliRunner().invoke(score, [str(argument) for argument in arguments], catch_exceptions=False)


def scored(*arguments):
    return json.loads(run(*arguments, "--json", "--quiet").stdout)


@pytest.fixture
def captures(tmp_path):
    """Two bare captures of the tiny session: one confident flip at 2, one other flip at 7."""
    candidate = logits()
    candidate[2, 5] = 20
    candidate[7] = np.roll(candidate[7], 1)
    return [write_capture(tmp_path / name, bf16(rows), TOKENS) for name, rows in (("r", logits()), ("c", candidate))]


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Two captures of 24 turns, and the rendered session."""
    world = CompareWorld(root=tmp_path_factory.mktemp("score"), turns=24)
    ours, theirs = world.lock("bf16", role="reference"), world.lock("fp8", kv_cache_dtype="fp8_e4m3")
    file = world.root / "rendered.json"
    file.write_bytes(session(24).to_json())
    flips = one_per_turn(range(8)) + one_per_turn(range(3), place=2)
    return [
        world.capture(ours, world.rows()).folder,
        world.capture(theirs, world.rows(flips, noise=0.1)).folder,
        file,
    ]


def test_the_object_has_every_key_of_the_contract(captures):
    value = scored(*captures)
    assert value.keys() >= CONTRACT
    assert value["kl_ref_cand"].keys() == {"mean", "median", "p90", "p99", "p999", "max"}
    assert value["jsd"].keys() == value["kl_cand_ref"].keys() == value["kl_ref_cand"].keys()
    assert value["total_variation"].keys() == {"mean"}
    assert value["intervals"].keys() == {"flips", "kl_ref_cand_mean"}
    assert (value["n"], value["vocab_size"], value["invalid_rows"], value["tie_rule"]) == (11, 6, 0, "lowest_id")
    classes = ("flips_tied", "flips_uncertain", "flips_leaning", "flips_confident")
    assert value["flips"] == sum(value[name] for name in classes) == 2
    assert value["flips_confident"] == 1
    assert value["top1_agreement"] == pytest.approx(9 / 11)
    assert value["kl_ref_cand"]["p999"] is None


def test_bare_captures_have_no_turns_and_it_is_said(captures):
    value = scored(*captures)
    assert value["intervals"] == {"flips": None, "kl_ref_cand_mean": None}
    assert "no turns are known" in value["intervals_told"]
    assert "Give the rendered session with --rendered" in run(*captures, "--quiet").output


def test_the_rendered_session_gives_intervals(long):
    ref, cand, session_file = long
    value = scored(ref, cand, "--rendered", session_file)
    low, high = value["intervals"]["flips"]
    assert low < value["flips"] == 11 < high
    low, high = value["intervals"]["kl_ref_cand_mean"]
    assert low < value["kl_ref_cand"]["mean"] < high
    assert value == scored(ref, cand, "--rendered", session_file)
    text = run(ref, cand, "--rendered", session_file, "--quiet").output
    assert text.startswith("Scope: 191 probes")
    assert "11 of 191 (5.8 %)" in text
    assert "24 turns resampled" in text


def test_too_few_turns_give_counts_only(captures, tmp_path):
    file = tmp_path / "rendered.json"
    file.write_bytes(rendered().to_json())
    value = scored(*captures, "--rendered", file)
    assert value["intervals"]["flips"] is None
    assert "2 turns, fewer than 10" in value["intervals_told"]


def test_a_capture_against_itself_differs_in_nothing(captures):
    value = scored(captures[0], captures[0])
    assert (value["flips"], value["identical_rows"], value["kl_ref_cand"]["max"]) == (0, 11, 0.0)


def test_rows_that_are_not_finite_give_counts_no_mean_and_exit_code_4(captures, tmp_path):
    values = logits()
    values[3, 1] = np.nan
    bad = write_capture(tmp_path / "bad", bf16(values), TOKENS)
    with pytest.raises(RunFailed) as error:
        run(captures[0], bad, "--quiet")
    assert error.value.exit_code == 4
    done = CliRunner().invoke(score, [str(captures[0]), str(bad), "--json", "--quiet"])
    assert isinstance(done.exception, RunFailed)
    value = json.loads(done.stdout)
    assert value["invalid_rows"] == 1
    assert value["n"] == 11
    for name in ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation", "nll_ref", "rounding_kl", "top1_agreement"):
        assert value[name] is None
    assert value["intervals"]["flips"] is None


def test_the_ledger_is_kept_and_unknown_tokens_are_marked(captures, tmp_path):
    run(*captures, "--ledger", tmp_path / "out" / "ledger.parquet", "--quiet")
    columns = read_ledger(tmp_path / "out" / "ledger.parquet").columns
    # Nothing predicts the first token; all others are the target of the probe before.
    assert columns["token_id"].tolist() == [-1, *TOKENS[1:-1]]
    assert columns["target_id"].tolist() == TOKENS[1:]
    assert set(columns["turn"].tolist()) == {-1}


def test_tokens_that_the_store_keeps_are_used(captures, tmp_path):
    for name in ("r", "c"):
        folder = tmp_path / "store" / name / "start-0"
        folder.parent.mkdir(parents=True)
        (tmp_path / name).rename(folder)
    inputs = tmp_path / "store" / "r" / "inputs"
    inputs.mkdir()
    np.save(inputs / "tokens.npy", np.array(TOKENS, dtype=np.int32))
    ledger = tmp_path / "ledger.parquet"
    run(tmp_path / "store" / "r", tmp_path / "store" / "c", "--ledger", ledger, "--quiet")
    assert read_ledger(ledger).columns["token_id"].tolist() == TOKENS[:-1]
    np.save(inputs / "tokens.npy", np.array([5, *TOKENS[1:]], dtype=np.int32))
    run(tmp_path / "store" / "r", tmp_path / "store" / "c", "--ledger", ledger, "--quiet")
    assert read_ledger(ledger).columns["token_id"][0] == -1


def test_another_session_s_rendering_is_refused(captures, long):
    with pytest.raises(InvalidInput, match="has other tokens"):
        run(*captures, "--rendered", long[2], "--quiet")


def test_captures_that_differ_are_refused_with_the_keys(captures, long):
    with pytest.raises(InvalidInput, match="tokens_sha256"):
        run(captures[0], long[0], "--quiet")


def test_a_hidden_capture_needs_the_lock_of_its_stack(captures, tmp_path):
    hidden = write_capture(
        tmp_path / "hidden",
        bf16(logits()),
        TOKENS,
        codec="hidden",
        head={"sha256s": ["7" * 64]},
        replay_probe={"rows": 11, "equal": 11, "accepted": True},
        row_width=6,
    )
    with pytest.raises(MissingPrerequisite, match="no lock for this capture"):
        run(captures[0], hidden, "--quiet")


def test_base_files_of_llama_cpp_are_scored_as_they_are(tmp_path):
    files = []
    for name in ("base", "q4_0"):
        files.append(tmp_path / f"{name}.kld")
        files[-1].write_bytes(lzma.decompress((FIXTURES / f"{name}.kld.xz").read_bytes()))
    value = scored(*files)
    assert (value["n"], value["vocab_size"], value["flips"]) == (127, 49_152, 45)
    assert value["kl_ref_cand"]["mean"] == pytest.approx(0.2623, abs=1e-4)
    assert value["intervals"]["flips"] is None
    assert "1 turn, fewer than 10" in value["intervals_told"]


def test_a_bundle_is_sent_to_compare(captures, tmp_path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "bundle.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"holds no rows\n.*suite compare"):
        run(captures[0], tmp_path / "bundle")
