"""Wheels made for tests: real zip archives, honest or hostile."""

import zipfile
from pathlib import Path

GGUF = b"GGUF" + bytes(range(256)) * 8


def write_wheel(path: Path, members: dict[str, bytes], *, modes: dict[str, int] | None = None) -> Path:
    """Write a wheel that pip accepts, with extra members; `modes` gives members a Unix file mode."""
    name, version = path.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    text = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            entry = zipfile.ZipInfo(member)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (modes or {}).get(member, 0o100644) << 16
            archive.writestr(entry, data)
        for member, content in text.items():
            archive.writestr(member, content)
    return path
