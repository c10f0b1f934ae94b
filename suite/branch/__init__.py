"""Branching futures: what both stacks go on to write after a flip, and what becomes of it."""
