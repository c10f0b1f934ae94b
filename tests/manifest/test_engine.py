from pathlib import Path

from suite.manifest.engine import differences, serve_settings
from tests.manifest.samples import CUDA, manifest


def test_serving_replaces_what_it_names(tmp_path: Path) -> None:
    loaded = manifest(
        tmp_path,
        CUDA,
        serve={"enforce_eager": False, "max_num_seqs": 8, "tool_call_parser": "qwen3_coder", "extra": {"b": 2}},
        engine__extra={"a": 1},
    )
    settings = serve_settings(loaded.engine, loaded.serve)
    assert settings["enforce_eager"] is False
    assert settings["kv_cache_dtype"] == "bfloat16"
    assert settings["tool_call_parser"] == "qwen3_coder"
    assert settings["extra"] == {"a": 1, "b": 2}
    assert differences(loaded.engine, loaded.serve) == {"enforce_eager": (True, False), "max_num_seqs": (1, 8)}


def test_qualifiers_go_with_what_they_qualify(tmp_path: Path) -> None:
    changes = {
        "engine__attention_backend": "FLASH_ATTN",
        "engine__flash_attn_version": 2,
        "engine__cudagraph_mode": "NONE",
    }
    loaded = manifest(tmp_path, CUDA, **changes, serve={"attention_backend": "FLASHINFER", "enforce_eager": False})
    settings = serve_settings(loaded.engine, loaded.serve)
    assert "flash_attn_version" not in settings
    assert "cudagraph_mode" not in settings


def test_nothing_to_change(tmp_path: Path) -> None:
    loaded = manifest(tmp_path, CUDA)
    assert differences(loaded.engine, loaded.serve) == {}
