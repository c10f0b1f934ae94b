"""Checkpoints made from other checkpoints, by scripts that run in the stack's own interpreter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from suite.agent import derive as gguf_script
from suite.agent import quantise as quantise_script
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed
from suite.files import canonical_json, pretty_json, sha256_bytes
from suite.model.hashes import PROVENANCE_NAME, hash_files
from suite.model.source import BF16, PackagedModel, check_scheme
from suite.model.store import disk_full, make_folder
from suite.observer import Observer

Interpreter = Path | Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""A stack's Python: its path on this machine, or what runs `SCRIPT ARGUMENTS… FOLDER` in a container."""

# Part of every derived folder's name; raised when the scripts begin to write other bytes.
RECIPE = 1
ROUND_TO_NEAREST = "round to nearest: a fixture of damage, not of quality"
_MODULE_MISSING = re.compile(r"No module named '([\w.]+)'|(requires the? (?:Accelerate|gguf)[^\n]*)", re.IGNORECASE)


def derive_bf16(model: PackagedModel, gguf: Path, *, home: Path, python: Interpreter, observer: Observer) -> Path:
    """Dequantise a packaged GGUF file to a BF16 folder, once.

    Args:
        model: Names the result, so that the same wheels always give the same folder.
        gguf: The file that `fetch_gguf` returned.
        home: The state folder.
        python: Interpreter with torch, transformers, safetensors, gguf and accelerate.
        observer: Told the phase.

    Raises:
        InvalidInput: the file is of an architecture or format that transformers does not know.
        MissingPrerequisite: the interpreter or one of its modules is absent, or the disk is full.
        RunFailed: the conversion failed otherwise.
    """
    return _derived(
        f"dequantise {gguf.name} to BF16",
        _bf16_recipe(model),
        [str(Path(gguf_script.__file__)), str(gguf)],
        home=home,
        python=python,
        observer=observer,
    )


def derive_quantised(
    source: Path, scheme: str, *, name: str, home: Path, python: Interpreter, observer: Observer
) -> Path:
    """Round the linear weights of the BF16 folder `source` to nearest, once per content and scheme.

    Args:
        source: Checkpoint folder with BF16, FP16 or FP32 safetensors.
        scheme: As in `suite.agent.quantise`, for instance `w8a8-int8` or `w4a16-g64`.
        name: Readable beginning of the result's folder name.
        home: The state folder.
        python: Interpreter with torch and safetensors.
        observer: Told the phase.

    Raises:
        InvalidInput: unknown scheme, or a source that cannot be quantised so.
        MissingPrerequisite: `source`, the interpreter or one of its modules is absent, or the disk is full.
        RunFailed: the script failed otherwise.
    """
    recipe = _quantised_recipe(source, scheme, name)
    command = [str(Path(quantise_script.__file__)), scheme, str(source)]
    return _derived(f"round {name} to {scheme}", recipe, command, home=home, python=python, observer=observer)


def find_bf16(model: PackagedModel, *, home: Path) -> Path | None:
    """The folder that `derive_bf16` made earlier; None if it has not."""
    folder = _bf16_recipe(model).folder(home)
    return folder if folder.is_dir() else None


def find_quantised(source: Path, scheme: str, *, name: str, home: Path) -> Path | None:
    """The folder that `derive_quantised` made earlier; None if it has not."""
    folder = _quantised_recipe(source, scheme, name).folder(home)
    return folder if folder.is_dir() else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recipe:
    """What decides a derived folder's content, and with it its name."""

    name: str
    identity: Mapping[str, Any]

    def folder(self, home: Path) -> Path:
        return home / "models" / "derived" / f"{self.name}-{sha256_bytes(canonical_json(self.identity))[:12]}"


def _bf16_recipe(model: PackagedModel) -> _Recipe:
    first = model.wheels[0]
    identity = {"recipe": RECIPE, "scheme": BF16, "wheels": [asdict(wheel) for wheel in model.wheels]}
    return _Recipe(name=f"{first.package}-{first.version}-{BF16}", identity=identity)


def _quantised_recipe(source: Path, scheme: str, name: str) -> _Recipe:
    check_scheme(scheme)
    files = [asdict(file) for file in hash_files(source)]
    identity = {"recipe": RECIPE, "scheme": scheme, "label": ROUND_TO_NEAREST, "source": files}
    return _Recipe(name=f"{name}-{scheme}", identity=identity)


def _derived(
    phase: str,
    recipe: _Recipe,
    command: Sequence[str],
    *,
    home: Path,
    python: Interpreter,
    observer: Observer,
) -> Path:
    def fill(folder: Path) -> None:
        observer.phase(phase)
        run_script(python, [*command, str(folder)])
        (folder / PROVENANCE_NAME).write_bytes(
            pretty_json({"schema_version": 1, "name": recipe.name, **recipe.identity})
        )

    return make_folder(recipe.folder(home), fill, observer)


def run_script(python: Interpreter, command: Sequence[str]) -> None:
    """Run one of the agent's scripts in `python`, apart from this process's packages, off the GPU and off the network.

    Raises:
        InvalidInput: the script refuses its input; the message is the script's.
        MissingPrerequisite: no such interpreter, a module is absent from it, or the disk is full.
        RunFailed: the script failed otherwise; the message is its last line.
    """
    if isinstance(python, Path) and shutil.which(python) is None:
        raise MissingPrerequisite(
            "no such interpreter", where=str(python), hint="run `make vllm` or set SUITE_VLLM_PYTHON"
        )
    done = python(command) if not isinstance(python, Path) else _run_here(python, command)
    if done.returncode == 0:
        return
    if "No space left on device" in done.stderr:
        raise disk_full(Path(command[-1]).parent)
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    where = str(python) if isinstance(python, Path) else "the image"
    if match := _MODULE_MISSING.search(done.stderr):
        raise MissingPrerequisite(
            f"a package is missing: {match[1] or match[2]}",
            where=where,
            hint="run `make vllm`, or install it there",
        )
    if lines[-1].startswith("ValueError: "):
        raise InvalidInput(lines[-1].removeprefix("ValueError: "), where=str(command[-2]))
    raise RunFailed(f"{Path(command[0]).name} failed: {lines[-1]}", where=str(command[-2]))


def _run_here(python: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return subprocess.run(
        # -P: the script's own folder must not shadow modules of the interpreter.
        [str(python), "-P", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=environment,
    )
