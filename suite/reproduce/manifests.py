"""A stranger's lock as manifests of this machine: what was parsed of it is written anew, and nothing else is taken.

The bundle's own `manifest.yaml` is never read. Left out is what the captured numbers do not rest on: futures of flips,
turn replays and serve settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.bundle.replays import find_session
from suite.errors import InvalidInput, VerificationFailed
from suite.files import sha256_file, write_atomic
from suite.image.recipe import FOLDER as RECIPES
from suite.manifest.load import dump_yaml
from suite.manifest.lock import Lock
from suite.workload.session import Session

CANDIDATE = "candidate.yaml"
REFERENCE = "reference.yaml"
_SESSION = "workloads/session.json"
_MOST_TEMPLATES = 1_000


def session_of(lock: Lock, *, root: Path) -> Session:
    """The session that a lock names by digest, from the repository's `workloads`.

    Raises:
        InvalidInput: it is not there.
    """
    session = find_session(root, lock.workload.digest)
    if session is None:
        raise InvalidInput(
            f"the session {lock.workload.name} ({lock.workload.digest[:12]}) is not among workloads/*/*.json here",
            where=lock.name,
            hint="a session is taken by its digest from this repository, never from a bundle: run this in it, "
            "or write it there again from its seed with `suite workload synthesize`",
        )
    return session


def template_of(lock: Lock, *, root: Path) -> Path | None:
    """The chat template that a lock names by hash among the repository's; None: the checkpoint's own, by hash too."""
    for number, path in enumerate(sorted(root.glob("workloads/**/*.jinja"))):
        if number < _MOST_TEMPLATES and sha256_file(path) == lock.chat_template_sha256:
            return path
    return None


def write_manifests(candidate: Lock, reference: Lock, folder: Path, *, session: Session, root: Path) -> Path:
    """Write a small repository of the two stacks below `folder`; returns the candidate's manifest.

    Args:
        candidate: The lock to run; its capture policy may have been drawn.
        reference: The lock that it is compared with, of the same policy.
        folder: New or empty.
        session: What both run.
        root: The repository, for chat templates and recipes of images.
    """
    write_atomic(folder / _SESSION, session.to_json())
    for name in (RECIPES, "requirements"):
        if (root / name).is_dir() and not (folder / name).exists():
            (folder / name).symlink_to((root / name).resolve(), target_is_directory=True)
    manifests = folder / "manifests"
    same_name = reference.name == candidate.name
    for name, lock, role, extra in (
        (REFERENCE, reference, "reference", {"name": f"{reference.name[:70]}-reference"} if same_name else {}),
        (CANDIDATE, candidate, candidate.role, {"reference": REFERENCE, "repeats": 1}),
    ):
        template = template_of(lock, root=root)
        if template is not None:
            write_atomic(folder / _template(lock), template.read_bytes())
        value = _manifest(lock, has_template=template is not None)
        text = dump_yaml(value | {"role": role} | extra)
        write_atomic(manifests / name, text.encode())
    return manifests / CANDIDATE


def _template(lock: Lock) -> str:
    return f"workloads/{lock.chat_template_sha256[:12]}.jinja"


def _manifest(lock: Lock, *, has_template: bool) -> dict[str, Any]:
    value = lock.to_json()
    source, capture = value["model"]["source"], value["capture"]
    runtime: dict[str, Any] = {"kind": lock.runtime.kind, "packages": value["runtime"].get("packages", {})}
    if lock.runtime.image is None:
        runtime["python"] = "auto"
    elif lock.runtime.image.build is None:
        runtime["image"] = value["runtime"]["image"]
    else:
        runtime["image"] = {"build": lock.runtime.image.build.recipe} | (
            {"vllm_version": lock.runtime.image.vllm_version} if lock.runtime.image.vllm_version else {}
        )
    return {
        "schema_version": 1,
        "name": lock.name,
        "runtime": runtime,
        "hardware": value["hardware"],
        "engine": value["engine"],
        "environment": value["environment"],
        "model": source
        | {key: value["model"][key] for key in ("base", "weight_format") if key in value["model"]}
        | {"tokenizer_sha256": lock.tokenizer_sha256, "chat_template_sha256": lock.chat_template_sha256},
        "workload": {"session": _SESSION, "sha256": lock.workload.digest}
        | ({"chat_template": _template(lock)} if has_template else {}),
        "capture": capture | {"ranges": capture["ranges"] or "none"},
    }


def require_same_lock(claimed: Lock, found: Lock, *, where: str) -> None:
    """See that what was resolved here is what the lock says: the same checkpoint, session, packages and settings.

    An image that was built here from the same recipe has another configuration than on the machine that made the
    lock; that alone may differ.

    Raises:
        VerificationFailed: naming what differs first.
    """
    # Locks of before the kind of processor was recorded leave it open.
    with_isa = claimed.hardware.isa is not None
    ours, theirs = (_numbers(lock, with_isa=with_isa) for lock in (found, claimed))
    if ours == theirs:
        return
    key = next(key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != theirs.get(key))
    detail = _first_file(claimed, found) if key == "model.files" else ""
    raise VerificationFailed(
        f"{key} is not what the lock says{detail}",
        where=where,
        hint="what was fetched or made here is another stack: it cannot show whether the bundle is right",
    )


def _numbers(lock: Lock, *, with_isa: bool) -> dict[str, Any]:
    """What decides the captured numbers, by key; compare `Lock.capture_digest`."""
    image = lock.runtime.image
    built = image is not None and image.build is not None
    return {
        "runtime.kind": lock.runtime.kind,
        "runtime.packages": lock.runtime.packages,
        "runtime.image": (image.build if built else image.digest) if image is not None else None,
        "hardware": lock.hardware.model_dump(exclude=None if with_isa else {"isa"}),
        "engine": lock.engine,
        "environment": lock.environment,
        "model.files": {file.path: file.sha256 for file in lock.model.files},
        "tokenizer": lock.tokenizer_sha256,
        "chat_template": lock.chat_template_sha256,
        "workload": (lock.workload.digest, lock.workload.tokens_sha256, lock.workload.num_tokens),
        "capture": lock.capture,
    }


def _first_file(claimed: Lock, found: Lock) -> str:
    theirs, ours = claimed.model_file_hashes, found.model_file_hashes
    name = next(name for name in sorted(theirs.keys() | ours.keys()) if theirs.get(name) != ours.get(name))
    here, there = (hashes.get(name, "none")[:12] for hashes in (ours, theirs))
    return f": {ascii(name)[1:-1]} has SHA-256 {here}, the lock {there}"
