"""One spoilt pack per threat, each refused with its own message, and the store left as it was."""

import bz2
import gzip
import json
import tarfile

import numpy as np
import pytest

from suite.capture.tensors import open_tensors, write_tensors
from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json, pretty_json
from suite.reference.pull import pull, verify
from suite.reference.schema import RECORD_NAME
from tests.reference.world import HEAD_METADATA, Parts, head_tensors, packed, stored_state

HOSTILE = {}


def hostile(told, error=VerificationFailed):
    def keep(function):
        HOSTILE[function.__name__] = (function, told, error)
        return function

    return keep


def member_entry(kind, link=""):
    """The header before the first member after pack.json, made another kind of entry."""

    def edit(info, number):
        if number == 1:
            info.type, info.linkname = kind, link

    return edit


def renamed(name, at=1):
    def edit(info, number):
        if number == at:
            info.name = name

    return edit


@hostile("compressed \\(gzip\\)")
def compressed(pack):
    pack.write_bytes(gzip.compress(pack.read_bytes()))


@hostile("compressed \\(bzip2\\)")
def compressed_otherwise(pack):
    pack.write_bytes(bz2.compress(pack.read_bytes()))


@hostile("not a reference pack")
def noise(pack):
    pack.write_bytes(b"\0" * 5000)


@hostile("not a reference pack")
def empty(pack):
    pack.write_bytes(b"")


@hostile("does not begin with pack.json but with 'first.json'")
def another_first_member(pack):
    Parts.of(pack).write(pack, edit=renamed("first.json", at=0))


@hostile("pack.json: 9,000,000 bytes; at most 8,388,608 are read")
def huge_record(pack):
    def edit(info, number):
        info.size = 9_000_000 if number == 0 else info.size

    Parts.of(pack).write(pack, edit=edit)


@hostile("pack.json: 0 bytes")
def record_without_bytes(pack):
    Parts.of(pack).write(pack, edit=lambda info, number: setattr(info, "size", 0 if number == 0 else info.size))


def _with_record(pack, data):
    parts = Parts.of(pack)
    info = tarfile.TarInfo(RECORD_NAME)
    info.size = len(data)
    rest = pack.read_bytes()
    old = len(canonical_json(parts.record))
    pack.write_bytes(
        info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512) + rest[512 + old + (-old % 512) :]
    )


@hostile("the key 'start' stands twice", InvalidInput)
def key_twice(pack):
    data = canonical_json(Parts.of(pack).record)
    _with_record(pack, data.replace(b'"start":0', b'"start":0,"start":1'))


@hostile("not JSON", InvalidInput)
def deep_record(pack):
    _with_record(pack, b"[" * 100_000)


@hostile("NaN is not a number", InvalidInput)
def nan_in_record(pack):
    _with_record(pack, canonical_json(Parts.of(pack).record).replace(b'"start":0', b'"start":NaN'))


@hostile("not written in the form of a pack's record")
def other_form(pack):
    _with_record(pack, pretty_json(Parts.of(pack).record))


@hostile("schema version 3 is newer", InvalidInput)
def newer(pack):
    parts = Parts.of(pack)
    parts.record["schema_version"] = 3
    parts.write(pack)


@hostile("more: Extra inputs are not permitted")
def unknown_key(pack):
    parts = Parts.of(pack)
    parts.record["more"] = 1
    parts.write(pack)


def listed(name):
    def spoil(pack):
        parts = Parts.of(pack)
        parts.record["members"][-1]["path"] = name
        parts.write(pack)

    return spoil


for key, name, told in (
    ("absolute", "/etc/passwd", "'/etc/passwd': an absolute path"),
    ("drive", "C:\\x.safetensors", "an absolute path"),
    ("parent", "heads/../../x.safetensors", "leads out of the pack"),
    ("parent_by_backslash", "..\\x.safetensors", "leads out of the pack"),
    ("deep", "heads/a/b/c.safetensors", "nested deeper"),
    ("foreign", "chunk-00000.pickle", "'chunk-00000.pickle': no pack holds such a file"),
    ("unicode", "chunk-0000０.safetensors", "no pack holds such a file"),
    ("hidden_end", "chunk-00002.safetensors\n", "no pack holds such a file"),
    ("null", "chunk-00002.safetensors\0.sh", "no pack holds such a file"),
    ("own_record", "pack.json", "no pack holds such a file"),
):
    HOSTILE[f"listed_{key}"] = (listed(name), told, VerificationFailed)


