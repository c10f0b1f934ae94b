"""Lets torch, NumPy, MKL, oneDNN and vLLM of one interpreter take the processor for one with AVX2 and nothing newer.

Imported by a `.pth` file of the interpreter that `.ci/imitate-avx2` makes, before anything else. vLLM then loads its
AVX2 extension, and the libraries' own switches keep their kernels to AVX2. Imitated in part only: the clock and the
caches are this machine's, and code that asks the processor itself, not its library, still sees everything.
"""

import importlib.abc
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
os.environ["MKL_ENABLE_INSTRUCTIONS"] = "AVX2"
# Inductor does not tell the two apart in its cache: a kernel that was compiled for AVX-512 computes nonsense here.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / "torchinductor-as-avx2"))
if "avx512f" in Path("/proc/cpuinfo").read_text():
    raise SystemExit("this interpreter is for .ci/imitate-avx2, which hides AVX-512 in /proc/cpuinfo too")


class _Finder(importlib.abc.MetaPathFinder):
    """Changes `torch.cpu` as it is imported."""

    def find_spec(self, name, path, target=None):
        if name != "torch.cpu":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for asked in [n for n in vars(module) if n.startswith(("_is_avx512", "_is_amx", "_is_vnni"))]:
                setattr(module, asked, lambda: False)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
