import json

import pytest
from click.testing import CliRunner

from suite.cli.capabilities import capabilities_text
from suite.cli.main import cli
from suite.errors import InvalidInput
from suite.run.plan import plan
from suite.stack.capabilities import keep
from tests.manifest.samples import CUDA, DIGEST, write
from tests.stack.test_capabilities import rules


def test_a_table_and_the_engines_reasons():
    text = capabilities_text(rules())
    assert text.startswith("vLLM 0.31.0 on SM120")
    assert "yes (2)" in text
    assert "heads of 128" in text
    assert "FLASHINFER: ImportError: no flashinfer: every KV cache" in text


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a@sha256:" + "a" * 64, "--python", __file__),
        ("a@sha256:" + "a" * 64,),
        ("a@sha256:" + "a" * 64, "--gpu", "RTX 1"),
        ("a@sha256:" + "a" * 64, "--capability", "sm120"),
        ("a:tag", "--capability", "12.0"),
    ],
)
def test_what_cannot_be_asked_is_told(arguments):
    result = CliRunner().invoke(cli, ["image", "capabilities", *arguments])
    assert result.exception is not None
    assert getattr(result.exception, "exit_code", None) in (2, 3)


def test_a_plan_refuses_by_the_images_own_answer(tmp_path):
    home = tmp_path / "home"
    engine = CUDA["engine"] | {"attention_backend": "FLASH_ATTN", "kv_cache_dtype": "int8_per_token_head"}
    path = write(tmp_path, "m.yaml", CUDA | {"engine": engine})
    (before,) = plan([path], home=home, root=tmp_path)
    assert "implemented by TRITON_ATTN only" in before.obstacles[0]
    assert any("was not asked" in note for note in before.notes)
    keep(rules(), DIGEST.removeprefix("sha256:"), home=home)
    (after,) = plan([path], home=home, root=tmp_path)
    assert "vLLM 0.31.0 on SM120 refuses FLASH_ATTN 2" in after.obstacles[0]
    assert "nearest that works: TRITON_ATTN with int8_per_token_head" in after.obstacles[0]
    assert not any("was not asked" in note for note in after.notes)
    json.dumps(after.to_json())


def test_a_damaged_answer_is_told(tmp_path):
    (tmp_path / "home" / "capabilities").mkdir(parents=True)
    (tmp_path / "home" / "capabilities" / f"{'a' * 64}-sm120.json").write_text("{}")
    with pytest.raises(InvalidInput, match="ask the image again"):
        plan([write(tmp_path, "m.yaml", CUDA)], home=tmp_path / "home", root=tmp_path)
