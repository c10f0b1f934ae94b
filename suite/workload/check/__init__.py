"""Checks of a session against a tokenizer, a template and a server: what the model really sees, and what that does."""
