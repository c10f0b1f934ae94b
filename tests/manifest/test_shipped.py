"""Every shipped manifest loads, says one thing, and pins only what the facts hold."""

import re
from pathlib import Path

import pytest

from suite.manifest.check import check
from suite.manifest.load import dump_manifest, is_fragment, load_manifest
from suite.manifest.lock import require_complete
from tests.manifest.samples import ROOT

FOLDER = ROOT / "manifests"
FILES = sorted(FOLDER.rglob("*.yaml"))
LEAVES = [file for file in FILES if not is_fragment(file, FOLDER)]
MISSING = {
    "rtx-pro-6000-finetune-aeon",
    "rtx-pro-6000-finetune-heretic-ara",
    "rtx-pro-6000-finetune-huihui",
    "rtx5090-autoround-frozenlock",
}
TWO_FACTORS = {"rtx5090-awq-g32-100k"}


@pytest.mark.parametrize("file", LEAVES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_loads_round_trips_and_is_named_after_its_file(file: Path, tmp_path: Path) -> None:
    loaded = load_manifest(file)
    assert loaded.name == "-".join(file.relative_to(FOLDER).with_suffix("").parts)
    assert loaded.description
    if loaded.name not in MISSING:
        require_complete(loaded)
    text = dump_manifest(loaded)
    for key, file_name in (("reference", "r.yaml"), ("arbiter", "a.yaml")):
        text = text.replace(f"{key}: {getattr(loaded, key)}", f"{key}: {file_name}")
        (tmp_path / file_name).write_text("x: 1")
    (tmp_path / "m.yaml").write_text(text)
    again = load_manifest(tmp_path / "m.yaml")
    others = {"reference", "arbiter"}
    assert again.model_dump(exclude=others) == loaded.model_dump(exclude=others)


def test_check_of_the_whole_folder() -> None:
    results = check([FOLDER])
    assert not [error for result in results for error in result.errors]
    manifests = [result.manifest for result in results if result.manifest is not None]
    assert {manifest.name for manifest in manifests if manifest.missing} == MISSING
    several = {
        result.manifest.name
        for result in results
        if result.manifest and result.comparison and not result.comparison.causal_claim
    }
    assert several == TWO_FACTORS


def test_leaves_are_short() -> None:
    assert max(len(file.read_text().splitlines()) for file in LEAVES) <= 15


def test_no_hosts_and_no_paths_of_a_machine() -> None:
    text = "".join(file.read_text() for file in FILES)
    assert not re.search(r"https?:|docker\.io|ghcr\.io|quay\.io|huggingface\.co|/home/|/root/|/opt/|/tmp/", text)
    assert set(re.findall(r"repository: (\S*vllm\S*)", text)) == {"vllm/vllm-openai"}


def test_sets_are_complete() -> None:
    names = {load_manifest(file).name for file in LEAVES}
    assert names >= {
        *("cpu-bf16", "cpu-kv-fp8", "cpu-w8a8-int8", "cpu-chunk512", "cpu-isa-avx2", "cpu-tp3"),
        *("cpu-decode-bf16", "cpu-decode-kv-fp8", "cpu-fp32"),
        *("rtx5090-awq-g32", "reference-qwen3.8-27b-32gb", "reference-qwen3.8-27b-96gb"),
        *(f"rtx-pro-6000-{x}" for x in ("triton-bf16", "flash-attn", "flashinfer", "tp2", "tp4")),
        *(f"rtx-pro-6000-kv-{x}" for x in ("fp8", "int8", "int4")),
        *(f"rtx-pro-6000-weights-{x}" for x in ("fp8", "int8", "awq", "nvfp4")),
        *(f"rtx-pro-6000-finetune-{x}" for x in ("heretic-ara", "huihui", "blackfrost", "aeon")),
        *("h200-triton-bf16", "b200-triton-bf16"),
    }
    roles = {load_manifest(FOLDER / f"{name}.yaml").role for name in ("cpu-chunk512", "cpu-isa-avx2", "cpu-tp3")}
    assert roles == {"band"}


def test_four_bit_checkpoints_with_known_revisions() -> None:
    loaded = [load_manifest(file) for file in LEAVES if file.parent.name == "rtx5090" and "grid" not in file.name]
    assert len({m.model.repository for m in loaded}) == len(loaded) == 15
    assert sum(m.model.revision is not None for m in loaded) == 14
