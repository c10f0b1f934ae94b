"""What `suite image capabilities` does: find the stack, ask it, keep and print its answer."""

from __future__ import annotations

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
    from suite.run import asked
    from suite.runtime.docker import DockerRuntime
    from suite.runtime.process import ProcessRuntime
    from suite.stack.capabilities import HEAD_SIZES, ask, identities, keep, package_identity
    from suite.stack.home import suite_home

    if (name is None) == (python is None):
        raise InvalidInput("name one image, one manifest, or an interpreter with --python", where="capabilities")
    manifest = load_manifest(Path(name)) if name is not None and Path(name).suffix in (".yaml", ".yml") else None
    wanted = _capability(capability, gpu, manifest)
    home = suite_home()
    with Progress() as progress:
        observer = progress.line("capabilities")
        runtime: ProcessRuntime | DockerRuntime
        if manifest is not None:
            runtime = asked.of_manifest(manifest, home=home, root=Path.cwd(), observer=observer)
        elif python is not None:
            runtime = asked.of_interpreter(str(python), home=home, root=Path.cwd())
        else:
            runtime = asked.of_image(str(name), home=home, observer=observer)
        names = [] if manifest is None else list(identities(manifest.runtime))
        if isinstance(runtime, DockerRuntime):
            facts = runtime.image.facts
            digests = (facts.platform_digest, facts.index_digest, facts.config_digest)
            names += [str(digest).removeprefix("sha256:") for digest in digests if digest is not None]
        else:
            names.append(package_identity(runtime.packages()))
        found = ask(runtime, compute_capability=wanted, head_sizes=head_sizes or HEAD_SIZES, observer=observer)
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
