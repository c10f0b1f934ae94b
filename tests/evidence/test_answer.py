import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from suite.bundle.evidence import find_capture
from suite.bundle.read import open_bundle
from suite.bundle.write import write_bundle
from suite.capture.tensors import open_tensors, write_tensors
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.evidence.answer import answer_bytes, write_answer
from suite.evidence.challenge import make_challenge
from suite.evidence.check import check_answer
from suite.evidence.commitment import COMMITMENT_NAME, commit, parse_commitment
from suite.evidence.numpy_head import NumpyRows
from suite.files import canonical_json, sha256_bytes, sha256_file
from suite.score.ledger import read_ledger
from tests.bundle.test_verify import forge_ledger
from tests.bundle.world import World
from tests.evidence.world import HiddenWorld

NONCE = bytes(range(32))


def by_numpy(capture, lock, heads):
    return NumpyRows(capture=capture, heads=heads)


@dataclass
class Scene:
    """A bundle whose submitter committed, was challenged and answered."""

    bundle: Path
    captures: Path
    answer: Path
    draw: int = 5

    def __post_init__(self):
        self.commitment, self.tree = self.committed()
        self.challenge = make_challenge(self.commitment, draw=self.draw, nonce=NONCE)
        self.write()

    @property
    def sides(self):
        named = open_bundle(self.bundle).record.evidence
        return [find_capture(self.captures, side) for side in (named.reference, named.candidate)]

    def committed(self):
        ledger = read_ledger(self.bundle / "ledger.parquet")
        return commit(open_bundle(self.bundle), ledger, *self.sides)

    def write(self):
        return write_answer(self.answer, self.challenge, self.commitment, self.tree, *self.sides)

    def edit(self, change):
        tensors = open_tensors(self.answer)
        values = {name: tensors.read(name) for name in tensors.tensors}
        change(values)
        write_tensors(self.answer, values)

    def check(self, **options):
        options.setdefault("heads", (self.captures / "heads",))
        options.setdefault("challenge", self.challenge)
        options.setdefault("commitment", self.commitment)
        return check_answer(
            open_bundle(self.bundle),
            options["commitment"],
            options["challenge"],
            self.answer,
            heads=options["heads"],
            replay=by_numpy,
        )


@pytest.fixture(params=["stored rows", "hidden states", "rows of a hidden stack"])
def scene(request, tmp_path):
    if request.param == "stored rows":
        world = World(root=tmp_path)
        bundle = write_bundle(world.parts(repeats=1), results=world.results)
    else:
        world = HiddenWorld(root=tmp_path)
        bundle = world.bundle(codec="hidden" if request.param == "hidden states" else "logits")
    return Scene(bundle=bundle, captures=world.captures, answer=tmp_path / "answer.safetensors")


@pytest.fixture
def hidden(tmp_path):
    world = HiddenWorld(root=tmp_path)
    return Scene(bundle=world.bundle(), captures=world.captures, answer=tmp_path / "answer.safetensors")


def test_an_honest_answer_passes(scene):
    done = scene.check()
    assert done.drawn == 5
    assert done.rows == scene.commitment.leaves
    assert "bit for bit" in done.rows_told


def test_every_row_can_be_drawn(scene):
    scene.challenge = make_challenge(scene.commitment, draw=scene.commitment.leaves, nonce=NONCE)
    scene.write()
    assert scene.check().drawn == scene.commitment.leaves


def test_the_same_bundle_gives_the_same_root_and_a_file_that_reads_back(scene):
    again, _ = scene.committed()
    assert again == scene.commitment
    assert parse_commitment(again.to_bytes(), where="c") == again


def test_an_answer_is_as_large_as_was_said(scene):
    assert scene.answer.stat().st_size <= answer_bytes(scene.commitment, 5)


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_other_rows_are_not_the_committed_ones(scene, side):
    def change(values):
        values[f"{side}.rows"] = values[f"{side}.rows"].copy()
        values[f"{side}.rows"][3, 0] ^= 1

    scene.edit(change)
    position = read_ledger(scene.bundle / "ledger.parquet").columns["position"][scene.challenge.indices[3]]
    with pytest.raises(VerificationFailed, match=f"position {position}: the ledger's row with the answered tensors"):
        scene.check()


