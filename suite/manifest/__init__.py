"""Manifests: the YAML file that pins a stack, its strict loading, its lock, and what two locks differ in."""
