"""Packs without their head: it comes out of the checkpoint bit for bit, over every kind of line, or not at all."""

import base64
import json

import numpy as np
import pytest

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, sha256_bytes
from suite.reference import checkpoint as checkpoint_module
from suite.reference.pack import write_pack
from suite.reference.pull import peek, pull, verify
from suite.reference.source import HttpSource
from tests.capture.synthetic import bf16
from tests.reference.checkpoint import EMBEDDING, HEAD, capture_of, checkpoint, lock_of
from tests.reference.server import serve
from tests.reference.world import VOCABULARY, WIDTH, Parts, head_tensors, packed, stored_state

SHARD = "model-00002-of-00002.safetensors"


def without_head(tmp_path, model, shards=None, **changes):
    """A pack of a capture whose head lies in `model`, and the head files as its maker's store has them."""
    maker = tmp_path / "maker"
    stored = capture_of(maker, lock_of(tmp_path, model, **changes), shards)
    heads = maker / "captures" / "heads"
    out = tmp_path / "reference.tar"
    write_pack(stored, heads=heads, out=out, checkpoint=model, licence="CC0-1.0")
    return out, {path.name: path.read_bytes() for path in heads.iterdir()}


def heads_in(home):
    return {path.name: path.read_bytes() for path in (home / "captures" / "heads").iterdir()}


@pytest.mark.parametrize("tied", [False, True], ids=["own", "tied"])
def test_the_head_is_made_from_the_checkpoint_bit_for_bit(tmp_path, home, tied):
    model = checkpoint(tmp_path / "model", tied=tied)
    out, heads = without_head(tmp_path, model)
    record = peek(str(out)).record
    assert record.schema_version == 2
    assert [m.path for m in record.members if m.path.startswith("heads/")] == []
    assert record.heads[0].parts[0].tensor == (EMBEDDING if tied else HEAD)
    done = pull(str(out), home=home, checkpoint=str(model))
    assert heads_in(home) == heads
    assert done.stored.missing_heads(home / "captures" / "heads") == ()
    assert not list((home / "incoming").glob("[!.]*"))


def test_shards_of_ranks_and_padding_rows_come_out_too(tmp_path, home):
    model = checkpoint(tmp_path / "model", rows=VOCABULARY - 2)
    weight = head_tensors()["weight"].copy()
    weight[-2:] = 0
    half = VOCABULARY // 2
    out, heads = without_head(tmp_path, model, [weight[:half], weight[half:]])
    record = peek(str(out)).record
    assert [(h.parts[0].start, h.parts[0].rows, h.parts[0].zeros_bytes) for h in record.heads] == [
        (0, half, 0),
        (half, half - 2, 2 * WIDTH * 2),
    ]
    pull(str(out), home=home, checkpoint=str(model))
    assert heads_in(home) == heads
    assert len(heads) == 2


