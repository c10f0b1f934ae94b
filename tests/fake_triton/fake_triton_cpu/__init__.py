"""A Triton back end for a machine without a GPU: with TRITON_INTERPRET=1 kernels run in Python and nothing is compiled.

vLLM's second model runner is written with Triton kernels and starts only where Triton finds an active driver. Triton
looks for the modules `compiler` and `driver` of every package under the entry point `triton.backends`.
"""