@hostile("a file is listed twice")
def listed_twice(pack):
    parts = Parts.of(pack)
    parts.record["members"].append(parts.record["members"][-1])
    parts.write(pack)


@hostile("receipt.json is absent")
def listed_without_receipt(pack):
    parts = Parts.of(pack)
    parts.record["members"] = [m for m in parts.record["members"] if m["path"] != "receipt.json"]
    parts.write(pack)


@hostile("not in the order of a pack")
def listed_out_of_order(pack):
    parts = Parts.of(pack)
    parts.record["members"].reverse()
    parts.write(pack)


@hostile("'lock.json': 99,999,999 bytes; at most 16,777,216 are read")
def large_lock(pack):
    parts = Parts.of(pack)
    parts.record["members"][0]["size_bytes"] = 99_999_999
    parts.write(pack)


@hostile("size_bytes: Input should be less than or equal to")
def large_chunk(pack):
    parts = Parts.of(pack)
    parts.record["members"][-1]["size_bytes"] = 1 << 40
    parts.write(pack)


def _many(pack, count, size):
    parts = Parts.of(pack)
    parts.record["members"] += [
        {"path": f"chunk-{n:08d}.safetensors", "size_bytes": size, "sha256": "0" * 64} for n in range(count)
    ]
    parts.record["members"].sort(
        key=lambda m: (("lock.json", "index.json", "receipt.json", "h", "c").index(
            m["path"] if m["path"].endswith(".json") else m["path"][0]), m["path"])
    )  # fmt: skip
    parts.write(pack)


@hostile("members: Tuple should have at most 16384 items")
def many_members(pack):
    _many(pack, 16_400, 1)


@hostile("bytes together; at most 549,755,813,888 are read")
def large_together(pack):
    _many(pack, 70, (8 << 30) - 1)


for key, kind, told in (
    ("symbolic_link", tarfile.SYMTYPE, "'lock.json' is a symbolic link"),
    ("hard_link", tarfile.LNKTYPE, "'lock.json' is a hard link"),
    ("character_device", tarfile.CHRTYPE, "'lock.json' is a character device"),
    ("block_device", tarfile.BLKTYPE, "'lock.json' is a block device"),
    ("named_pipe", tarfile.FIFOTYPE, "'lock.json' is a named pipe"),
    ("folder_entry", tarfile.DIRTYPE, "is a folder entry"),
    ("sparse", tarfile.GNUTYPE_SPARSE, "'lock.json' is a sparse file"),
    ("long_name", tarfile.GNUTYPE_LONGNAME, "'lock.json' is a long-name header"),
    ("extended", tarfile.XHDTYPE, "'lock.json' is an extended header"),
    ("global_header", tarfile.XGLTYPE, "'lock.json' is a global extended header"),
    ("unknown_kind", b"Z", "'lock.json' is an entry of type 'Z'"),
):
    HOSTILE[key] = (
        lambda pack, kind=kind: Parts.of(pack).write(pack, edit=member_entry(kind, "/etc/passwd")),
        told,
        VerificationFailed,
    )

for key, name, told in (
    ("member_absolute", "/etc/passwd", "'/etc/passwd' where lock.json is expected: an absolute path"),
    ("member_parent", "../../lock.json", "leads out of the pack"),
    ("member_elsewhere", "index.json", "'index.json' where lock.json is expected: out of order"),
    ("member_foreign", "lock.py", "'lock.py' where lock.json is expected: no pack holds such a file"),
):
    HOSTILE[key] = (
        lambda pack, name=name: Parts.of(pack).write(pack, edit=renamed(name)),
        told,
        VerificationFailed,
    )


@hostile("the header of lock.json does not say what pack.json lists")
def another_size(pack):
    Parts.of(pack).write(pack, edit=lambda info, n: setattr(info, "size", info.size + (n == 1)))


@hostile("the header of lock.json does not say what pack.json lists")
def set_user_id(pack):
    Parts.of(pack).write(pack, edit=lambda info, n: setattr(info, "mode", 0o4755 if n == 1 else info.mode))


@hostile("the header of pack.json is not that of a pack")
def record_of_somebody(pack):
    Parts.of(pack).write(pack, edit=lambda info, n: setattr(info, "uname", "root" if n == 0 else ""))


