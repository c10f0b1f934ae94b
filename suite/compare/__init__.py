"""Several bundles in one table, and the gate between two."""
