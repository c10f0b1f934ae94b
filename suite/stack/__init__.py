"""Facts about stacks: GPUs, memory, combinations known to be bad, and where the suite keeps its files."""
