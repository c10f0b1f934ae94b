"""Hostile submissions and attestations."""
