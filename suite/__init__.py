"""suite: measure how a local LLM serving stack changes a model's answers, reproducibly."""

__version__ = "0.1.0"
