"""A results folder for the site: one table with a numerical band, and bundles that hold what no page may trust."""

from __future__ import annotations

import json
from pathlib import Path

from suite.bundle.schema import seal
from suite.files import pretty_json, sha256_bytes
from suite.site.build import BuildOptions, BuildReport, build_site
from tests.compare.world import CompareWorld, member, one_per_turn

GPU = {"kind": "cuda", "architecture": "12.0", "gpu": "RTX 5090"}
MODEL = {
    "source": {},
    "base": "Tiny-1B",
    "files": [{"path": "model.safetensors", "size_bytes": 3_000_000_000, "sha256": "6" * 64}],
}
GUIDE = "guides/rtx-5090/tiny-1b.html"

HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "javascript:document.title='owned'",
    "\u202egnp.exe",
    "{{ 7 * 7 }}",
    "x" * 10_000,
    "']];alert(1)//",
    "</pre></details></main>",
)


def table_of_bundles(root: Path, *, turns: int = 24) -> CompareWorld:
    """One GPU and model: a band member, a candidate near it, one far from it, and one with other weights."""
    world = CompareWorld(root=root, turns=turns)
    common = {"hardware": GPU, "model": MODEL}
    band = (member(world.bundle("tiny-chunk-512", one_per_turn(range(3)), role="band", **common)),)
    far = one_per_turn(range(20)) + one_per_turn(range(4), place=2)
    world.bundle("tiny-kv-fp8", far, band=band, noise=0.1, **common)
    world.bundle(
        "tiny-kv-int8", one_per_turn(range(5)), kv_cache_dtype="int8_per_token_head", band=band, noise=0.05, **common
    )
    world.bundle("tiny-kv-fp16", (), kv_cache_dtype="float16", band=band, **common)
    return world


def amended(folder: Path, **files: bytes) -> None:
    """Replace files of a bundle and seal it again, as someone who knows the format would."""
    for name, data in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_bytes(data)
    fields = json.loads((folder / "bundle.json").read_text())
    del fields["record_sha256"]
    names = {*fields["files"], *(name.replace("__", "-").replace("_", ".") for name in files)}
    fields["files"] = {name: sha256_bytes((folder / name).read_bytes()) for name in names}
    (folder / "bundle.json").write_bytes(seal(fields))


def sbom(*components: tuple[str, str]) -> bytes:
    """A CycloneDX document of Python packages."""
    return pretty_json(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "components": [
                {"type": "library", "name": name, "version": version, "purl": "pkg:pypi/x@1"}
                for name, version in components
            ],
        }
    )


def make_hostile(folder: Path) -> None:
    """Put hostile strings wherever a bundle may hold text."""
    receipt = json.loads((folder / "receipt.json").read_text())
    receipt["vllm"] = HOSTILE[0]
    receipt["requested"][HOSTILE[1]] = HOSTILE[5]
    receipt["effective"] |= {"attention_backend": HOSTILE[3], HOSTILE[1]: HOSTILE[2]}
    receipt["ranks"] = [
        {
            "device": {"name": HOSTILE[0], HOSTILE[7]: HOSTILE[6]},
            "attention": [{"backend": HOSTILE[1], "count": {"deep": [[[[[[[[[[1]]]]]]]]]]}}, "no object"],
            "linear": [{"kernels": list(HOSTILE)}],
            "kv_cache": {"capacity_tokens": "many"},
            "environment": {"A": HOSTILE[2], HOSTILE[4]: ["x"]},
        }
    ]
    performance = {"schema_version": 1, "note": HOSTILE[0]}
    log = "\n".join(HOSTILE).encode() + b"\xff\xfe\x00\x1b[31m"
    amended(
        folder,
        receipt_json=pretty_json(receipt),
        performance_json=pretty_json(performance),
        engine_log=log,
        sbom_cdx_json=sbom(*((text[:300], HOSTILE[2]) for text in HOSTILE)),
    )


def built(
    results: Path,
    out: Path,
    *,
    workers: int = 1,
    manifests: Path | None = None,
    base_url: str = "",
    published_only: bool = False,
) -> BuildReport:
    """Build a site in `out`, with its cache beside it."""
    return build_site(
        BuildOptions(
            results=(results,),
            out=out,
            cache=out.with_name(f"{out.name}-cache"),
            manifests=manifests,
            base_url=base_url,
            published_only=published_only,
            workers=workers,
        )
    )
