"""Scrubbing: private values of a session replaced by pseudonyms of the same shape, everywhere the same."""
