"""What a run hands over so that a bundle can hold branching futures; every count is computed from it."""

from __future__ import annotations

from dataclasses import dataclass

from suite.branch.file import pack_forks
from suite.branch.schema import BRANCHES_NAME, FORKS_NAME, BranchesRecord, BranchRun, Fork, ForkPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class Branching:
    """All forks of one candidate."""

    policy: ForkPolicy
    tool_format: str | None
    end_token_ids: tuple[int, ...]
    stop_texts: tuple[str, ...]
    candidate: BranchRun
    reference: BranchRun | None
    forks: tuple[Fork, ...]
    """In order of position."""
    engine_logs: str
    """Of both engines; they follow the capture's in `engine.log`, redacted like that."""

    def packed(self) -> tuple[BranchesRecord, dict[str, bytes]]:
        """The record, and the bytes of both files by name."""
        data, segments = pack_forks(self.forks)
        record = BranchesRecord(
            policy=self.policy,
            tool_format=self.tool_format,
            end_token_ids=self.end_token_ids,
            stop_texts=self.stop_texts,
            candidate=self.candidate,
            reference=self.reference,
            num_forks=len(self.forks),
            segments=segments,
        )
        return record, {BRANCHES_NAME: record.to_bytes(), FORKS_NAME: data}
