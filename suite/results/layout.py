"""Names below a results folder; `docs/community.md` shows the whole of it."""

from __future__ import annotations

ATTESTATIONS = "attestations"
NOTICES = "notices"
TRUSTED_NAME = "trusted-keys.json"
INDEX_NAME = "index.json"
