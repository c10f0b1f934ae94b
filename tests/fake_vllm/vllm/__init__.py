"""An engine of a few lines with the parts of vLLM that the agent touches, and faults that can be switched on.

It lets the agent's own code run as a process, from job to index, in the seconds that importing torch takes. What it
says about vLLM is nothing: the oracle tests do that. Faults are set through the environment, see `Faults`.
"""

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import torch

VOCAB = 90
PADDED = 96
HIDDEN = 16


class Faults:
    """Variables, read when the engine starts."""

    def __init__(self):
        self.step_seconds = float(os.environ.get("FAKE_STEP_SECONDS", "0"))
        self.nan_at = int(os.environ.get("FAKE_NAN_AT", "-1"))
        self.huge_at = int(os.environ.get("FAKE_HUGE_AT", "-1"))
        self.break_at = int(os.environ.get("FAKE_BREAK_AT", "-1"))
        self.preempt_at = int(os.environ.get("FAKE_PREEMPT_AT", "-1"))
        self.shift = float(os.environ.get("FAKE_SHIFT", "0"))
        self.unreplayable = os.environ.get("FAKE_UNREPLAYABLE") == "1"
        self.quantised_head = os.environ.get("FAKE_QUANTISED_HEAD") == "1"
        self.full_disk = os.environ.get("FAKE_FULL_DISK")
        self.no_start = os.environ.get("FAKE_NO_START") == "1"


class SamplingParams:
    def __init__(self, *, max_tokens, **_):
        self.max_tokens = max_tokens


class Model(torch.nn.Module):
    def __init__(self, faults):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.faults = faults
        self.embedding = torch.randn((PADDED, HIDDEN), generator=generator).to(torch.bfloat16)
        self.lm_head = torch.nn.Module()
        if not faults.quantised_head:
            self.lm_head.weight = torch.randn((PADDED, HIDDEN), generator=generator).to(torch.bfloat16)
        self.logits_processor = SimpleNamespace(org_vocab_size=VOCAB, scale=1.0, soft_cap=None)

    def hidden(self, ids, start):
        """Each position sees its own token and the one before."""
        rows = self.embedding[ids]
        rows = torch.tanh(rows + 0.5 * rows.roll(1, 0) + self.faults.shift).to(torch.bfloat16)
        if self.faults.nan_at >= 0:
            rows[self.faults.nan_at : self.faults.nan_at + 1] = float("nan")
        if self.faults.huge_at >= 0:  # finite, and its logits are not
            rows[self.faults.huge_at : self.faults.huge_at + 1] = 3e38
        return rows[start:]

    def compute_logits(self, rows):
        weight = self.embedding if self.faults.quantised_head else self.lm_head.weight
        logits = torch.nn.functional.linear(rows, weight)[:, :VOCAB]
        return logits * 1.5 if self.faults.unreplayable else logits


class Runner:
    def __init__(self, model):
        self.model = model
        self.sampler = self._sample
        self.kv_cache_config = None
        self.execute_model_state = None
        self.query_start_loc = SimpleNamespace(np=[0])

    def get_model(self):
        return self.model

    @staticmethod
    def _sample(*, logits, sampling_metadata):
        return SimpleNamespace(sampled_token_ids=logits.argmax(dim=1, keepdim=True))

    def execute_model(self, hidden, position, prompt_tokens):
        self.input_batch = SimpleNamespace(
            req_ids=["0"], num_computed_tokens_cpu=[position], num_prompt_tokens=[prompt_tokens]
        )
        self.execute_model_state = SimpleNamespace(
            hidden_states=hidden, scheduler_output=SimpleNamespace(num_scheduled_tokens={"0": len(hidden)})
        )

    def sample_tokens(self):
        logits = self.model.compute_logits(self.execute_model_state.hidden_states[-1:])
        return int(self.sampler(logits=logits, sampling_metadata=None).sampled_token_ids[0, 0])


class Worker:
    rank = 0
    device = "cpu"

    def __init__(self, model, config):
        self.model_runner = Runner(model)
        self.vllm_config = config


class LLM:
    def __init__(self, *, worker_extension_cls, model, **settings):
        from suite.agent.worker import CaptureWorker

        assert worker_extension_cls == "suite.agent.worker.CaptureWorker"
        self.faults = Faults()
        if self.faults.no_start:
            raise ValueError("no kernel for this head size")
        if helper := os.environ.get("FAKE_RANK"):  # another process of the engine, which nobody tells to end
            Path(helper).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        self.chunk = settings["max_num_batched_tokens"]
        kind = type("Worker", (Worker, CaptureWorker), {})
        self.worker = kind(Model(self.faults), _config(settings))

    def collective_rpc(self, method, args=()):
        return [getattr(self.worker, method)(*args)]

    def generate(self, prompts, parameters, use_tqdm):
        assert not use_tqdm
        ids = list(prompts[0]["prompt_token_ids"])
        prompt = len(ids)
        for start in range(0, prompt, self.chunk):
            if 0 <= self.faults.preempt_at < start:
                self.faults.preempt_at = -1
                self._step(ids[:start], 0, prompt)
            token = self._step(ids[: start + self.chunk], start, prompt)
        for _ in range(parameters[0].max_tokens - 1):
            ids.append(token)
            token = self._step(ids, len(ids) - 1, prompt)

    @torch.inference_mode()
    def _step(self, ids, start, prompt):
        time.sleep(self.faults.step_seconds)
        if self.faults.full_disk and start:
            # What is written under this name meets a full device.
            Path(self.faults.full_disk).symlink_to("/dev/full")
            self.faults.full_disk = None
        if 0 <= self.faults.break_at < len(ids):
            raise RuntimeError("the kernel exploded")
        runner = self.worker.model_runner
        runner.execute_model(self.worker.model_runner.model.hidden(ids, start), start, prompt)
        return runner.sample_tokens()


def _config(settings):
    layer = SimpleNamespace(
        attn_backend=SimpleNamespace(get_name=lambda: "FAKE_ATTN"),
        kv_cache_dtype="auto",
        impl=None,
        sliding_window=None,
    )
    return SimpleNamespace(
        compilation_config=SimpleNamespace(static_forward_context={"layer.0": layer}, mode=None, cudagraph_mode=None),
        cache_config=SimpleNamespace(
            cache_dtype="auto", block_size=16, enable_prefix_caching=False, kv_cache_size_tokens=4096
        ),
        model_config=SimpleNamespace(
            enforce_eager=True,
            dtype="torch.bfloat16",
            quantization=None,
            max_model_len=settings["max_model_len"],
            get_vocab_size=lambda: VOCAB,
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=settings["max_num_batched_tokens"],
            max_num_seqs=1,
            enable_chunked_prefill=True,
            async_scheduling=False,
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=1, pipeline_parallel_size=1, disable_custom_all_reduce=False
        ),
        speculative_config=None,
    )