@hostile("ends inside chunk-00002.safetensors")
def truncated(pack):
    pack.write_bytes(pack.read_bytes()[:-2_000])


@hostile("ends where chunk-00002.safetensors is expected")
def truncated_before_a_member(pack):
    size = len(Parts.of(pack).members["chunk-00002.safetensors"])
    pack.write_bytes(pack.read_bytes()[: -(1024 + size + -size % 512 + 512)])


@hostile("the pack ends where chunk-00002.safetensors is expected")
def member_left_out(pack):
    parts = Parts.of(pack)
    del parts.members["chunk-00002.safetensors"]
    parts.write(pack)


def changed_member(name):
    def spoil(pack):
        parts = Parts.of(pack)
        [path] = [n for n in parts.members if n.startswith(name)]
        data = bytearray(parts.members[path])
        data[len(data) // 2] ^= 1
        parts.members[path] = bytes(data)
        parts.write(pack)

    return spoil


for name in ("lock.json", "index.json", "receipt.json", "heads/", "chunk-00001"):
    HOSTILE[f"changed_{name.strip('/')}"] = (
        changed_member(name),
        f"{name}.*: its bytes are not those that pack.json lists",
        VerificationFailed,
    )


@hostile("bytes that are no padding lie after lock.json")
def smuggled_padding(pack):
    data = bytearray(pack.read_bytes())
    at = data.index(b"index.json\0", 1024)
    data[at - 1] = 1
    pack.write_bytes(data)


@hostile("a member follows that pack.json does not list")
def one_more(pack):
    info = tarfile.TarInfo("run.sh")
    pack.write_bytes(pack.read_bytes()[:-1024] + info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))


@hostile("bytes follow the end of the pack")
def something_behind(pack):
    pack.write_bytes(pack.read_bytes() + bytes(10))


@hostile("ends before its closing blocks")
def no_end(pack):
    pack.write_bytes(pack.read_bytes()[:-512])


def resealed(change):
    def spoil(pack):
        parts = Parts.of(pack)
        change(parts)
        parts.seal()
        parts.write(pack)

    return spoil


def content(told):
    def keep(change):
        HOSTILE[change.__name__] = (resealed(change), told, VerificationFailed)
        return change

    return keep


@content("the environment sets 'LD_PRELOAD': not an allowed variable")
def loaded_library(parts):
    parts.edit_lock(lambda lock: lock["environment"].update(LD_PRELOAD="evil.so"))


@content("reference_lock_digest: the pack says 0000")
def another_lock_digest(parts):
    parts.record["reference_lock_digest"] = "0" * 64


@content("capture_digest: the pack says [0-9a-f]{64}, its index.json 0000")
def another_capture(parts):
    parts.edit_index(lambda index: index.update(capture_digest="0" * 64))


@content("num_rows: the pack says 28, its index.json 29")
def another_count(parts):
    parts.record["num_rows"] = 28


@content("tokens_sha256: the pack says 0000")
def another_text(parts):
    parts.record["tokens_sha256"] = "0" * 64


@content("start: the pack says 3, its index.json 0")
def another_start(parts):
    parts.record["start"] = 3


@content("receipt.json: the pack says")
def another_receipt(parts):
    parts.members["receipt.json"] = b"{}\n"


@content("not JSON")
def receipt_of_noise(parts):
    from suite.files import sha256_bytes

    parts.members["receipt.json"] = b"{"
    parts.edit_index(lambda index: index.update(receipt_sha256=sha256_bytes(b"{")))


@content("not a lock")
def no_lock(parts):
    parts.members["lock.json"] = b"{}\n"


HOSTILE["no_lock"] = (HOSTILE["no_lock"][0], "not a lock", InvalidInput)


@content("codec: Input should be")
def index_of_another_kind(parts):
    parts.edit_index(lambda index: index.update(codec="pickle"))


@content("chunk-00009.safetensors is in the pack and not named by index.json")
def chunk_too_many(parts):
    parts.members["chunk-00009.safetensors"] = b"x"


@content("heads/[0-9a-f]{64}.safetensors is named by index.json and not in the pack")
def head_left_out(parts):
    [head] = [name for name in parts.members if name.startswith("heads/")]
    del parts.members[head]