@pytest.mark.parametrize("name", ["top_ids", "top_logits", "logsumexp"])
def test_facts_of_a_hidden_row_are_committed_too(hidden, name):
    def change(values):
        values[f"candidate.{name}"] = values[f"candidate.{name}"][::-1]

    hidden.edit(change)
    with pytest.raises(VerificationFailed, match="is not the committed leaf"):
        hidden.check()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v.update(leaves=v["leaves"][::-1]), "other leaves than those that were drawn"),
        (lambda v: v.update(leaves=v["leaves"] * 0), "other leaves than those that were drawn"),
        (lambda v: v.update(paths=v["paths"] ^ 1), "is not the committed leaf"),
        (lambda v: v.update(paths=v["paths"][:, :1]), "the tensor 'paths' is"),
        (lambda v: v.pop("candidate.rows"), "the tensor 'candidate.rows' is None"),
        (lambda v: v.update(more=np.zeros(1)), "the tensor 'more' is"),
        (lambda v: v.update({"reference.rows": v["reference.rows"].astype(np.float32)}), "'reference.rows' is"),
        (lambda v: v.update(more=np.zeros(1 << 20, dtype=np.uint8)), "an answer has at most"),
    ],
)
def test_an_answer_of_another_form_is_refused(scene, change, told):
    scene.edit(change)
    with pytest.raises(VerificationFailed, match=told):
        scene.check()


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, (1 << 62).to_bytes(8, "little") + b"{}"])
def test_what_is_no_answer_is_refused(scene, data):
    scene.answer.write_bytes(data)
    with pytest.raises(VerificationFailed):
        scene.check()


def test_a_link_is_not_followed(scene, tmp_path):
    scene.answer.rename(tmp_path / "elsewhere")
    scene.answer.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VerificationFailed, match="not a regular file"):
        scene.check()


def test_without_an_answer_it_says_so(scene):
    scene.answer.unlink()
    with pytest.raises(InvalidInput, match="no such file"):
        scene.check()


def test_a_challenge_to_another_root_is_not_this_ones(scene):
    other = scene.challenge.model_copy(update={"root": "0" * 64})
    with pytest.raises(InvalidInput, match="the challenge is to root 000000000000"):
        scene.check(challenge=other)


def test_another_bundle_is_not_the_committed_one(scene):
    fields = scene.commitment.model_dump(mode="json", exclude={"root"}) | {"record_sha256": "0" * 64}
    other = canonical_json({**fields, "root": sha256_bytes(canonical_json(fields))})
    with pytest.raises(InvalidInput, match="a commitment to "):
        scene.check(commitment=parse_commitment(other, where="c"))


@pytest.mark.parametrize("key", ["index_sha256", "capture_digest"])
def test_a_commitment_to_other_captures_is_refused(scene, key):
    fields = scene.commitment.model_dump(mode="json", exclude={"root"})
    fields["candidate"][key] = "0" * 64
    other = parse_commitment(canonical_json({**fields, "root": sha256_bytes(canonical_json(fields))}), where="c")
    challenge = make_challenge(other, draw=5, nonce=NONCE)
    with pytest.raises(VerificationFailed, match=f"candidate.{key}: the commitment says"):
        scene.check(commitment=other, challenge=challenge)


def test_a_bundle_that_does_not_verify_is_not_looked_at_further(scene):
    (scene.bundle / "engine.log").write_text("another")
    with pytest.raises(VerificationFailed, match=r"engine\.log"):
        scene.check()


def test_a_forged_row_passes_unless_it_is_drawn(tmp_path):
    """The forger edits a row, rebuilds everything and commits to it, with the captures that it has."""
    world = World(root=tmp_path)
    bundle = write_bundle(world.parts(repeats=1), results=world.results)
    forge_ledger(bundle, kl_ref_cand={2: 40.0})
    scene = Scene(bundle=bundle, captures=world.captures, answer=tmp_path / "a")
    outcomes = set()
    for nonce in range(12):
        scene.challenge = make_challenge(scene.commitment, draw=5, nonce=bytes([nonce]) * 32)
        scene.write()
        if 2 in scene.challenge.indices:
            with pytest.raises(VerificationFailed, match=r"position 2: kl_ref_cand is 40\.0, the evidence gives"):
                scene.check()
        else:
            scene.check()
        outcomes.add(2 in scene.challenge.indices)
    assert outcomes == {True, False}


