"""What runs inside the stack under test: standard library, numpy, torch, safetensors and vLLM only.

This package is staged alone onto the stack's PYTHONPATH (see `suite.runtime.staging`), so nothing here may import any
other part of `suite`.
"""
