"""Models that manifests name: fetched by exact hash or commit, derived deterministically, kept in the state folder."""