def test_a_ledger_changed_after_the_commitment_is_not_the_committed_one(tmp_path):
    world = World(root=tmp_path)
    bundle = write_bundle(world.parts(repeats=1), results=world.results)
    scene = Scene(bundle=bundle, captures=world.captures, answer=tmp_path / "a", draw=11)
    forge_ledger(bundle, kl_ref_cand={2: 40.0})
    with pytest.raises(InvalidInput, match="a commitment to "):
        scene.check()


def test_another_head_is_not_the_committed_one(hidden, tmp_path):
    heads = tmp_path / "other"
    shutil.copytree(hidden.captures / "heads", heads)
    (path,) = heads.iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(VerificationFailed, match="the head's bytes are not those of its name"):
        hidden.check(heads=(heads,))
    with pytest.raises(MissingPrerequisite, match="is not at hand"):
        hidden.check(heads=(tmp_path / "nowhere",))


def test_a_committed_head_that_is_none_is_refused_whoever_replays(hidden, tmp_path):
    """A submitter may commit to any file; its metadata would be read by torch."""
    heads = tmp_path / "hostile"
    write_tensors(
        heads / "draft",
        {"weight": np.zeros((128, 8), dtype=np.uint16)},
        metadata={"vocab_size": "128", "scale": "1.0", "soft_cap": "null", "dtype": '"load"'},
    )
    name = sha256_file(heads / "draft")
    (heads / "draft").rename(heads / f"{name}.safetensors")
    fields = hidden.commitment.model_dump(mode="json", exclude={"root"})
    fields["reference"]["head"]["sha256s"] = [name]
    forged = parse_commitment(canonical_json({**fields, "root": sha256_bytes(canonical_json(fields))}), where="c")
    hidden.challenge = make_challenge(forged, draw=5, nonce=NONCE)
    hidden.commitment = forged
    hidden.write()
    replayed = []
    with pytest.raises(VerificationFailed, match="dtype is 'load', none of"):
        check_answer(
            open_bundle(hidden.bundle),
            forged,
            hidden.challenge,
            hidden.answer,
            heads=(heads,),
            replay=lambda capture, lock, folder: replayed.append(folder),
        )
    assert replayed == []


def test_an_answer_above_the_limit_is_not_asked_for(scene):
    wide = scene.commitment.model_copy(
        update={
            "leaves": 1 << 20,
            "candidate": scene.commitment.candidate.model_copy(update={"row_width": 1 << 20, "vocab_size": 1 << 20}),
        }
    )
    with pytest.raises(InvalidInput, match="at most 2,147,483,648 are read"):
        answer_bytes(wide, 4096)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(leaves=v["leaves"] + 1),
        lambda v: v.update(tree="0" * 64),
        lambda v: v.update(schema_version=True),
        lambda v: v.update(schema_version=2),
        lambda v: v["candidate"].update(codec="rows"),
        lambda v: v["reference"].update(vocab_size=1 << 25),
        lambda v: v.update(more=1),
    ],
)
def test_a_commitment_that_is_none_is_refused(scene, change):
    value = json.loads(scene.commitment.to_bytes())
    change(value)
    with pytest.raises(InvalidInput):
        parse_commitment(canonical_json(value), where=COMMITMENT_NAME)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"head": None}, "belongs to codec `hidden`"),
        ({"rows_per_gemm": 0}, "rows_per_gemm is 0"),
        ({"codec": "logits", "head": None}, "row_width differs from vocab_size"),
    ],
)
def test_sides_that_cannot_be_read_are_refused(hidden, change, told):
    value = json.loads(hidden.commitment.to_bytes())
    value["candidate"] |= change
    with pytest.raises(InvalidInput, match=told):
        parse_commitment(canonical_json(value), where=COMMITMENT_NAME)
