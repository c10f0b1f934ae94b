"""Looking through a bundle's text for what should not be published: the detectors that scrub sessions."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from suite.branch.schema import FORKS_NAME
from suite.bundle.read import Bundle
from suite.bundle.schema import RECORD_NAME, BundleRecord
from suite.errors import InvalidInput
from suite.files import sha256_bytes, strict_json
from suite.workload.scrub import assigned, hosts, network, people, tokens
from suite.workload.scrub.interface import Detector
from suite.workload.session import Session
from suite.workload.transcript import transcript

LEDGER_NAME = "ledger.parquet"
SESSION = "the session"
"""Where a finding lies that is in the workload's own text."""

_EXPANDED_LIMIT_BYTES = 512 << 20
_SBOM_NAME = "sbom.cdx.json"
_SECRETS: tuple[Detector, ...] = (*tokens.DETECTORS, *assigned.DETECTORS)
# Of the machine: the session's own names are its text, and public or not as a whole.
_MACHINE: tuple[Detector, ...] = (*_SECRETS, *network.DETECTORS, *people.DETECTORS, *hosts.DETECTORS)
_ISSUED: tuple[Detector, ...] = tuple(tokens.DETECTORS)
_DETECTORS: dict[str, tuple[Detector, ...]] = {
    "manifest.yaml": _SECRETS,
    "engine.log": _MACHINE,
    "performance.json": _MACHINE,
    # Names and versions of packages look like passwords and addresses: `base-passwd 3.6.1`.
    _SBOM_NAME: _ISSUED,
}
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{40,64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspicion:
    """One thing that looks like a secret, or like a name of the submitter's own machine."""

    id: str
    """By which a person says that they looked at it: 8 digits over its kind and text."""
    kind: str
    """As the detector calls it: `password`."""
    where: str
    """A file with a line, or with a key."""
    excerpt: str
    """Its beginning and its length; never the whole."""


def suspicions_in(bundle: Bundle) -> Iterator[Suspicion]:
    """Go through every file of a bundle that holds text.

    Raises:
        VerificationFailed: a file cannot be read.
        InvalidInput: a file is not what its name says.
    """
    for name in sorted({RECORD_NAME, *bundle.record.files} - {LEDGER_NAME}):
        data = bundle.read(name)
        detectors = _DETECTORS.get(name, _SECRETS)
        if name == FORKS_NAME:
            for number, line in enumerate(_expanded(data).splitlines(), start=1):
                yield from _in_json(strict_json(line, where=name), f"{name}:{number}", detectors)
        elif name.endswith(".json"):
            yield from _in_json(strict_json(data, where=name), name, detectors)
        else:
            yield from _in_text(data.decode(errors="replace"), name, detectors)


def suspicions_in_factors(record: BundleRecord) -> Iterator[Suspicion]:
    """Go through the settings that aggregates name: all of a private submission that somebody wrote by hand."""
    for factor in (*record.factors, *record.consequent):
        yield from _in_json({factor.key: [factor.reference, factor.candidate]}, "factors", _MACHINE)


def suspicions_in_session(session: Session) -> Iterator[Suspicion]:
    """Go through the session itself, whose token ids a bundle holds; pseudonyms of its scrubbing are left aside."""
    scrubbed = session.provenance.scrubbed
    known = tuple(p.partition("…")[0] for p in scrubbed.pseudonyms) if scrubbed else ()
    text = "\n".join(transcript(session))
    for start, end, kind in _found(text, _SECRETS):
        value = text[start:end]
        if not any(len(p) >= 4 and (p in value or value in p) for p in known):
            yield _suspicion(kind, value, f"{SESSION}, line {text.count(chr(10), 0, start) + 1}")


def _in_text(text: str, where: str, detectors: tuple[Detector, ...]) -> Iterator[Suspicion]:
    for start, end, kind in _found(text, detectors):
        yield _suspicion(kind, text[start:end], f"{where}:{text.count(chr(10), 0, start) + 1}")


def _in_json(value: Any, where: str, detectors: tuple[Detector, ...]) -> Iterator[Suspicion]:
    for key, name, text in _strings(value, ""):
        if _DIGEST.fullmatch(text):
            continue
        # Some detectors go by the name beside a value.
        shown = f"{name}: {text}" if name and detectors is not _ISSUED else text
        for start, end, kind in _found(shown, detectors):
            yield _suspicion(kind, shown[start:end], f"{where}: {key}")


def _strings(value: Any, key: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Place, nearest name and text of every string, the names of objects included."""
    if isinstance(value, dict):
        for inner, item in value.items():
            place = f"{key}.{inner}"[-120:].lstrip(".")
            yield place, "", inner
            yield from _strings(item, place, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _strings(item, f"{key}[{number}]"[-120:], name)
    elif isinstance(value, str):
        yield key, name, value


def _found(text: str, detectors: tuple[Detector, ...]) -> list[tuple[int, int, str]]:
    return sorted({(*span, detector.kind) for detector in detectors for span in detector.find(text)})


def _suspicion(kind: str, value: str, where: str) -> Suspicion:
    beginning = value[: min(4, len(value) // 4)]
    return Suspicion(
        id=sha256_bytes(f"{kind}\0{value}".encode(errors="replace"))[:8],
        kind=kind,
        where=where,
        excerpt=f"{ascii(beginning)[1:-1]}… ({len(value)} characters)",
    )


def _expanded(data: bytes) -> bytes:
    expander = zlib.decompressobj(wbits=31)
    try:
        text = expander.decompress(data, _EXPANDED_LIMIT_BYTES)
    except zlib.error as error:
        raise InvalidInput(f"not gzip: {error}", where=FORKS_NAME) from error
    if expander.unconsumed_tail or not expander.eof:
        raise InvalidInput("cut off, or larger than is read", where=FORKS_NAME)
    return text
