"""The compiler half: present, and never asked to compile."""

from triton.backends.compiler import BaseBackend


class InterpretedBackend(BaseBackend):
    @staticmethod
    def supports_target(target):
        return target.backend == "cpu"

    def hash(self):
        return "interpreted"

    def parse_options(self, options):
        return _refuse("parse_options")

    def add_stages(self, stages, options, language=None):
        _refuse("add_stages")

    def load_dialects(self, context):
        _refuse("load_dialects")

    def get_module_map(self):
        return {}

    def get_codegen_implementation(self, options):
        return _refuse("get_codegen_implementation")

    def pack_metadata(self, metadata):
        return _refuse("pack_metadata")


def _refuse(name):
    raise RuntimeError(f"{name}: nothing is compiled here; set TRITON_INTERPRET=1")
