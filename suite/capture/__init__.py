"""Captures on disk: the index, the chunk files, their integrity, and the rows that scoring reads."""
