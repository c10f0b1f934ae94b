"""Small synthetic roots of machines, as the tests need them."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from suite.agent.inventory import collect_inventory, inventory_bytes
from suite.sbom.schema import Inventory, load_inventory

SITE = "usr/local/lib/python3.12/dist-packages"


def elf(kind: int = 3, content: bytes = b"", *, big_endian: bool = False) -> bytes:
    """The first bytes of an ELF file of type 2 (executable) or 3 (shared), then `content`."""
    order = ">H" if big_endian else "<H"
    return b"\x7fELF\x02" + (b"\x02" if big_endian else b"\x01") + bytes(10) + struct.pack(order, kind) + content


def put(root: Path, path: str, content: bytes | str = b"") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def add_package(root: Path, name: str, version: str, files: list[str], *, extra: str = "") -> None:
    status = root / "var/lib/dpkg/status"
    before = status.read_text() if status.exists() else ""
    block = f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n{extra}\n"
    put(root, "var/lib/dpkg/status", before + block)
    put(root, f"var/lib/dpkg/info/{name}.list", "/.\n" + "".join(f"/{path}\n" for path in files))
    put(root, f"var/lib/dpkg/info/{name}.md5sums", "".join(f"{version}  {path}\n" for path in files))


def add_distribution(
    root: Path,
    name: str,
    version: str,
    files: dict[str, bytes] | None = None,
    *,
    site: str = SITE,
    metadata: str = "",
    rows: list[str] | None = None,
) -> Path:
    base = f"{name}-{version}.dist-info"
    text = metadata or f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n\nText\n"
    put(root, f"{site}/{base}/METADATA", text)
    put(root, f"{site}/{base}/INSTALLER", "pip\n")
    record = [f"{base}/METADATA,sha256=abc,12", f"{base}/INSTALLER,sha256=pip,4", f"{base}/RECORD,,"]
    for path, content in (files or {}).items():
        put(root, f"{site}/{path}", content)
        record.append(f"{path},sha256={hashlib.sha256(content).hexdigest()[:20]},{len(content)}")
    put(root, f"{site}/{base}/RECORD", "".join(f"{row}\n" for row in record + (rows or [])))
    return root / site / base


def make_root(root: Path) -> Path:
    """Two packages, two distributions (one of them Debian's), one unowned CUDA library, a merged `/lib`."""
    put(root, "etc/os-release", 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n')
    (root / "usr/lib").mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    put(root, "usr/lib/libc.so.6", elf())
    add_package(root, "libc6", "2.36-9", ["lib/libc.so.6"], extra="Source: glibc (2.36-8)\n")
    debian = "usr/lib/python3/dist-packages/PyYAML-6.0.dist-info"
    put(root, f"{debian}/METADATA", "Name: PyYAML\nVersion: 6.0\n\n")
    add_package(root, "python3-yaml", "6.0-3", [f"{debian}/METADATA"], extra="Source: pyyaml\n")
    add_distribution(root, "torch", "2.13.0", {"torch/lib/libtorch.so": elf(content=b"torch")})
    put(root, "usr/local/cuda-13.0/lib64/libcudart.so.13.0.48", elf(content=b"cudart"))
    put(root, "usr/local/bin/server", elf(2, b"server"))
    put(root, "usr/local/bin/script", "#!/bin/sh\n")
    return root


def read(root: Path, **options: object) -> Inventory:
    data = inventory_bytes(collect_inventory(root, **options))  # type: ignore[arg-type]
    return load_inventory(data, where="inventory.json")
