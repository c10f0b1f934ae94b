"""Hostile fixtures, one per threat, built by code: each returns the path to take in."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suite.bundle.schema import RECORD_NAME
from suite.files import pretty_json
from suite.image.facts import ImageFacts
from suite.intake.limits import LIMITS
from suite.score.ledger import arrow_schema, read_ledger
from suite.signing import SigningKey, sign_folder
from tests.intake.archives import BLOCK, tar, tar_entry, zip_of
from tests.intake.forger import Forger

STAMP = "20990101T000000Z-000000000000"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a hostile person has at hand."""

    root: Path
    """For what they write."""
    forger: Forger
    """A real bundle."""
    results: Path
    """Where it should go."""
    keys: tuple[SigningKey, SigningKey]

    @property
    def bundle(self) -> Path:
        return self.forger.folder

    def file(self, data: bytes, name: str = "sent.bin") -> Path:
        path = self.root / name
        path.write_bytes(data)
        return path

    def known(self, name: str) -> Path:
        return next((self.results / name).iterdir())


Threat = Callable[[Scene], Path]
THREATS: dict[str, tuple[str, Threat]] = {}
"""Name of the fixture -> code that it must be refused with, and how it is made."""


def threat(code: str) -> Callable[[Threat], Threat]:
    def note(make: Threat) -> Threat:
        THREATS[make.__name__] = code, make
        return make

    return note


# --- archives -------------------------------------------------------------------------------------------------------


def _tar_names(*names: str | bytes) -> bytes:
    return tar(*(tar_entry(name, b"{}") for name in names))