@content("29 rows are not finite|3 rows are not finite")
def not_finite(parts):
    parts.edit_index(lambda index: index.update(non_finite_rows=3))


def _head(parts, tmp, tensors=None, metadata=None):
    write_tensors(tmp, tensors or head_tensors(), metadata=metadata or HEAD_METADATA)
    parts.replace_head(tmp.read_bytes())


def head(told, **options):
    def change(parts, tmp):
        made = {key: value() if callable(value) else value for key, value in options.items()}
        _head(parts, tmp, **made)

    return change, told


HEADS = {
    "dtype": head("dtype is '__class__'", metadata={**HEAD_METADATA, "dtype": '"__class__"'}),
    "metadata_more": head("metadata does not hold exactly", metadata={**HEAD_METADATA, "more": "1"}),
    "metadata_noise": head("metadata is no JSON", metadata={**HEAD_METADATA, "scale": "__import__('os')"}),
    "scale": head("scale is -1", metadata={**HEAD_METADATA, "scale": "-1.0"}),
    "soft_cap": head("soft_cap is 'x'", metadata={**HEAD_METADATA, "soft_cap": '"x"'}),
    "vocabulary": head("vocab_size is 99", metadata={**HEAD_METADATA, "vocab_size": "99"}),
    "narrow": head("the weight is BF16 \\[128, 7\\]", tensors=lambda: {"weight": head_tensors()["weight"][:, :7]}),
    "short": head("the heads have 100 rows", tensors=lambda: {"weight": head_tensors()["weight"][:100]}),
    "other_tensor": head("other tensors than", tensors=lambda: head_tensors() | {"x": np.zeros(3, np.float32)}),
    "bias": head("a bias of shape \\[3\\]", tensors=lambda: head_tensors() | {"bias": np.zeros(3, np.float32)}),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_hostile_head_never_reaches_the_agent(tmp_path, home, name):
    pack = packed(tmp_path)
    change, told = HEADS[name]
    parts = Parts.of(pack)
    change(parts, tmp_path / "head.safetensors")
    parts.seal()
    parts.write(pack)
    with pytest.raises(VerificationFailed, match=told):
        pull(str(pack), home=home)
    assert stored_state(home) == []


@pytest.mark.parametrize(
    ("tensor", "change", "told"),
    [
        ("positions", lambda v: v[::-1], "positions do not increase"),
        ("positions", lambda v: np.array([3, 8, *v[2:]]), "not those of the lock's capture policy, first at 8"),
        ("target_ids", lambda v: v + 1000, "target_ids holds an id outside the vocabulary"),
        ("top_ids", lambda v: v - 200, "top_ids holds an id outside the vocabulary"),
        ("rows", lambda v: v[:, :4], "the tensor 'rows' is BF16 \\[12, 4\\], expected BF16 \\[12, 8\\]"),
        ("logsumexp", None, "the tensor 'logsumexp' is absent"),
    ],
)
def test_hostile_chunks(tmp_path, home, tensor, change, told):
    pack = packed(tmp_path)
    parts = Parts.of(pack)
    chunk = tmp_path / "chunk.safetensors"
    chunk.write_bytes(parts.members["chunk-00000.safetensors"])
    opened = open_tensors(chunk)
    tensors = {name: opened.read(name) for name in opened.tensors}
    if change is None:
        del tensors[tensor]
    else:
        tensors[tensor] = np.ascontiguousarray(change(tensors[tensor]))
    write_tensors(chunk, tensors)
    parts.replace_chunk("chunk-00000.safetensors", chunk.read_bytes())
    parts.seal()
    parts.write(pack)
    with pytest.raises(VerificationFailed, match=told):
        pull(str(pack), home=home)
    assert stored_state(home) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pack_is_refused_and_leaves_the_store_alone(tmp_path, home, name):
    spoil, told, error = HOSTILE[name]
    pack = packed(tmp_path)
    spoil(pack)
    for take in (pull, verify):
        with pytest.raises(error, match=told) as caught:
            take(str(pack), home=home)
        assert str(home) not in str(caught.value)
    assert stored_state(home) == []


def test_the_same_pack_unspoilt_is_taken(tmp_path, home):
    pack = packed(tmp_path)
    parts = Parts.of(pack)
    parts.seal()
    parts.write(pack)
    assert json.dumps(parts.record)
    assert pull(str(pack), home=home).new
