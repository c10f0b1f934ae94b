import pytest

from suite.llama.lint import lint_text

BASE = "llama-perplexity -m m-BF16.gguf -f wiki.test.raw --kl-divergence-base base.kld"
CANDIDATE = "llama-perplexity -m m-Q4_K_M.gguf -f wiki.test.raw --kl-divergence-base base.kld --kl-divergence"


def kinds(base: str, *candidates: str) -> list[str]:
    return [finding.kind for finding in lint_text("\n".join([base, *candidates]))]


def test_the_swapped_commands_of_a_public_write_up():
    base = (
        "llama-perplexity -m Qwen3.6-27B-BF16.gguf -f wiki.test.raw -ctk q8_0 -ctv q8_0 --kl-divergence-base base.kld "
        "--kl-divergence\n  -ngl 99"
    )
    candidate = "llama-perplexity -m Qwen3.6-27B-BF16.gguf -f wiki.test.raw --kl-divergence-base base.kld"
    findings = lint_text(f"{base}\n{candidate}\n")
    assert {finding.message for finding in findings} == {
        "base command has --kl-divergence, which reads the base file instead of writing it",
        "candidate command lacks --kl-divergence, so it overwrites the base",
        "candidate names the BF16 file",
        "base has a quantised KV cache",
        "a line continuation is missing",
    }
    assert {finding.severity for finding in findings} == {"error"}
    assert any("the two roles are swapped" in finding.hint for finding in findings)
    assert any("-ngl 99" in finding.hint for finding in findings)


def test_right_commands_have_no_finding():
    assert kinds(BASE, CANDIDATE, CANDIDATE.replace("Q4_K_M", "Q8_0")) == []


@pytest.mark.parametrize(
    ("base", "candidate", "kind"),
    [
        (BASE.replace(" --kl-divergence-base base.kld", ""), CANDIDATE, "base_not_written"),
        (BASE + " --kl-divergence", CANDIDATE, "base_reads"),
        (BASE + " -ctv q4_0", CANDIDATE + " -ctv q4_0", "base_kv_quantised"),
        (BASE.replace("BF16", "Q8_0"), CANDIDATE, "base_quantised"),
        (BASE, CANDIDATE.replace(" --kl-divergence-base base.kld", ""), "base_not_read"),
        (BASE, CANDIDATE.removesuffix(" --kl-divergence"), "base_overwritten"),
        (BASE, CANDIDATE.replace("base.kld", "other.kld"), "other_base_file"),
        (BASE, CANDIDATE.replace("Q4_K_M", "F16"), "candidate_full_precision"),
        (BASE.replace("BF16", "custom"), CANDIDATE.replace("Q4_K_M", "custom"), "same_model"),
        (BASE, CANDIDATE + " -c 1024", "rows_differ"),
        (BASE + " --chunks 8", CANDIDATE + " --chunks 16", "rows_differ"),
        (BASE, CANDIDATE.replace("wiki.test.raw", "other.txt"), "rows_differ"),
        (BASE, CANDIDATE + " -ctk q8_0", "setting_differs"),
        (BASE + " -ngl 99", CANDIDATE + " --n-gpu-layers 0", "setting_differs"),
        (BASE + "\n  -ngl 99", CANDIDATE, "line_lost"),
        (BASE, CANDIDATE + " \\ \n  -t 8", "line_lost"),
    ],
)
def test_each_fault_alone_is_found_alone(base, candidate, kind):
    assert kinds(base, candidate) == [kind]


def test_a_base_alone_is_checked_too():
    assert kinds(BASE + " --kl-divergence") == ["base_reads"]


def test_every_candidate_is_checked_and_each_fault_is_said_once():
    wrong = CANDIDATE + " -c 1024"
    assert kinds(BASE, CANDIDATE, wrong, wrong) == ["rows_differ"]
