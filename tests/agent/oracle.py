"""Runs inside the stack: capture rows, and ask vLLM itself for the same logits through its public interface.

`python -P oracle.py FOLDER MODEL ORACLE`: FOLDER holds `text.npy`, ORACLE is 1 or 0. One JSON object is printed last.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

from suite.agent.chunks import Journal, start_journal
from suite.agent.engine import armed, start_engine
from suite.agent.lifetime import leave

CHUNK = 40
PROMPT = 60
NEW = 24
SETTINGS = {
    "attention_backend": "CPU_ATTN",
    "kv_cache_dtype": "bfloat16",
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "max_num_batched_tokens": CHUNK,
    "max_model_len": 512,
    "max_num_seqs": 1,
    "dtype": "bfloat16",
    "seed": 0,
}
# vLLM's second runner has no raw prompt logits.
RAW = {"logprobs_mode": "raw_logits", "max_logprobs": -1}


class Bench:
    def __init__(self, folder, model, *, raw):
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        self.folder = folder
        self.llm = start_engine(model, SETTINGS | (RAW if raw else {}))

    def generate(self, ids, new_tokens, **changes):
        from vllm import SamplingParams

        parameters = SamplingParams(
            temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False, **changes
        )
        return self.llm.generate([{"prompt_token_ids": list(map(int, ids))}], parameters, use_tqdm=False)[0]

    def capture(self, name, ids, codec, *, ranges, path="prefill", prompt=None, new_tokens=1):
        """Rows as stored, by position, the steps, and the ids that were generated."""
        import torch
        from safetensors.torch import load_file

        out = self.folder / name
        out.mkdir()
        np.save(out / "tokens.npy", np.array(ids, dtype=np.int32))
        start_journal(out, Journal(job="", codec=codec, replay=None))
        spec = {
            "path": path,
            "codec": codec,
            "stride": None,
            "ranges": ranges,
            "tokens": str(out / "tokens.npy"),
            "out": str(out),
            "rows_per_gemm": 64,
            "chunk_rows": 100,
            "kept": [],
            "compare": False,
            "trusted_until": 0,
        }
        answers = []
        result = armed(
            self.llm, spec, lambda: answers.append(self.generate(ids[:prompt] if prompt else ids, new_tokens))
        )
        chunks = [load_file(out / chunk["file"]) for chunk in result["chunks"]]
        rows = torch.cat([chunk["rows"] for chunk in chunks])
        positions = torch.cat([chunk["positions"] for chunk in chunks]).tolist()
        return dict(zip(positions, rows, strict=True)), result["steps"], list(answers[0].outputs[0].token_ids)

    def replay(self, hidden, rows_per_gemm):
        """Logits rows of a hidden capture."""
        import torch

        from suite.agent.head import load_head

        shards = [s["sha256"] for s in self.llm.collective_rpc("suite_save_head", args=(str(self.folder / "heads"),))]
        head = load_head(self.folder / "heads", shards, "cpu")
        with torch.inference_mode():
            logits = head.logits(torch.stack(list(hidden.values())), rows_per_gemm)
        return dict(zip(hidden, logits, strict=True))


def full_rows(flat):
    """Rows of a flat logprobs object as float32; None where it has none."""
    import torch

    ids, values = np.array(flat.token_ids), np.array(flat.logprobs, dtype=np.float64)
    rows = []
    for start, end in zip(flat.start_indices, flat.end_indices, strict=True):
        row = np.full(ids.max() + 1, np.nan)
        row[ids[start:end]] = values[start:end]
        rows.append(torch.from_numpy(row).float() if end > start else None)
    return rows


def same(stored, asked):
    """How many of vLLM's own rows equal the stored ones bit for bit."""
    import torch

    assert all(row.dtype == torch.bfloat16 and len(row) == len(asked[p]) for p, row in stored.items())
    return sum(int(torch.equal(row.float().view(torch.int32), asked[p].view(torch.int32))) for p, row in stored.items())


def digest(rows):
    from suite.agent.rows import row_hashes

    return {str(p): bytes(row_hashes(row[None])[0].tolist()).hex() for p, row in rows.items()}


def main(folder, model, oracle):
    import torch

    bench = Bench(folder, model, raw=oracle)
    text = np.load(folder / "text.npy").tolist()
    last = len(text)
    result = {"runner": bench.llm.collective_rpc("suite_receipt")[0]["model_runner"]}

    prefill, steps, _ = bench.capture("prefill", text, "logits", ranges=[[1, last]])
    hidden, _, _ = bench.capture("hidden", text, "hidden", ranges=[[1, last]])
    result["steps"] = steps
    result["prefill"] = digest(prefill)
    result["prefill_replayed"] = digest(bench.replay(hidden, 64))

    free = bench.generate(text[:PROMPT], NEW, **({"logprobs": -1, "flat_logprobs": True} if oracle else {}))
    greedy = list(free.outputs[0].token_ids)
    own = text[:PROMPT] + greedy
    ranges = [[PROMPT, PROMPT + NEW]]
    more = {"path": "decode", "prompt": PROMPT, "new_tokens": NEW}
    decode, result["decode_steps"], _ = bench.capture("decode-own", own, "logits", ranges=ranges, **more)
    result["greedy"] = greedy
    result["decode"] = digest(decode)

    forced, _, answer = bench.capture("decode-text", text, "logits", ranges=ranges, **more)
    forced_hidden, _, _ = bench.capture("decode-hidden", text, "hidden", ranges=ranges, **more)
    result["forced_answer_is_the_text"] = answer == text[PROMPT : PROMPT + NEW]
    result["forced"] = digest(forced)
    result["forced_replayed"] = digest(bench.replay(forced_hidden, 1))
    result["forced_rows_equal_to_prefill"] = sum(int(torch.equal(row, prefill[p])) for p, row in forced.items())
    result["forced_top1_as_in_prefill"] = sum(int(row.argmax() == prefill[p].argmax()) for p, row in forced.items())

    if oracle:
        asked = full_rows(bench.generate(text, 1, prompt_logprobs=-1, flat_logprobs=True).prompt_logprobs)
        result["prompt_rows_as_vllm_says"] = same(prefill, {i - 1: row for i, row in enumerate(asked) if i})
        said = full_rows(free.outputs[0].logprobs)
        result["decode_rows_as_vllm_says"] = same(decode, {PROMPT - 1 + i: row for i, row in enumerate(said)})
    return result


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "1")))
    leave(0)