def test_it_packs_again_from_the_store_with_and_without_its_head(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    stored = pull(str(out), home=home, checkpoint=str(model)).stored
    heads = home / "captures" / "heads"
    write_pack(stored, heads=heads, out=tmp_path / "again.tar", checkpoint=model)
    assert (tmp_path / "again.tar").read_bytes() == out.read_bytes()
    record = write_pack(stored, heads=heads, out=tmp_path / "whole.tar")
    assert record.schema_version == 1


def test_verify_fetches_the_head_and_imports_nothing(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    verify(str(out), home=home, checkpoint=str(model))
    assert stored_state(home) == []


def test_over_http_only_the_heads_rows_are_fetched_and_a_broken_fetch_goes_on(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    shard = (model / SHARD).read_bytes()
    [head] = heads.values()
    with serve(shard, break_at=len(shard) - 700) as site:
        base = site.url.rsplit("/", 1)[0]
        with pytest.raises(MissingPrerequisite, match="broke off"):
            pull(str(out), home=home, checkpoint=base)
        assert not list((home / "captures").glob("*/pack-*"))
        [partial] = (home / "incoming").rglob("*.partial")
        kept = partial.stat().st_size
        assert 0 < kept < len(head)
        site.break_at, site.requests[:], site.sent = None, [], 0
        pull(str(out), home=home, checkpoint=base)
    assert heads_in(home) == heads
    assert site.requests[-1] == f"bytes={len(shard) - len(head) + kept}-{len(shard) - 1}"
    assert set(site.paths) == {f"/packs/{SHARD}"}
    assert site.sent < len(shard)


def test_a_server_without_ranges_serves_too(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    with serve((model / SHARD).read_bytes(), ranges=False) as site:
        pull(str(out), home=home, checkpoint=site.url.rsplit("/", 1)[0])
    assert heads_in(home) == heads


def test_any_file_system_of_fsspec_serves(tmp_path, home):
    import fsspec

    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    memory = fsspec.filesystem("memory")
    memory.pipe("/models/m/" + SHARD, (model / SHARD).read_bytes())
    try:
        pull(str(out), home=home, checkpoint="memory://models/m")
    finally:
        memory.rm("/models", recursive=True)
    assert heads_in(home) == heads


def test_a_head_that_the_store_has_is_not_fetched(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    folder = home / "captures" / "heads"
    folder.mkdir(parents=True)
    for name, data in heads.items():
        (folder / name).write_bytes(data)
    pull(str(out), home=home)
    assert heads_in(home) == heads


REVISION = "1" * 40


def test_without_a_checkpoint_the_hub_is_asked_at_the_locks_commit(tmp_path, home, monkeypatch):
    """The lock of the sample names owner/name at a commit; the token is not for the host that the hub leads on to."""
    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    seen = []
    with serve((model / SHARD).read_bytes()) as site:
        origin = site.url.split("/packs")[0]

        def address(repository, name, *, revision):
            seen.append((repository, name, revision))
            return f"{origin}/{repository}/resolve/{revision}/{name}"

        monkeypatch.setattr("huggingface_hub.hf_hub_url", address)
        monkeypatch.setattr("huggingface_hub.get_token", lambda: "secret")
        pull(str(out), home=home)
    assert set(seen) == {("owner/name", SHARD, REVISION)}
    assert set(site.paths) == {f"/owner/name/resolve/{REVISION}/{SHARD}"}
    assert set(site.authorizations) == {"Bearer secret"}
    assert heads_in(home) == heads


def test_a_token_is_not_sent_on_to_another_host():
    with serve(b"0123") as other, serve(b"") as first:
        first.redirect = other.url
        stream = HttpSource(url=first.url, authorization="Bearer secret").open_at(1, 2)
        assert stream.read(10) == b"12"
        stream.close()
    assert first.authorizations == ["Bearer secret"]
    assert other.authorizations == [None]
    assert other.requests == ["bytes=1-2"]


def test_the_machines_own_copy_comes_before_the_hub(tmp_path, home, monkeypatch):
    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    monkeypatch.setattr(checkpoint_module, "find_model", lambda *_, **__: model)
    pull(str(out), home=home)
    assert heads_in(home) == heads


def test_a_model_of_no_repository_needs_its_folder(tmp_path, home, monkeypatch):
    model = checkpoint(tmp_path / "model")
    changes = {"model__repository": None, "model__revision": None, "model__path": str(model)}
    out, heads = without_head(tmp_path, model, **changes)
    with pytest.raises(MissingPrerequisite, match=r"neither here nor in a repository(.|\n)*--checkpoint"):
        pull(str(out), home=home)
    pull(str(out), home=home, checkpoint=str(model))
    assert heads_in(home) == heads


def test_another_checkpoint_is_refused_and_leaves_the_store_alone(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    data = bytearray((model / SHARD).read_bytes())
    data[-1] ^= 1
    (model / SHARD).write_bytes(data)
    with pytest.raises(VerificationFailed, match="not the head that the pack names"):
        pull(str(out), home=home, checkpoint=str(model))
    assert not list((home / "captures").glob("*/pack-*"))
    assert not list((home / "incoming").rglob("*.partial"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends inside"),
        (b"\xff" * 64, "not a safetensors file"),
        ((4).to_bytes(8, "little") + b"[]  ", "bad safetensors header"),
        ((8).to_bytes(8, "little") + b'{"a":1} ', "bad safetensors header"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path, home, data, message):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    (model / SHARD).write_bytes(data)
    with pytest.raises(VerificationFailed, match=message):
        pull(str(out), home=home, checkpoint=str(model))


def test_an_absent_file_of_the_checkpoint_is_named(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    (model / SHARD).unlink()
    with pytest.raises(MissingPrerequisite, match=SHARD):
        pull(str(out), home=home, checkpoint=str(model))
    with pytest.raises(InvalidInput, match="no such folder"):
        pull(str(out), home=home, checkpoint=str(tmp_path / "none"))


def edit(out, change):
    parts = Parts.of(out)
    change(parts.record)
    parts.write(out)


def first_part(record):
    return record["heads"][0]["parts"][0]


HOSTILE = [
    (lambda r: first_part(r).update(file="../secret.safetensors"), "heads.0.parts.0.file"),
    (lambda r: first_part(r).update(file="/etc/passwd"), "heads.0.parts.0.file"),
    (lambda r: first_part(r).update(file="other.safetensors"), "no file of the checkpoint that the lock names"),
    (lambda r: first_part(r).update(tensor="lm_tail.weight"), "has no rows"),
    (lambda r: first_part(r).update(start=1), "has no rows"),
    (lambda r: first_part(r).update(start=-1), "heads.0.parts.0.start"),
    (lambda r: first_part(r).update(zeros_bytes=1 << 29), "larger than itself"),
    (lambda r: first_part(r).update(zeros_bytes=1 << 40), "zeros_bytes"),
    (lambda r: r["heads"][0].update(size_bytes=10), "larger than itself"),
    (lambda r: r["heads"][0].update(size_bytes=1 << 20), "not the head that the pack names"),
    (lambda r: r["heads"][0].update(header="!"), "not base64"),
    (lambda r: r["heads"][0].update(header=base64.b64encode(bytes(16)).decode()), "not the head"),
    (lambda r: r["heads"][0].update(sha256="0" * 64), "named by index.json and not in the pack|not the head"),
    (lambda r: r["heads"][0].update(parts=[]), "heads.0.parts"),
    (lambda r: r.update(heads=r["heads"] * 2), "a head is named twice"),
    (lambda r: r.update(heads=[]), "version 2 with 0 heads"),
    (lambda r: r.update(schema_version=1), "version 1 with 1 heads"),
]


@pytest.mark.parametrize(("change", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_recipe_is_refused(tmp_path, home, change, message):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    edit(out, change)
    with pytest.raises(VerificationFailed, match=message):
        pull(str(out), home=home, checkpoint=str(model))
    assert not list((home / "captures").glob("*/pack-*"))


def test_a_head_that_is_also_a_member_is_refused(tmp_path, home):
    model = checkpoint(tmp_path / "model")
    out, _ = without_head(tmp_path, model)
    heads = Parts.of(out).record["heads"]
    whole = packed(tmp_path / "w", lock=lock_of(tmp_path, model)) if (tmp_path / "w").mkdir() is None else None
    edit(whole, lambda record: record.update(schema_version=2, heads=heads))
    with pytest.raises(VerificationFailed, match="a head is named twice"):
        pull(str(whole), home=home, checkpoint=str(model))


def test_a_head_that_the_checkpoint_does_not_hold_is_packed_with_its_head_only(tmp_path):
    model = checkpoint(tmp_path / "model")
    maker = tmp_path / "maker"
    other = bf16(np.random.default_rng(77).normal(0, 1, (VOCABULARY, WIDTH)))
    stored = capture_of(maker, lock_of(tmp_path, model), [other])
    with pytest.raises(InvalidInput, match=r"does not lie in the checkpoint(.|\n)*pack it with its head"):
        write_pack(stored, heads=maker / "captures" / "heads", out=tmp_path / "p.tar", checkpoint=model)
    assert not (tmp_path / "p.tar").exists()


def test_a_checkpoint_that_is_not_the_locks_is_not_packed_from(tmp_path):
    model = checkpoint(tmp_path / "model")
    maker = tmp_path / "maker"
    stored = capture_of(maker, lock_of(tmp_path, model))
    data = bytearray((model / SHARD).read_bytes())
    at = data.index(b"model.layers.0")
    assert at
    data[len(data) - len(head_tensors()["weight"].tobytes()) - 1] ^= 1  # the tensor before the head
    (model / SHARD).write_bytes(data)
    with pytest.raises(VerificationFailed, match="not the file that the lock names"):
        write_pack(stored, heads=maker / "captures" / "heads", out=tmp_path / "p.tar", checkpoint=model)
    (model / SHARD).unlink()
    with pytest.raises(MissingPrerequisite, match="no such file"):
        write_pack(stored, heads=maker / "captures" / "heads", out=tmp_path / "p.tar", checkpoint=model)


def test_the_record_is_canonical_and_names_every_byte(tmp_path):
    model = checkpoint(tmp_path / "model")
    out, heads = without_head(tmp_path, model)
    record = Parts.of(out).record
    assert canonical_json(record) == peek(str(out)).record.to_bytes()
    [(name, data)] = heads.items()
    assert record["heads"][0]["sha256"] == sha256_bytes(data) == name.removesuffix(".safetensors")
    assert json.loads(base64.b64decode(record["heads"][0]["header"])[8:])["weight"]["shape"] == [VOCABULARY, WIDTH]
