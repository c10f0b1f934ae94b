"""What intake found: accepted or not, and for each thing refused a stable code, where, why, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from suite.bundle.report import Check
from suite.errors import InvalidInput, VerificationFailed
from suite.results.tier import Tier

What = Literal["bundle", "submission", "private submission", "attestation", "reference pack", "unknown"]
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One reason against what was sent."""

    code: str
    """Stable, in kebab-case; docs/intake.md lists them."""
    where: str
    """File, key or position; escaped, and empty where it concerns the whole."""
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"[{self.code}] {where}{self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class IntakeReport:
    """The outcome for one path."""

    what: What
    bundle_id: str | None = None
    """`<name>/<folder>`, once the record could be read."""
    record_sha256: str | None = None
    key_ids: tuple[str, ...] = ()
    """Whose signatures hold; none where it is unsigned."""
    tier: Tier | None = None
    """The tier it would get; None where it is not accepted, and for an attestation."""
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    """What was looked at, in order."""
    unusable: bool = False
    """It could not be read as anything at all: exit code 2 instead of 5."""

    @property
    def accepted(self) -> bool:
        """Nothing speaks against it."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """0 accepted, 2 unusable, 5 hostile or inconsistent."""
        if self.accepted:
            return 0
        return InvalidInput.exit_code if self.unusable else VerificationFailed.exit_code

    def require_accepted(self) -> None:
        """Turn the first finding into an error.

        Raises:
            InvalidInput: what was sent cannot be used at all.
            VerificationFailed: it is hostile or contradicts itself.
        """
        if self.accepted:
            return
        first = self.findings[0]
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        kind = InvalidInput if self.unusable else VerificationFailed
        raise kind(f"[{first.code}] {first.message}{more}", where=first.where or None, hint=first.hint or None)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "accepted": self.accepted,
            "what": self.what,
            "bundle_id": self.bundle_id,
            "record_sha256": self.record_sha256,
            "key_ids": list(self.key_ids),
            "tier": self.tier,
            "findings": [
                {"code": f.code, "where": f.where, "message": f.message, "hint": f.hint} for f in self.findings
            ],
            "checks": [{"name": c.name, "outcome": c.outcome, "detail": c.detail} for c in self.checks],
        }
