"""A second opinion from a detector that was not made here: detect-secrets, run over what scrubbing left."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.errors import MissingPrerequisite
from suite.workload.session import Session
from suite.workload.transcript import transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspicion:
    """A line of the transcript in which the other detector sees a secret that is no pseudonym."""

    kind: str
    line: int
    text: str


def suspicions(session: Session) -> tuple[Suspicion, ...]:
    """What detect-secrets finds in a scrubbed session, pseudonyms left aside.

    Raises:
        MissingPrerequisite: detect-secrets is not installed.
    """
    try:
        from detect_secrets.core.scan import scan_file
        from detect_secrets.settings import default_settings
    except ImportError as error:
        raise MissingPrerequisite(
            "the second detector is not installed", where="--second", hint="pip install 'suite[record]'"
        ) from error
    scrubbed = session.provenance.scrubbed
    known = [p.partition("…")[0].lower() for p in scrubbed.pseudonyms] if scrubbed else []
    found: list[Suspicion] = []
    with tempfile.TemporaryDirectory() as folder, default_settings():  # its filters work on files alone
        path = Path(folder) / "transcript.txt"
        path.write_text("\n".join(transcript(session)), encoding="utf-8")
        for secret in scan_file(str(path)):
            value = secret.secret_value or ""
            if value and not _is_pseudonym(value.lower(), known):
                found.append(Suspicion(kind=secret.type, line=secret.line_number, text=value))
    return tuple(sorted(set(found), key=lambda one: (one.line, one.text)))


def _is_pseudonym(value: str, known: Sequence[str]) -> bool:
    return any(p in value or value in p for p in known if len(p) >= 4)
