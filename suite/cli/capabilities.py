"""What `suite image capabilities` does: find the stack, ask it, keep and print its answer."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.manifest.schema import Manifest
    from suite.stack.capabilities import Capabilities


def answer(
    name: str | None, *, python: Path | None, capability: str | None, gpu: str | None, head_sizes: tuple[int, ...]
) -> Capabilities:
    """Ask the stack that is named, and keep its answer.

    Raises:
        InvalidInput: nothing, or two things, are named, or no capability.
        MissingPrerequisite, RunFailed, VerificationFailed: see `ask` and `ensure_image`.
    """
    from suite.cli.progress import Progress
    from suite.manifest.load import load_manifest
    from suite.stack.capabilities import HEAD_SIZES, ask, identities, keep, package_identity
    from suite.stack.home import suite_home

    if (name is None) == (python is None):
        raise InvalidInput("name one image, one manifest, or an interpreter with --python", where="capabilities")
    manifest = load_manifest(Path(name)) if name is not None and Path(name).suffix in (".yaml", ".yml") else None
    asked = _capability(capability, gpu, manifest)
    home = suite_home()
    with Progress() as progress:
        observer = progress.line("capabilities")
        if python is not None or (manifest is not None and manifest.runtime.kind == "process"):
            from suite.runtime.process import ProcessRuntime, find_interpreter

            named = str(python) if python is not None else manifest.runtime.python if manifest is not None else None
            process = ProcessRuntime(find_interpreter(named, os.environ, Path.cwd()), home=home)
            names: tuple[str, ...] = (package_identity(process.packages()),)
            found = ask(process, compute_capability=asked, head_sizes=head_sizes or HEAD_SIZES, observer=observer)
        else:
            from suite.image.engine import connected
            from suite.image.ensure import ensure_image
            from suite.image.pull import ensure_pulled
            from suite.image.reference import pinned_reference
            from suite.manifest.schema import Hardware, Image
            from suite.runtime.docker import DockerRuntime

            with connected() as engine:
                if manifest is not None:
                    present = ensure_image(manifest, engine=engine, home=home, observer=observer)
                else:
                    reference = pinned_reference(str(name))
                    image = Image(repository=reference.repository, digest=reference.digest)
                    present = ensure_pulled(image, engine=engine, home=home, observer=observer)
            # No GPU is given to the container: the question needs none.
            hardware = Hardware(kind="cpu", architecture="x86_64", threads=1)
            container = DockerRuntime(present, hardware=hardware, home=home)
            facts = present.facts
            digests = (facts.platform_digest, facts.index_digest, facts.config_digest)
            own = identities(manifest.runtime) if manifest is not None else ()
            names = (*own, *(str(d).removeprefix("sha256:") for d in digests if d is not None))
            found = ask(container, compute_capability=asked, head_sizes=head_sizes or HEAD_SIZES, observer=observer)
    for identity in dict.fromkeys(names):
        keep(found, identity, home=home)
    return found


def _capability(capability: str | None, gpu: str | None, manifest: Manifest | None) -> str:
    from suite.stack.gpus import find_gpu, names

    if gpu is not None:
        facts = find_gpu(gpu)
        if facts is None:
            raise InvalidInput(f"no facts about the GPU {gpu!r}", where="--gpu", hint=f"known: {', '.join(names())}")
        return facts.compute_capability
    if capability is None and manifest is not None and manifest.hardware.kind == "cuda":
        return manifest.hardware.architecture
    if capability is None:
        raise InvalidInput(
            "for which GPU is not said", where="capabilities", hint="give --capability 12.0, or --gpu 'RTX 5090'"
        )
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]", capability):
        raise InvalidInput(f"{capability!r} is not a compute capability", where="--capability", hint="write 12.0")
    return capability


def capabilities_text(found: Capabilities) -> str:
    """A table of backends by KV caches, and the reasons below it."""
    from tabulate import tabulate

    from suite.bundle.show import shown

    kinds = found.answer.kv_cache_dtypes
    names = [b.name for b in found.answer.backends if any(not found.reasons(b.name, kv) for kv in kinds)]
    rows = [(shown(kv), *(_cell(found, name, kv) for name in names)) for kv in kinds]
    lines = [found.title, "", tabulate(rows, headers=("KV cache", *map(shown, names)), tablefmt="plain")]
    told: dict[str, list[str]] = {}
    for name in found.backend_names:
        for kv in kinds:
            if reasons := found.reasons(name, kv):
                told.setdefault(f"{name}: {'; '.join(reasons)}", []).append(kv)
    lines += ["", "why not (in the engine's words):"]
    for reason, refused in told.items():
        which = "every KV cache" if len(refused) == len(kinds) else ", ".join(refused)
        lines.append(f"  {shown(reason, limit=300)}: {shown(which, limit=300)}")
    return "\n".join(lines)


def _cell(found: Capabilities, name: str, kv: str) -> str:
    sizes = [size for size in found.answer.head_sizes if not found.reasons(name, kv, head_size=size)]
    if len(sizes) == len(found.answer.head_sizes):
        version = found.flash_attention_version() if name == "FLASH_ATTN" else None
        return "yes" if version is None else f"yes ({version})"
    return "heads of " + ", ".join(map(str, sizes)) if sizes else "-"
