"""All checks of one session, in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.errors import InvalidInput
from suite.untyped import json_object
from suite.workload.check.interface import Check, Finding, Subject
from suite.workload.check.length import check_length
from suite.workload.check.sampler import check_sampler
from suite.workload.check.templates import (
    check_arguments,
    check_fallback,
    check_generation_prompt,
    check_template_differs,
    check_thinking,
)
from suite.workload.check.tokens import check_bos, check_output_ids, check_recorded, check_special_text
from suite.workload.render import render_with
from suite.workload.rendered import Rendered
from suite.workload.session import Session
from suite.workload.template import Template
from suite.workload.tokenizer import Tokenizer, load_tokenizer
from suite.workload.turns import RecordedTurns

CHECKS: tuple[Check, ...] = (
    check_bos,
    check_generation_prompt,
    check_fallback,
    check_template_differs,
    check_thinking,
    check_arguments,
    check_special_text,
    check_sampler,
    check_recorded,
    check_output_ids,
    check_length,
)
_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a check of one session found."""

    findings: tuple[Finding, ...]
    """Errors first."""
    rendered: Rendered | None
    """None where it cannot be rendered with exact spans."""
    tokenizer: Tokenizer

    @property
    def num_errors(self) -> int:
        """Findings that forbid a measurement."""
        return sum(finding.severity == "error" for finding in self.findings)


def check_session(
    session: Session,
    tokenizer_dir: Path,
    *,
    chat_template: str | None = None,
    turns: RecordedTurns | None = None,
    log: Sequence[str] = (),
    context_tokens: int | None = None,
) -> Report:
    """Check a session.

    Args:
        session: What to check.
        tokenizer_dir: Model folder with `tokenizer.json`; its `config.json` and `generation_config.json` are read.
        chat_template: Text of the template in use; None for the checkpoint's own.
        turns: What the server did, from a recording.
        log: Lines of the server's log.
        context_tokens: The server's context length.

    Raises:
        MissingPrerequisite: no tokenizer there.
        InvalidInput: neither the folder nor the caller has a template.
    """
    tokenizer = load_tokenizer(tokenizer_dir)
    own = _own_template(tokenizer, session)
    findings: list[Finding] = []
    try:
        template = Template(tokenizer, session, chat_template)
    except InvalidInput as error:
        if chat_template is None and own is None:
            raise
        return Report(findings=(_refused(error),), rendered=None, tokenizer=tokenizer)
    rendered: Rendered | None = None
    try:
        rendered = render_with(session, tokenizer, chat_template=chat_template)
    except InvalidInput as error:
        findings.append(_refused(error))
    subject = Subject(
        session=session,
        tokenizer=tokenizer,
        template=template,
        own_template=own,
        rendered=rendered,
        turns=_matching(turns, session, findings),
        generation_config=json_object(tokenizer_dir / "generation_config.json"),
        config=json_object(tokenizer_dir / "config.json"),
        log=tuple(log),
        context_tokens=context_tokens,
    )
    for check in CHECKS:
        findings.extend(check(subject))
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    return Report(findings=tuple(findings), rendered=rendered, tokenizer=tokenizer)


def _own_template(tokenizer: Tokenizer, session: Session) -> str | None:
    tools = [tool.model_dump(mode="json", exclude_none=True) for tool in session.tools] or None
    try:
        return str(tokenizer.backend.get_chat_template(None, tools=tools))
    except ValueError:
        return None


def _refused(error: InvalidInput) -> Finding:
    return Finding(
        code="not-renderable",
        severity="error",
        where=error.where or "session",
        message=error.message,
        effect="there is nothing to measure: which tokens are whose cannot be said exactly.",
        hint=error.hint or "use another template",
    )


def _matching(turns: RecordedTurns | None, session: Session, findings: list[Finding]) -> RecordedTurns | None:
    """The turns, if they are this session's: its recorded ids may have been added since, its text not changed."""
    if turns is None or turns.session in (session.digest(), session.model_copy(update={"recorded": None}).digest()):
        return turns
    findings.append(
        Finding(
            code="turns-of-another",
            severity="note",
            where="turns",
            message="the recorded turns beside it belong to another text of this session",
            effect="the server's token ids cannot be compared with it.",
            hint="check the session as it was recorded, before it was scrubbed or edited",
        )
    )
    return None