def _tar_threats() -> None:
    """Threats that are one tar each."""
    long = "a" * 60
    cases: dict[str, tuple[str, Callable[[], bytes]]] = {
        "tar_absolute": ("absolute-path", lambda: _tar_names("/bundle.json")),
        "tar_drive": ("absolute-path", lambda: _tar_names("C:/bundle.json")),
        "tar_parent": ("parent-path", lambda: _tar_names("a/../../bundle.json")),
        "tar_backslash": ("name-backslash", lambda: _tar_names("a\\bundle.json")),
        "tar_look_alike": ("name-look-alike", lambda: _tar_names("bundl\u0435.json")),
        "tar_not_nfc": ("name-not-nfc", lambda: _tar_names("bundle\u0301.json")),
        "tar_compatibility": ("name-compatibility", lambda: _tar_names("\uff42undle.json")),
        "tar_direction": ("name-direction", lambda: _tar_names("bundle.\u202enosj")),
        "tar_invisible": ("name-control", lambda: _tar_names("bundle\u200b.json")),
        "tar_line_break": ("name-control", lambda: _tar_names("bundle\n.json")),
        "tar_not_utf8": ("name-not-utf8", lambda: _tar_names(b"bundle\xff.json")),
        "tar_case": ("name-case", lambda: _tar_names("a/bundle.json", "A/lock.json")),
        "tar_twice": ("name-twice", lambda: _tar_names("a/bundle.json", "a/bundle.json")),
        "tar_file_and_folder": ("name-twice", lambda: _tar_names("bundle.json", "bundle.json/bundle.json")),
        "tar_device_name": ("name-reserved", lambda: _tar_names("aux/bundle.json")),
        "tar_closing_dot": ("name-reserved", lambda: _tar_names("a./bundle.json")),
        "tar_empty_part": ("name-empty", lambda: _tar_names("a//bundle.json")),
        "tar_space": ("name-not-plain", lambda: _tar_names("a b/bundle.json")),
        "tar_deep": ("too-deep", lambda: _tar_names("/".join("a" * 9) + "/bundle.json")),
        "tar_link": ("link", lambda: tar(tar_entry("bundle.json", kind=b"2", link=b"/etc/passwd"))),
        "tar_hard_link": ("hard-link", lambda: tar(tar_entry("bundle.json", kind=b"1", link=b"lock.json"))),
        "tar_hidden_link": ("hidden-link", lambda: tar(tar_entry("bundle.json", b"{}", link=b"lock.json"))),
        "tar_character_device": ("device", lambda: tar(tar_entry("bundle.json", kind=b"3"))),
        "tar_block_device": ("device", lambda: tar(tar_entry("bundle.json", kind=b"4"))),
        "tar_fifo": ("fifo", lambda: tar(tar_entry("bundle.json", kind=b"6"))),
        "tar_contiguous": ("contiguous", lambda: tar(tar_entry("bundle.json", b"{}", kind=b"7"))),
        "tar_sparse": ("sparse", lambda: tar(tar_entry("bundle.json", b"{}", kind=b"S"))),
        "tar_pax": ("pax-header", lambda: tar(tar_entry("p", b"20 path=../../evil\n", kind=b"x"))),
        "tar_pax_global": ("pax-header", lambda: tar(tar_entry("p", b"20 path=../../evil\n", kind=b"g"))),
        "tar_pax_sparse": ("pax-header", lambda: tar(tar_entry("p", b"22 GNU.sparse.major=1\n", kind=b"x"))),
        "tar_gnu_name": ("gnu-long-name", lambda: tar(tar_entry("././@LongLink", long.encode(), kind=b"L"))),
        "tar_unknown_kind": ("unknown-entry", lambda: tar(tar_entry("bundle.json", kind=b"Z"))),
        "tar_many": ("too-many-files", lambda: _tar_names(*(f"{k}/bundle.json" for k in range(LIMITS.files + 1)))),
        "tar_huge_claim": ("too-large", lambda: tar(tar_entry("bundle.json", size=8 << 30))),
        "tar_size_not_octal": ("tar-number", lambda: tar(tar_entry("bundle.json", size_field=b"\x80" + b"\xff" * 11))),
        "tar_folder_content": ("size-lie", lambda: tar(tar_entry("a/", b"hidden", kind=b"5"))),
        "tar_checksum": ("tar-checksum", lambda: tar(tar_entry("bundle.json", b"{}", checksum=1))),
        "tar_second_magic": ("not-a-tar", lambda: tar(tar_entry("bundle.json", b"{}"), tar_entry("a", magic=b"x"))),
        "tar_padding": ("bytes-in-padding", lambda: tar(tar_entry("bundle.json", b"{}", padding=b"x"))),
        "tar_after_end": ("bytes-after-end", lambda: _tar_names("bundle.json") + b"more"),
        "tar_truncated": ("truncated", lambda: _tar_names("bundle.json")[: BLOCK + 1]),
        "tar_unlisted": ("unlisted-file", lambda: _tar_names("bundle.json", "setup.py")),
        "gzip_after_end": ("bytes-after-end", lambda: gzip.compress(_tar_names("bundle.json")) + b"x"),
        "gzip_truncated": ("truncated", lambda: gzip.compress(_tar_names("bundle.json"))[:-9]),
        "gzip_broken": ("broken-archive", lambda: b"\x1f\x8b\x08" + b"\xff" * 100),
        "gzip_bomb": ("ratio", lambda: gzip.compress(tar(tar_entry("bundle.json", bytes(12 << 20))))),
        "gzip_twice": ("not-a-tar", lambda: gzip.compress(gzip.compress(_tar_names("bundle.json")) + bytes(BLOCK))),
        "zstandard_bomb": ("ratio", lambda: _zstandard(tar(tar_entry("bundle.json", bytes(12 << 20))))),
        "zstandard_broken": ("broken-archive", lambda: b"\x28\xb5\x2f\xfd" + b"\xff" * 100),
        "zstandard_window": ("broken-archive", lambda: b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(100)),
    }
    for name, (code, make) in cases.items():
        THREATS[name] = code, lambda scene, make=make: scene.file(make())  # type: ignore[misc]


