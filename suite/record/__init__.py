"""The recording proxy: passes an agent's traffic through untouched, keeps it, and turns it into sessions."""
