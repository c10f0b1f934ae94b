"""The stack's two kernels against the plain one here: Triton in its interpreter, and torch."""

import numpy as np
import pytest

from suite.score.interface import KERNEL_COLUMNS
from suite.score.numpy_kernel import NumpyKernel
from tests.capture.synthetic import bf16
from tests.score.test_numba_kernel import STORED, assert_agree

pytestmark = pytest.mark.vllm

_SCORE = """
import os, sys, warnings
os.environ["TRITON_INTERPRET"] = "1"
warnings.filterwarnings("ignore", category=RuntimeWarning)  # NaN rows are meant to be
import numpy as np, torch
from suite.agent.scoring import torch_kernel, triton_kernel
from suite.agent.scoring.columns import columns_of
from suite.agent.scoring.score import score_pairs

def tensor(rows):
    rows = torch.from_numpy(rows.view(np.int16) if rows.dtype == np.uint16 else rows)
    return rows.view(torch.bfloat16) if rows.dtype == torch.int16 else rows

cases = np.load(sys.argv[1])
found = {}
for case in range(int(cases["count"])):
    first, second = (tensor(cases[f"{side}{case}"]) for side in ("first", "second"))
    targets = torch.from_numpy(cases[f"targets{case}"])
    for name in sys.argv[3].split(","):
        if name == "torch":
            columns = score_pairs(first, second, targets)
        else:
            columns = columns_of(triton_kernel.measure(first, second, block=128, num_warps=4), first, second, targets)
        found |= {f"{name} {case} {column}": values.numpy() for column, values in columns.items()}
np.savez(sys.argv[2], **found)
print("{}")
"""


def check(tmp_path, in_stack, cases, kernels):
    arrays = {"count": np.array(len(cases))}
    for i, (first, second, targets) in enumerate(cases):
        arrays |= {f"first{i}": first, f"second{i}": second, f"targets{i}": targets}
    np.savez(tmp_path / "cases.npz", **arrays)
    in_stack(_SCORE, tmp_path / "cases.npz", tmp_path / "found.npz", ",".join(kernels))
    with np.load(tmp_path / "found.npz") as found:
        for i, case in enumerate(cases):
            expected = NumpyKernel().score_block(*case)
            for kernel in kernels:
                assert_agree({name: found[f"{kernel} {i} {name}"] for name in KERNEL_COLUMNS}, expected)


def rows_of(random, kinds, width, *, count=4, centre=12.0, scale=4.0, noise=0.1, grid=False):
    first = random.normal(centre, scale, (count, width))
    second = first + random.normal(0, noise, first.shape)
    if grid:
        first, second = first.round(), second.round()
    sides = [STORED[kind](side.clip(-6e4, 6e4)) for kind, side in zip(kinds, (first, second), strict=True)]
    return *sides, random.integers(0, width, count)


KINDS = (("bfloat16", "bfloat16"), ("float32", "bfloat16"), ("float16", "float16"), ("bfloat16", "float32"))


def test_torch_agrees(tmp_path, in_stack):
    random = np.random.default_rng(0)
    shapes = ({}, {"grid": True}, {"scale": 1e4, "noise": 1e4}, {"scale": 0.0, "noise": 0.0}, {"centre": -30.0})
    cases = [
        rows_of(random, kinds, width, **shape) for kinds in KINDS for width in (2, 3, 300, 5000) for shape in shapes
    ]
    check(tmp_path, in_stack, cases, ["torch"])


def test_triton_agrees(tmp_path, in_stack):
    random = np.random.default_rng(1)
    shapes = ({"scale": 1e4, "noise": 1e4}, {"grid": True})
    cases = [rows_of(random, kinds, 300, count=2) for kinds in KINDS]
    cases += [rows_of(random, KINDS[0], width, count=2, **shape) for width in (2, 128, 257) for shape in shapes]
    check(tmp_path, in_stack, cases, ["triton"])


def test_rows_that_are_equal_or_not_finite(tmp_path, in_stack):
    rows = bf16(np.random.default_rng(2).normal(10, 4, (5, 200)))
    other = rows.copy()
    other[1, 199], other[2, 0], other[3, 7] = bf16(np.array([np.nan, np.inf, -np.inf]))
    targets = np.arange(5)
    check(tmp_path, in_stack, [(rows, other, targets), (other, rows, targets)], ["torch", "triton"])
    with np.load(tmp_path / "found.npz") as found:
        for kernel in ("torch", "triton"):
            for name in ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation"):
                assert (found[f"{kernel} 0 {name}"][[0, 4]] == 0).all(), (kernel, name)
