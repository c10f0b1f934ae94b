"""All detectors, in order of preference where two find the same text."""

from __future__ import annotations

from suite.workload.scrub import assigned, hosts, network, people, tokens, web
from suite.workload.scrub.interface import Detector

DETECTORS: tuple[Detector, ...] = (
    *tokens.DETECTORS,
    *assigned.DETECTORS,
    *network.DETECTORS,
    *people.DETECTORS,
    *hosts.DETECTORS,
    *web.DETECTORS,
)


def kinds() -> tuple[str, ...]:
    """Every kind once."""
    return tuple(dict.fromkeys(detector.kind for detector in DETECTORS))
