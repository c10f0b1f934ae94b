"""Result bundles: their schema, writing and verifying."""
