"""ELF files that no package owns, as components; CUDA's libraries are told apart by name and place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from suite.sbom.interface import CUDA_LIBRARY, EXECUTABLE, MOUNTED_FILE, SHARED_OBJECT, Component
from suite.sbom.purl import make_purl
from suite.sbom.schema import Inventory, UnownedFile

_CUDA_NAME = re.compile(
    r"lib(?:cublas|cuda|cudnn|cudss|cufft|cufile|cufilt|cuinj|cupti|curand|cusolver|cusparse|cutensor|cutlass|accinj"
    r"|nccl|npp[a-z]|nvblas|nvfatbin|nvidia|nvinfer|nvjitlink|nvjpeg|nvperf|nvptxcompiler|nvrtc|nvshmem|nvtoolsext"
    r"|nvtx|nvvm|nvcuvid)",
    re.IGNORECASE,
)
_CUDA_PLACE = re.compile(r"(?:^|/)(?:cuda|nvidia)(?:-[\d.]+)?/")
_NAMED_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)*)$")


def unowned_files(inventory: Inventory) -> Iterator[Component]:
    """One component per file; its version is what its name says (`libcudart.so.13.0.48`), if anything."""
    for file in inventory.files:
        name = file.path.rpartition("/")[2]
        version = _NAMED_VERSION.search(name)
        yield Component(
            kind=_kind(file, name),
            name=name,
            version=version.group(1) if version else None,
            purl=make_purl(
                "generic", name, None, qualifiers={"checksum": f"sha256:{file.sha256}" if file.sha256 else None}
            ),
            content_sha256=file.sha256,
            places=(file.path,),
            properties=(("size_bytes", str(file.size_bytes)),),
        )


def _kind(file: UnownedFile, name: str) -> str:
    if file.mounted:
        return MOUNTED_FILE
    if file.type == "executable":
        return EXECUTABLE
    return CUDA_LIBRARY if _CUDA_NAME.match(name) or _CUDA_PLACE.search(file.path) else SHARED_OBJECT
