"""The recorded token ids that a job works on, checked against the lock's hash."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from suite.agent.events import AgentFailure


def read_tokens(path: str, sha256: str) -> np.ndarray[Any, Any]:
    """The int32 ids of a `.npy` file.

    Raises:
        AgentFailure: they are not those of the lock (`altered`).
    """
    tokens = np.load(path)
    found = hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest()
    if found != sha256:
        raise AgentFailure(
            "altered",
            f"the token file has SHA-256 {found}, the lock names {sha256}",
            "run again: the workload is rendered anew",
        )
    return tokens  # type: ignore[no-any-return]
