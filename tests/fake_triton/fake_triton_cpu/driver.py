"""The driver half: one CPU with one stream."""

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase


class CpuDriver(DriverBase):
    @classmethod
    def is_active(cls):
        return True

    def map_python_to_cpp_type(self, ty):
        return ty

    def get_current_target(self):
        return GPUTarget("cpu", "interpreted", 1)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_benchmarker(self):
        raise RuntimeError("interpreted kernels have no speed worth measuring")

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        assert device in (0, None)

    def get_current_stream(self, device=0):
        return 0
