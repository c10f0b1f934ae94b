"""Submissions: a bundle as its owner gives it to a repository, and what becomes public with it."""
