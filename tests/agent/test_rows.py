"""Facts about rows and the head's arithmetic, computed in the stack's own torch and compared here with NumPy."""

import hashlib

import numpy as np
import pytest

from tests.capture.synthetic import bf16

pytestmark = pytest.mark.vllm

_FACTS = """
import json, sys
import numpy as np, torch
from suite.agent.rows import row_facts
found = []
for path in sys.argv[1:]:
    facts = row_facts(torch.from_numpy(np.load(path).view(np.int16)).view(torch.bfloat16))
    found.append({n: (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).tolist() for n, t in facts.items()})
print(json.dumps(found))
"""
SHAPES = [(1, 300), (70, 300), (3, 5)]


@pytest.fixture(scope="module")
def stored_and_found(tmp_path_factory, in_stack):
    """Rows of each shape as bits, and their facts, all from one process."""
    folder = tmp_path_factory.mktemp("rows")
    stored, paths = {}, []
    for rows, width in SHAPES:
        generator = np.random.default_rng(rows)
        bits = bf16(generator.normal(size=(rows, width)) * 4)  # many values are equal after rounding
        bits[0, [1, 2, 4]] = bf16(np.float32(50))  # the best logit of row 0 stands three times
        stored[rows, width] = bits
        paths.append(folder / f"{rows}.npy")
        np.save(paths[-1], bits)
    return {shape: (stored[shape], facts) for shape, facts in zip(SHAPES, in_stack(_FACTS, *paths), strict=True)}


@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_facts_are_those_that_numpy_finds(stored_and_found, rows, width):
    bits, facts = stored_and_found[rows, width]
    values = (bits.astype(np.uint32) << 16).view(np.float32)
    for i, row in enumerate(values):
        assert bytes(facts["row_sha256"][i]) == hashlib.sha256(bits[i].tobytes()).digest()
        exact = row.astype(np.float64)
        total = exact.max() + np.log(np.exp(exact - exact.max()).sum())
        assert facts["logsumexp"][i] == pytest.approx(total, rel=1e-14)
        count = min(64, width)
        kept = np.array(facts["top_ids"][i])
        best = np.argsort(-row, kind="stable")[:count]  # lowest id first among equals
        above = row[best] > row[best[-1]]
        assert len(kept) == count == len(set(kept))
        assert (kept[above] == best[above]).all()
        assert (row[kept] == row[best]).all()
        last = kept[~above]
        assert (np.diff(last) > 0).all()
        assert (np.array(facts["top_logits"][i], dtype=np.int16).view(np.uint16) == bits[i][kept]).all()


_NON_FINITE = """
import json, sys
import torch
from suite.agent.rows import num_non_finite_rows
rows = torch.zeros(6, 300, dtype=torch.bfloat16)
whole = num_non_finite_rows(rows)
for row, value in ((0, "nan"), (2, "inf"), (3, "-inf"), (5, "nan")):
    rows[row, 37 * row] = float(value)
rows[5, 0] = float("inf")
print(json.dumps([whole, num_non_finite_rows(rows)]))
"""


def test_a_row_with_one_value_that_is_not_finite_is_counted_once(in_stack):
    assert in_stack(_NON_FINITE) == [0, 4]


_HEAD = """
import json, sys
from pathlib import Path
import torch
from safetensors.torch import load_file
from suite.agent.chunks import file_sha256
from suite.agent.events import AgentFailure
from suite.agent.head import describe_head, load_head, pad_rows, save_shard
from suite.agent.tensors import write_tensors
from types import SimpleNamespace as N

folder = Path(sys.argv[1])
torch.manual_seed(0)
rows = torch.randn(5, 8)
padded = pad_rows(rows, 7)
checks = {
    "padded": padded.shape == (7, 8) and torch.equal(padded[:5], rows) and not padded[5:].any().item(),
    "whole": pad_rows(rows, 5) is rows,
}

weight, bias = torch.randn(12, 8), torch.randn(12)
def model(**changes):
    head = N(weight=changes.pop("weight", weight), bias=changes.pop("bias", None))
    return N(lm_head=head, logits_processor=N(**({"org_vocab_size": 10, "scale": 1.0, "soft_cap": None} | changes)))

def replay(shards, **settings):
    parts = [describe_head(model(weight=w, bias=b, **settings)) for w, b in shards]
    names = [save_shard(folder, rank, part) for rank, part in enumerate(parts)]
    return names, load_head(folder, names, "cpu").logits(rows, 4)

plain = torch.nn.functional.linear(rows, weight)
names, logits = replay([(weight, None)])
checks["cut"] = logits.shape == (5, 10) and torch.allclose(logits, plain[:, :10])
checks["named by hash"] = file_sha256(folder / f"{names[0]}.safetensors") == names[0]
checks["stored once"] = replay([(weight, None)])[0] == names and len(list(folder.iterdir())) == 1
checks["shards"] = torch.allclose(replay([(weight[:6], None), (weight[6:], None)])[1], plain[:, :10])
checks["bias"] = torch.allclose(replay([(weight, bias)])[1], (plain + bias)[:, :10])
checks["cap and scale"] = torch.allclose(
    replay([(weight, None)], soft_cap=2.0, scale=0.5)[1], torch.tanh(plain / 2)[:, :10] * 2 * 0.5
)
alone = torch.cat([load_head(folder, names, "cpu").logits(row[None], 4) for row in rows])
checks["no neighbours"] = torch.equal(alone, logits)
checks["nothing"] = load_head(folder, names, "cpu").logits(rows[:0], 4).shape == (0, 10)
checks["nested"] = describe_head(N(language_model=model()))["vocab_size"] == 10
live = load_head(folder, names, "cpu", live={names[0]: weight})
checks["live weights"] = live.weights[0] is weight and torch.equal(live.logits(rows, 4), logits)
checks["int8 is not kept"] = describe_head(model(weight=weight.to(torch.int8))) is None
checks["fp8 is not kept"] = describe_head(model(weight=weight.to(torch.float8_e4m3fn))) is None
checks["no head"] = describe_head(N()) is None

path = folder / f"{names[0]}.safetensors"
data = bytearray(path.read_bytes())
data[-1] ^= 1
path.write_bytes(data)
try:
    load_head(folder, names, "cpu")
    checks["changed"] = False
except AgentFailure as failure:
    checks["changed"] = failure.kind == "altered"

tensors = {
    "a": torch.randn(3, 4).to(torch.bfloat16)[:, 1:3],
    "b": torch.arange(3),
    "c": torch.tensor([1.5], dtype=torch.float64),
    "d": torch.arange(2, dtype=torch.int32),
    "e": torch.zeros((0, 4), dtype=torch.uint8),
    "f": torch.ones(2, dtype=torch.float16),
}
sha, size = write_tensors(folder / "t", tensors, metadata={"k": "v"})
back = load_file(folder / "t")
checks["tensors"] = back.keys() == tensors.keys() and all(torch.equal(back[n], tensors[n]) for n in tensors)
checks["size and hash"] = (sha, size) == (file_sha256(folder / "t"), (folder / "t").stat().st_size)
print(json.dumps({name: bool(value) for name, value in checks.items()}))
"""


def test_a_stored_head_gives_the_logits_and_files_are_what_they_say(tmp_path, in_stack):
    checks = in_stack(_HEAD, tmp_path)
    assert {name for name, good in checks.items() if not good} == set()
    assert len(checks) == 18
