from suite.stack.alternatives import alternatives
from tests.manifest.samples import CUDA, lock

FLASH = {"engine__attention_backend": "FLASH_ATTN", "engine__flash_attn_version": 2}


def test_the_measured_cells_of_the_grid_are_offered_and_nothing_else(tmp_path):
    here = lock(tmp_path, CUDA, name="here")
    measured = [
        lock(tmp_path, CUDA, name="flash", **FLASH),
        lock(tmp_path, CUDA, name="int8", engine__kv_cache_dtype="int8_per_token_head"),
        lock(tmp_path, CUDA, name="int8-again", engine__kv_cache_dtype="int8_per_token_head"),
        lock(tmp_path, CUDA, name="both", **FLASH, engine__kv_cache_dtype="float16"),
        lock(tmp_path, CUDA, name="other-chunk", engine__max_num_batched_tokens=512),
        lock(tmp_path, CUDA, name="other-probes", capture__stride=8),
        here,
    ]
    found = alternatives(here, measured)
    assert [(a.label, a.lock.name, a.chosen) for a in found] == [
        ("FLASH_ATTN 2, bfloat16", "flash", False),
        ("FLASH_ATTN 2, float16", "both", False),
        ("TRITON_ATTN, bfloat16", "here", True),
        ("TRITON_ATTN, int8_per_token_head", "int8", False),
    ]


def test_alone_it_offers_itself(tmp_path):
    here = lock(tmp_path, CUDA)
    assert [a.chosen for a in alternatives(here, [])] == [True]
