"""Two base files row by row: what llama-perplexity computes of each pair, and the same in FP64 after normalising."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.errors import RunFailed
from suite.llama.clip import ClipChoice
from suite.llama.codes import EncodedRows
from suite.llama.file import KldBlock, KldFile, Survey, open_kld, require_same_probes, survey_kld
from suite.observer import Observer, SilentObserver
from suite.score.interface import Kernel
from suite.score.numpy_kernel import NumpyKernel

KLD_CUT = np.float32(-16.0)
"""llama-perplexity leaves ids with base ln p at or below this out of the sum, whatever clip the file was written with
(ik_llama.cpp clips at max-24 and cuts at -16 all the same)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairColumns:
    """Per row, in nats; Q is the candidate."""

    nll_q: NDArray[np.float64]
    nll_base: NDArray[np.float64]
    kld: NDArray[np.float64]
    """KL(base‖Q)"""
    delta_p: NDArray[np.float64]
    """p of the target under Q minus under base, as a fraction of 1."""
    same_top: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kld)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two base files of the same tokens, compared."""

    base: Survey
    candidate: Survey
    num_chunks: int
    own: PairColumns
    """By llama-perplexity's formulas."""
    renormalised: PairColumns
    """In FP64 from distributions that sum to 1: the values of `suite score`."""
    largest_mass: float
    """Largest Σ p of a raw row of either side; what exceeds 1 is what clipping added."""


def compare_files(
    base_path: Path,
    candidate_path: Path,
    *,
    clip: ClipChoice = "auto",
    kernel: Kernel | None = None,
    observer: Observer | None = None,
) -> Pair:
    """Compare two base files; memory is that of two blocks of rows and 66 bytes a row.

    Args:
        base_path: File of the base model.
        candidate_path: File of Q, over the same text.
        clip: Of both files.
        kernel: `NumpyKernel` by default.
        observer: Told of progress, in rows.

    Raises:
        InvalidInput: a file cannot be used, or the two are not of the same tokens.
        RunFailed: a row is not finite.
    """
    observer = observer or SilentObserver()
    kernel = kernel or NumpyKernel()
    base, candidate = open_kld(base_path), open_kld(candidate_path)
    require_same_probes(base, candidate)
    surveys = [survey_kld(file, clip=clip, observer=observer) for file in (base, candidate)]
    for file, survey in zip((base, candidate), surveys, strict=True):
        if survey.non_finite_rows:
            raise RunFailed(
                f"{survey.non_finite_rows} of {file.header.num_rows} rows are not finite{_first_bad(file)}",
                where=str(file.path),
                hint="the model computed NaN or an infinity; no mean is made from such a file",
            )
    observer.phase("compare", total=base.header.num_rows, unit="rows")
    own, ours, largest_mass = [], [], 1.0
    for left, right in zip(base.blocks(), candidate.blocks(), strict=True):
        own.append(own_columns(left.encoded, right.encoded, left.target_ids))
        ours.append(renormalised_columns(left, right, kernel))
        largest_mass = max(largest_mass, float(left.encoded.mass().max()), float(right.encoded.mass().max()))
        observer.advance(len(left.positions))
    return Pair(
        base=surveys[0],
        candidate=surveys[1],
        num_chunks=base.header.num_chunks,
        own=_joined(own),
        renormalised=_joined(ours),
        largest_mass=largest_mass,
    )


def own_columns(base: EncodedRows, candidate: EncodedRows, target_ids: NDArray[np.int64]) -> PairColumns:
    """What llama-perplexity sums, in its arithmetic: float32 terms, double sums.

    KLD = Σ p (ln p - ln q) over ids with ln p > -16, with p and q as stored, not normalised; Δp = q - p of the target.
    The tool takes ln q from the running model; here it comes from a second file, so it is clipped and coded too.

    Args:
        base: n rows of the base.
        candidate: n rows of Q.
        target_ids: [n]
    """
    log_p, log_q = base.log_p(), candidate.log_p()
    at = np.arange(len(target_ids))
    nll_base, nll_q = -log_p[at, target_ids], -log_q[at, target_ids]
    kld = np.empty(len(at))
    for row in at:  # a row at a time keeps the scratch in cache
        kept = log_p[row] > KLD_CUT
        p = log_p[row][kept]
        kld[row] = (np.exp(p) * (p - log_q[row][kept])).sum(dtype=np.float64)
    return PairColumns(
        nll_q=nll_q.astype(np.float64),
        nll_base=nll_base.astype(np.float64),
        kld=kld,
        delta_p=(np.exp(-nll_q) - np.exp(-nll_base)).astype(np.float64),
        same_top=base.codes.argmax(axis=1) == candidate.codes.argmax(axis=1),
    )


def renormalised_columns(base: KldBlock, candidate: KldBlock, kernel: Kernel) -> PairColumns:
    """The same measures by a scoring kernel: FP64, every id, distributions that sum to 1."""
    scores = kernel.score_block(base.encoded.logits(), candidate.encoded.logits(), base.target_ids)
    return PairColumns(
        nll_q=scores["nll_cand"],
        nll_base=scores["nll_ref"],
        kld=scores["kl_ref_cand"],
        delta_p=np.exp(-scores["nll_cand"]) - np.exp(-scores["nll_ref"]),
        same_top=~scores["flip"],
    )


def _joined(blocks: list[PairColumns]) -> PairColumns:
    names = ("nll_q", "nll_base", "kld", "delta_p", "same_top")
    return PairColumns(**{name: np.concatenate([getattr(block, name) for block in blocks]) for name in names})


def _first_bad(file: KldFile) -> str:
    blocks: Iterator[KldBlock] = file.blocks()
    for block in blocks:
        bad = np.flatnonzero(~block.encoded.finite)
        if bad.size:
            return f", the first at position {block.positions[bad[0]]}"
    return ""
