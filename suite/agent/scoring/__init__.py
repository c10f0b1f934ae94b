"""Scoring inside the stack, on its GPU or its processor; needs numpy and torch, and Triton where CUDA is."""