def _zstandard(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


_tar_threats()


@threat("not-an-archive")
def something_else(scene: Scene) -> Path:
    return scene.file(b"\x89PNG\r\n\x1a\n" + bytes(1000))


@threat("not-an-archive")
def pickle(scene: Scene) -> Path:
    return scene.file(b"cos\nsystem\n(S'true'\ntR.", "bundle.pkl")


@threat("nothing-here")
def no_marker(scene: Scene) -> Path:
    return scene.file(_tar_names("a/lock.json"))


@threat("nothing-here")
def empty_zip(scene: Scene) -> Path:
    return scene.file(zip_of())


@threat("nothing-here")
def absent(scene: Scene) -> Path:
    return scene.root / "absent"


@threat("archive-too-large")
def huge_archive(scene: Scene) -> Path:
    path = scene.file(b"PK")
    os.truncate(path, LIMITS.archive_bytes + 1)
    return path


@threat("ratio")
def zip_bomb(scene: Scene) -> Path:
    return scene.file(zip_of(("bundle.json", bytes(12 << 20))))


@threat("overlap")
def zip_overlap(scene: Scene) -> Path:
    """Both entries of the directory point to the first one's content."""
    data = bytearray(zip_of(("bundle.json", b"{}" * 50), ("lock.json", b"{}" * 50)))
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<L", 0)
    return scene.file(bytes(data))


@threat("two-headers")
def zip_two_names(scene: Scene) -> Path:
    data = zip_of(("bundle.json", b"{}"))
    return scene.file(data.replace(b"bundle.json", b"secret.json", 1))


@threat("encrypted")
def zip_encrypted(scene: Scene) -> Path:
    data = bytearray(zip_of(("bundle.json", b"{}")))
    at = data.rindex(b"PK\x01\x02")
    data[at + 8] |= 1
    return scene.file(bytes(data))


@threat("compression")
def zip_bzip2(scene: Scene) -> Path:
    return scene.file(zip_of(("bundle.json", b"{}"), method=zipfile.ZIP_BZIP2))


@threat("zip-form")
def zip_comment(scene: Scene) -> Path:
    return scene.file(zip_of(("bundle.json", b"{}"))[:-2] + b"\x04\0note")


@threat("hidden-bytes")
def zip_hidden(scene: Scene) -> Path:
    """Bytes between the last entry and the directory."""
    data = zip_of(("bundle.json", b"{}"))
    at = data.index(b"PK\x01\x02")
    end = bytearray(data[at:])
    offset = end.rindex(b"PK\x05\x06") + 16
    end[offset : offset + 4] = struct.pack("<L", at + 6)
    return scene.file(data[:at] + b"hidden" + bytes(end))


@threat("broken-archive")
def zip_checksum(scene: Scene) -> Path:
    data = zip_of(("bundle.json", b'{"a": 1}'), method=zipfile.ZIP_STORED)
    return scene.file(data.replace(b'{"a": 1}', b'{"a": 2}'))


@threat("link")
def zip_link(scene: Scene) -> Path:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo("bundle.json")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return scene.file(stream.getvalue())


@threat("name-nul")
def zip_nul(scene: Scene) -> Path:
    return scene.file(zip_of(("bundle.jsonX.exe", b"{}")).replace(b"bundle.jsonX", b"bundle.json\0"))


@threat("path-too-long")
def zip_long_path(scene: Scene) -> Path:
    return scene.file(zip_of(("a/" * 300 + "bundle.json", b"{}")))


@threat("name-too-long")
def zip_long_name(scene: Scene) -> Path:
    return scene.file(zip_of(("a" * 200 + "/bundle.json", b"{}")))


@threat("too-many-files")
def zip_many(scene: Scene) -> Path:
    return scene.file(zip_of(*((f"{k}/bundle.json", b"") for k in range(LIMITS.files + 1))))


# --- folders --------------------------------------------------------------------------------------------------------


@threat("link")
def folder_link(scene: Scene) -> Path:
    (scene.bundle / "engine.log").unlink()
    (scene.bundle / "engine.log").symlink_to("/etc/passwd")
    return scene.bundle


@threat("link")
def folder_is_link(scene: Scene) -> Path:
    path = scene.root / "link"
    path.symlink_to(scene.bundle)
    return path


@threat("fifo")
def folder_fifo(scene: Scene) -> Path:
    (scene.bundle / "engine.log").unlink()
    os.mkfifo(scene.bundle / "engine.log")
    return scene.bundle


@threat("unlisted-file")
def folder_extra(scene: Scene) -> Path:
    (scene.bundle / "run.sh").write_text("#!/bin/sh\n")
    return scene.bundle


@threat("unlisted-folder")
def folder_below(scene: Scene) -> Path:
    (scene.bundle / "hooks").mkdir()
    return scene.bundle


@threat("file-too-large")
def folder_huge(scene: Scene) -> Path:
    path = scene.bundle / "ledger.parquet"
    path.unlink()
    path.touch()
    os.truncate(path, LIMITS.ledger_bytes + 1)
    return scene.bundle


@threat("name-look-alike")
def folder_look_alike(scene: Scene) -> Path:
    (scene.bundle / "\u0440erformance.json").write_text("{}")
    return scene.bundle


@threat("two-bundles")
def folder_two_bundles(scene: Scene) -> Path:
    folder = scene.root / "two"
    (folder).mkdir()
    (folder / "submission.json").write_text("{}")
    for name in ("one", "two"):
        shutil.copytree(scene.bundle, folder / "bundle" / name / scene.bundle.name)
    return folder


# --- JSON and text --------------------------------------------------------------------------------------------------


def _performance(scene: Scene, data: bytes) -> Path:
    scene.forger.write("performance.json", data)
    return scene.bundle


@threat("json-duplicate-key")
def json_duplicate(scene: Scene) -> Path:
    return _performance(scene, b'{"a": 1, "a": 2}')


@threat("json-not-finite")
def json_nan(scene: Scene) -> Path:
    return _performance(scene, b'{"a": NaN}')


@threat("json-not-finite")
def json_infinite(scene: Scene) -> Path:
    return _performance(scene, b'{"a": 1e999}')


@threat("json-number")
def json_huge_whole(scene: Scene) -> Path:
    return _performance(scene, b'{"a": 99999999999999999999}')


@threat("json-number")
def json_many_digits(scene: Scene) -> Path:
    return _performance(scene, b'{"a": 0.' + b"1" * 100_000 + b"}")


@threat("json-depth")
def json_deep(scene: Scene) -> Path:
    return _performance(scene, b"[" * 100_000 + b"]" * 100_000)


@threat("json-string")
def json_long_string(scene: Scene) -> Path:
    scene.forger.write("sbom.cdx.json", b'{"a": "' + b"x" * (LIMITS.json_string_bytes + 1) + b'"}')
    return scene.bundle


@threat("json-values")
def json_many_values(scene: Scene) -> Path:
    scene.forger.write("sbom.cdx.json", b"[" + b"[]," * 6_000_000 + b"[]]")
    return scene.bundle


@threat("json-not-utf8")
def json_latin(scene: Scene) -> Path:
    return _performance(scene, b'{"a": "\xe9"}')


@threat("not-json")
def json_comment(scene: Scene) -> Path:
    return _performance(scene, b"// a note\n{}")


@threat("text-direction")
def json_direction(scene: Scene) -> Path:
    return _performance(scene, b'{"note": "\\u202egnihton"}')


@threat("text-control")
def json_terminal(scene: Scene) -> Path:
    return _performance(scene, b'{"note": "\\u001b]0;owned\\u0007"}')


@threat("text-control")
def log_terminal(scene: Scene) -> Path:
    scene.forger.write("engine.log", b"loading \x1b[2J\x1b]52;c;cm0gLXJm\x07 done\n")
    return scene.bundle


@threat("text-not-utf8")
def manifest_binary(scene: Scene) -> Path:
    scene.forger.write("manifest.yaml", b"\x80\x04\x95")
    return scene.bundle


@threat("markup")
def record_markup(scene: Scene) -> Path:
    def change(record: dict[str, Any]) -> None:
        record["factors"][0]["candidate"] = "<img src=x onerror=alert(1)>"

    scene.forger.edit(RECORD_NAME, change)
    return scene.bundle


# --- Parquet and gzip -----------------------------------------------------------------------------------------------


def _ledger(scene: Scene, write: Callable[[Path, pa.Schema], None]) -> Path:
    path = scene.bundle / "ledger.parquet"
    facts = read_ledger(path).facts
    path.unlink()
    write(path, arrow_schema(facts))
    return scene.forger.seal()


@threat("not-parquet")
def ledger_text(scene: Scene) -> Path:
    return _ledger(scene, lambda path, _: path.write_text("position,token_id\n0,1\n"))  # type: ignore[arg-type,return-value]


@threat("not-parquet")
def ledger_footer(scene: Scene) -> Path:
    """A footer that says it is larger than the file."""
    data = (scene.bundle / "ledger.parquet").read_bytes()
    scene.forger.write("ledger.parquet", data[:-8] + struct.pack("<L", 1 << 31) + b"PAR1")
    return scene.forger.seal()


@threat("ledger-schema")
def ledger_other_columns(scene: Scene) -> Path:
    def write(path: Path, _: pa.Schema) -> None:
        pq.write_table(pa.table({"text": ["the session's words"]}), path)

    return _ledger(scene, write)


def _columns(schema: pa.Schema, rows: int) -> dict[str, Any]:
    blank = {pa.string(): "", pa.bool_(): False}
    return {
        field.name: [bytes(32)] * rows
        if pa.types.is_fixed_size_binary(field.type)
        else [blank[field.type]] * rows
        if field.type in blank
        else np.zeros(rows)
        for field in schema
    }


@threat("ledger-rows")
def ledger_many_rows(scene: Scene) -> Path:
    def write(path: Path, schema: pa.Schema) -> None:
        rows = LIMITS.ledger_rows + 1
        table = pa.Table.from_pydict(_columns(schema, rows), schema=schema)
        pq.write_table(table, path, compression="zstd")

    return _ledger(scene, write)


@threat("ledger-expands")
def ledger_bomb(scene: Scene) -> Path:
    """A few kilobytes whose one cell is a text of 64 MiB."""

    def write(path: Path, schema: pa.Schema) -> None:
        columns = _columns(schema, 2) | {"span_kind": ["x" * (64 << 20), ""]}
        pq.write_table(pa.Table.from_pydict(columns, schema=schema), path, compression="zstd", use_dictionary=False)

    return _ledger(scene, write)


@threat("ledger-codec")
def ledger_brotli(scene: Scene) -> Path:
    def write(path: Path, schema: pa.Schema) -> None:
        pq.write_table(pa.Table.from_pydict(_columns(schema, 2), schema=schema), path, compression="brotli")

    return _ledger(scene, write)


@threat("gzip-bomb")
def forks_bomb(scene: Scene) -> Path:
    scene.forger.write("branches.jsonl.gz", gzip.compress(bytes(LIMITS.gzip_bytes + 1)))
    return scene.bundle


# --- the record -----------------------------------------------------------------------------------------------------


@threat("record")
def record_edited(scene: Scene) -> Path:
    scene.forger.edit(RECORD_NAME, lambda record: record["headlines"].update(flips=0))
    return scene.bundle


@threat("tier-claim")
def record_tier(scene: Scene) -> Path:
    scene.forger.edit(RECORD_NAME, lambda record: record.update(tier="reproduced"))
    return scene.bundle


@threat("file-missing")
def file_missing(scene: Scene) -> Path:
    (scene.bundle / "sbom.cdx.json").unlink()
    return scene.bundle


@threat("file-added")
def file_added(scene: Scene) -> Path:
    (scene.bundle / "image.json").write_text("{}")
    return scene.bundle


@threat("file-changed")
def file_changed(scene: Scene) -> Path:
    path = scene.bundle / "engine.log"
    return scene.forger.write("engine.log", path.read_bytes() + b"all well\n").folder


@threat("headline-claim")
def fewer_flips(scene: Scene) -> Path:
    headlines = scene.forger.json(RECORD_NAME)["headlines"]
    return scene.forger.seal(headlines=headlines | {"flips": headlines["flips"] - 1})


@threat("factor-claim")
def factor_left_out(scene: Scene) -> Path:
    return scene.forger.seal(factors=[], causal_claim=False)


@threat("floor-claim")
def floor_made_up(scene: Scene) -> Path:
    floor = scene.forger.json(RECORD_NAME)["repeat_floor"]
    floor["starts"][1] |= {"flips": 1, "identical_rows": floor["starts"][1]["n"] - 1}
    return scene.forger.seal(repeat_floor=floor)


def _cell(column: str, value: Any) -> Callable[[dict[str, list[Any]]], None]:
    def change(columns: dict[str, list[Any]]) -> None:
        columns[column][7] = value

    return change


@threat("ledger-contradiction")
def impossible_nll(scene: Scene) -> Path:
    """The most likely token gives the least NLL; this one is below it."""
    scene.forger.ledger(_cell("nll_cand", 0.0))
    return scene.forger.seal(recompute=True)


@threat("ledger-contradiction")
def impossible_entropy(scene: Scene) -> Path:
    scene.forger.ledger(_cell("entropy_cand", 99.0))
    return scene.forger.seal(recompute=True)


@threat("ledger-contradiction")
def impossible_probability(scene: Scene) -> Path:
    scene.forger.ledger(_cell("cand_p_cand_top1", 1.5))
    return scene.forger.seal(recompute=True)


@threat("ledger-contradiction")
def hidden_flip(scene: Scene) -> Path:
    """One flip undone in the ledger alone, headlines recomputed: the rank betrays it."""

    def change(columns: dict[str, list[Any]]) -> None:
        row = columns["flip"].index(True)
        columns["cand_top1"][row] = columns["ref_top1"][row]
        columns["flip"][row], columns["tied"][row], columns["flip_class"][row] = False, False, ""

    scene.forger.ledger(change)
    return scene.forger.seal(recompute=True)


# --- stacks ---------------------------------------------------------------------------------------------------------


@threat("wrong-reference")
def reference_quantised(scene: Scene) -> Path:
    """A candidate measured against a stack that is as damaged."""
    weights = scene.forger.json("lock.json")["model"]
    scene.forger.edit("reference-lock.json", lambda lock: lock.update(model=weights))
    return scene.forger.seal(recompute=True)


@threat("wrong-reference")
def reference_cache(scene: Scene) -> Path:
    def lock(value: dict[str, Any]) -> None:
        value["engine"]["kv_cache_dtype"] = "fp8_e4m3"

    def receipt(value: dict[str, Any]) -> None:
        value["requested"]["kv_cache_dtype"] = value["effective"]["kv_cache_dtype"] = "fp8_e4m3"

    scene.forger.edit("reference-lock.json", lock).edit("reference-receipt.json", receipt)
    return scene.forger.seal(recompute=True)


@threat("reference-of-another-model")
def reference_other_model(scene: Scene) -> Path:
    scene.forger.edit("reference-lock.json", lambda lock: lock["model"].update(base="Another-7B"))
    return scene.forger.seal(recompute=True)


@threat("swapped-checkpoint")
def checkpoint_swapped(scene: Scene) -> Path:
    """BF16 weights measured, quantised weights named."""

    def receipt(value: dict[str, Any]) -> None:
        value["effective"]["quantization"] = None
        for rank in value["ranks"]:
            rank["quantization"] = None

    scene.forger.edit("receipt.json", receipt)
    return scene.forger.seal(recompute=True)


@threat("other-checkpoint")
def checkpoint_patched(scene: Scene) -> Path:
    """A revision that is known, with another weight file."""

    def lock(value: dict[str, Any]) -> None:
        file = next(file for file in value["model"]["files"] if file["path"].endswith(".safetensors"))
        file["sha256"] = "0" * 64

    scene.forger.edit("reference-lock.json", lock)
    return scene.forger.seal(recompute=True)


@threat("receipt-of-another-lock")
def receipt_of_another_lock(scene: Scene) -> Path:
    def lock(value: dict[str, Any]) -> None:
        value["engine"]["max_num_batched_tokens"] = 4096

    scene.forger.edit("lock.json", lock)
    return scene.forger.seal(recompute=True)


@threat("receipt-of-another-lock")
def receipt_environment(scene: Scene) -> Path:
    """A variable that steadies kernels was off, and the lock says that it was on."""
    variable = "VLLM_TRITON_FORCE_FIRST_CONFIG"
    scene.forger.edit("receipt.json", lambda value: value["ranks"][0]["environment"].update({variable: "0"}))
    return scene.forger.seal(recompute=True)


@threat("receipt-contradicts-itself")
def receipt_summary(scene: Scene) -> Path:
    """The engine took another attention backend, and only the summary was edited."""

    def receipt(value: dict[str, Any]) -> None:
        for layer in value["ranks"][0]["attention"]:
            layer["backend"] = "FLASH_ATTN"

    scene.forger.edit("receipt.json", receipt)
    return scene.forger.seal(recompute=True)


@threat("setting-not-effective")
def setting_not_effective(scene: Scene) -> Path:
    scene.forger.edit("receipt.json", lambda value: value["effective"].update(max_num_seqs=8))
    return scene.forger.seal(recompute=True)


@threat("setting-not-effective")
def request_left_out(scene: Scene) -> Path:
    """The engine took eight sequences; that one was asked for is left out of the receipt."""

    def receipt(value: dict[str, Any]) -> None:
        del value["requested"]["max_num_seqs"]
        value["effective"]["max_num_seqs"] = value["ranks"][0]["scheduler"]["max_num_seqs"] = 8

    scene.forger.edit("receipt.json", receipt)
    return scene.forger.seal(recompute=True)


@threat("versions-contradict")
def other_version(scene: Scene) -> Path:
    scene.forger.edit("receipt.json", lambda value: value["ranks"][0]["packages"].update(vllm="0.33.0"))
    return scene.forger.seal(recompute=True)


@threat("sbom-contradicts-receipt")
def sbom_of_another_stack(scene: Scene) -> Path:
    def sbom(value: dict[str, Any]) -> None:
        for component in value["components"]:
            if component["name"] == "torch":
                component["version"] = "2.9.1"
                component["purl"] = "pkg:pypi/torch@2.9.1"

    scene.forger.edit("sbom.cdx.json", sbom)
    return scene.forger.seal()


def _image(scene: Scene, **changes: Any) -> ImageFacts:
    """A container's image in the lock, and the facts of it with `changes`."""

    def digest(digit: str) -> str:
        return f"sha256:{digit * 64}"

    def lock(value: dict[str, Any]) -> None:
        value["runtime"] = {
            "kind": "docker",
            "packages": value["runtime"]["packages"],
            "image": {
                "repository": "docker.io/vllm/vllm-openai",
                "digest": digest("a"),
                "digest_kind": "index",
                "platform_digest": digest("b"),
            },
        }

    scene.forger.edit("lock.json", lock)
    facts = {
        "repository": "docker.io/vllm/vllm-openai",
        "platform": "linux/amd64",
        "index_digest": digest("a"),
        "platform_digest": digest("b"),
        "config_digest": digest("c"),
        "diff_ids": [digest("d")],
    }
    return ImageFacts.model_validate_json(json.dumps(facts | changes))


def _with_image(scene: Scene, facts: ImageFacts) -> Path:
    scene.forger.write("image.json", facts.to_bytes())
    record = scene.forger.json(RECORD_NAME)
    record["files"]["image.json"] = "0" * 64
    scene.forger.write(RECORD_NAME, pretty_json(record))
    return scene.forger.seal(recompute=True)


@threat("image-missing")
def image_missing(scene: Scene) -> Path:
    _image(scene)
    return scene.forger.seal(recompute=True)


@threat("patched-image")
def image_of_another_lock(scene: Scene) -> Path:
    return _with_image(scene, _image(scene, platform_digest=f"sha256:{'e' * 64}"))


@threat("patched-image")
def image_patched(scene: Scene) -> Path:
    """A digest that is known, with another configuration below it."""
    honest = Scene(
        root=scene.root, forger=Forger(scene.known("h200-smollm2-w8a8-int8")), results=scene.results, keys=scene.keys
    )
    _with_image(honest, _image(honest))
    return _with_image(scene, _image(scene, config_digest=f"sha256:{'9' * 64}"))


# --- the run --------------------------------------------------------------------------------------------------------


@threat("from-the-future")
def from_the_future(scene: Scene) -> Path:
    return scene.forger.seal(created="2199-01-01T00:00:00Z")


@threat("no-such-time")
def no_such_time(scene: Scene) -> Path:
    return scene.forger.seal(created="2026-02-31T00:00:00Z")


@threat("manifest-of-another-stack")
def manifest_of_another_stack(scene: Scene) -> Path:
    data = (scene.bundle / "manifest.yaml").read_bytes()
    scene.forger.write("manifest.yaml", data.replace(b"name: h200-smollm2-w8a8-fp8", b"name: h200-smollm2-w4a16-g32"))
    return scene.forger.seal()


def _starts(scene: Scene, keep: Callable[[list[Any]], list[Any]], *files: str) -> Path:
    for name in files:
        scene.forger.edit(name, lambda value: value.update(starts=keep(value["starts"])))
    return scene.forger.seal(recompute=True)


@threat("cherry-picked-repeats")
def repeats_picked(scene: Scene) -> Path:
    """Start 1 was bad and is left out everywhere."""
    return _starts(scene, lambda starts: [starts[0], starts[2]], "repeats.json", "performance.json")


@threat("hidden-starts")
def repeats_hidden(scene: Scene) -> Path:
    return _starts(scene, lambda starts: [*starts, starts[-1] | {"start": 3}], "performance.json")


@threat("too-few-repeats")
def repeats_too_few(scene: Scene) -> Path:
    return _starts(scene, lambda starts: starts[:2], "repeats.json", "performance.json")


@threat("copied-start")
def repeats_copied(scene: Scene) -> Path:
    return _starts(scene, lambda starts: [starts[0], starts[0] | {"start": 1}, starts[2]], "repeats.json")


@threat("rows-of-the-reference")
def reference_as_candidate(scene: Scene) -> Path:
    """Quantised weights without a single flip: the reference's rows under both names."""

    def copy(columns: dict[str, list[Any]]) -> None:
        n = len(columns["position"])
        for name in ("top1", "margin_nats", "row_sha256"):
            columns[f"cand_{name}"] = columns[f"ref_{name}"]
        for name in ("entropy", "nll", "finite"):
            columns[f"{name}_cand"] = columns[f"{name}_ref"]
        for name in ("ref_p_cand_top1", "cand_p_ref_top1", "cand_p_cand_top1"):
            columns[name] = columns["ref_p_ref_top1"]
        for name in ("kl_ref_cand", "kl_cand_ref", "jsd", "total_variation"):
            columns[name] = [0.0] * n
        columns["flip"], columns["tied"], columns["flip_class"] = [False] * n, [False] * n, [""] * n
        columns["rank_ref_top1_in_cand"] = [1] * n

    scene.forger.ledger(copy)
    rows = scene.forger.json(RECORD_NAME)["evidence"]["reference"]["rows_sha256"]
    scene.forger.edit("repeats.json", lambda value: [start.update(rows_sha256=rows) for start in value["starts"]])
    return scene.forger.seal(recompute=True, evidence=scene.forger.evidence(candidate={"rows_sha256": rows}))


# --- history --------------------------------------------------------------------------------------------------------


def _join(scene: Scene) -> Path:
    """The same bundle, taken in before."""
    target = scene.results / scene.bundle.parent.name / scene.bundle.name
    shutil.copytree(scene.bundle, target)
    return target


@threat("duplicate")
def duplicate(scene: Scene) -> Path:
    _join(scene)
    return scene.bundle


@threat("re-signed")
def signed_by_another(scene: Scene) -> Path:
    mine, theirs = scene.keys
    sign_folder(_join(scene), theirs, kind="result")
    sign_folder(scene.bundle, mine, kind="result")
    return scene.bundle


@threat("sealed-anew")
def sealed_anew(scene: Scene) -> Path:
    """Somebody's measurement, a minute later, under one's own name."""
    mine, theirs = scene.keys
    sign_folder(_join(scene), theirs, kind="result")
    folder = scene.forger.seal(created="2026-11-29T21:00:00Z")
    sign_folder(folder, mine, kind="result")
    return folder


@threat("replayed-ledger")
def replayed_under_another_lock(scene: Scene) -> Path:
    """Rows of one stack, sold as those of another with a quantised cache."""
    _join(scene)

    def lock(value: dict[str, Any]) -> None:
        value["name"] = "h200-smollm2-better"
        value["engine"]["kv_cache_dtype"] = "fp8_e4m3"

    def receipt(value: dict[str, Any]) -> None:
        value["requested"]["kv_cache_dtype"] = value["effective"]["kv_cache_dtype"] = "fp8_e4m3"
        for layer in value["ranks"][0]["attention"]:
            layer["kv_cache_dtype"] = "fp8_e4m3"

    scene.forger.edit("lock.json", lock).edit("receipt.json", receipt)
    manifest = (scene.bundle / "manifest.yaml").read_bytes()
    scene.forger.write("manifest.yaml", manifest.replace(b"name: h200-smollm2-w8a8-fp8", b"name: h200-smollm2-better"))
    fresh = "1" * 64
    scene.forger.edit("repeats.json", lambda value: value["starts"][0].update(index_sha256=fresh))
    return scene.forger.seal(recompute=True, evidence=scene.forger.evidence(candidate={"index_sha256": fresh}))


@threat("reference-of-other-rows")
def reference_replaced(scene: Scene) -> Path:
    """The capture that all others rest on, with one row changed."""
    evidence = scene.forger.evidence(reference={"rows_sha256": "5" * 64})
    return scene.forger.seal(evidence=evidence)


@threat("band-claim")
def band_widened(scene: Scene) -> Path:
    """A wide band lets a bad candidate look like a change of kernel."""
    band = scene.forger.json(RECORD_NAME)["band"]
    member = next(member for member in band if member["name"] == "h200-smollm2-flash-attn-3")
    member |= {"flips": member["flips"] + 300, "flips_uncertain": member["flips_uncertain"] + 300}
    return scene.forger.seal(band=band)


# --- signatures -----------------------------------------------------------------------------------------------------


@threat("signature")
def signature_broken(scene: Scene) -> Path:
    path = sign_folder(scene.bundle, scene.keys[0], kind="result")
    envelope = json.loads(path.read_text())
    sig = envelope["signatures"][0]["sig"]
    envelope["signatures"][0]["sig"] = ("B" if sig[0] == "A" else "A") + sig[1:]
    path.write_text(json.dumps(envelope, sort_keys=True, separators=(",", ":")) + "\n")
    return scene.bundle


@threat("edited-after-signing")
def edited_after_signing(scene: Scene) -> Path:
    sign_folder(scene.bundle, scene.keys[0], kind="result")
    scene.forger.write("engine.log", b"nothing happened\n")
    return scene.forger.seal()


@threat("statement-of-another-folder")
def statement_of_another(scene: Scene) -> Path:
    other = scene.known("h200-smollm2-chunk512")
    path = sign_folder(other, scene.keys[0], kind="result")
    shutil.copy(path, scene.bundle)
    return scene.bundle


@threat("statement-of-another-kind")
def statement_of_another_kind(scene: Scene) -> Path:
    sign_folder(scene.bundle, scene.keys[0], kind="reference-pack")
    return scene.bundle
