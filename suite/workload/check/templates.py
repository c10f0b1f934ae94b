"""Template faults: generation prompt, fallback templates, stripped thinking, arguments as strings, another template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from suite.errors import InvalidInput
from suite.files import sha256_bytes
from suite.workload.check.interface import Finding, Subject
from suite.workload.session import AssistantMessage

_MARKERS = re.compile(
    r"<\|im_start\|>|<\|im_end\|>|<\|start_header_id\|>|<\|eot_id\|>|<start_of_turn>|<end_of_turn>|\[INST\]"
)


def check_generation_prompt(subject: Subject) -> Iterator[Finding]:
    """Whether the template opens the assistant's turn when it is asked to."""
    history = _history(subject)
    try:
        without = subject.template.apply(history)
        with_prompt = subject.template.apply(history, generation_prompt=True)
    except InvalidInput:
        return  # reported as a refusal of the whole session
    if with_prompt == without:
        yield Finding(
            code="no-generation-prompt",
            severity="error",
            where="chat_template",
            message="writes nothing for add_generation_prompt",
            effect="in a free replay the model continues the user's turn instead of answering it; the first token of "
            "every answer is predicted from the wrong place.",
            hint="use a template that handles add_generation_prompt",
        )


def _history(subject: Subject) -> list[dict[str, Any]]:
    messages = subject.template.messages
    first = next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))
    return messages[:first]


def check_fallback(subject: Subject) -> Iterator[Finding]:
    """A template whose turn marks are no tokens of this tokenizer: the sign of a fallback."""
    if subject.own_template is None:
        yield Finding(
            code="no-own-template",
            severity="warning",
            where="tokenizer",
            message="the checkpoint has no chat template of its own",
            effect="servers refuse to chat or fall back to a template of their choice; two stacks may then "
            "read two texts.",
            hint="name one template for all stacks: --chat-template, and `workload.chat_template` in manifests",
        )
    try:
        text = subject.template.apply(subject.template.messages, generation_prompt=False)
    except InvalidInput:
        return
    added = {token.text for token in subject.tokenizer.added.values()}
    used = {
        mark for mark in _MARKERS.findall(text) if mark in subject.template.text or mark[:3] in subject.template.text
    }
    spelt = sorted(mark for mark in used if mark not in added and len(subject.tokenizer.encode(mark)) > 1)
    if spelt:
        kind = "ChatML" if any("im_" in mark for mark in spelt) else "another model's"
        counts = ", ".join(f"{mark} is {len(subject.tokenizer.encode(mark))} tokens" for mark in spelt)
        yield Finding(
            code="chatml-fallback" if kind == "ChatML" else "foreign-template",
            severity="error",
            where="chat_template",
            message=f"looks like a fallback: its marks are ordinary text for this tokenizer ({counts}); "
            f"{kind} template",
            effect="the model was never trained on these marks: it does not end its turns, and all stacks "
            "are measured on "
            "a text that no user has.",
            hint="use the checkpoint's own template",
        )


def check_template_differs(subject: Subject) -> Iterator[Finding]:
    """Another template than the checkpoint's, or than the one the session was recorded with."""
    used = subject.template.sha256
    if subject.own_template is not None and sha256_bytes(subject.own_template.encode()) != used:
        yield Finding(
            code="template-differs",
            severity="warning",
            where="chat_template",
            message=f"{used[:12]} is not the checkpoint's own {sha256_bytes(subject.own_template.encode())[:12]}",
            effect="the results are of this template; a stack that serves the checkpoint's own reads another text.",
            hint="serve every stack with this very file, or use the checkpoint's own",
        )
    recorded = subject.session.recorded
    if recorded is None:
        return
    for what, then, now in (
        ("template", recorded.chat_template_sha256, used),
        ("tokenizer", recorded.tokenizer_sha256, subject.tokenizer.sha256),
    ):
        if then != now:
            yield Finding(
                code=f"recorded-{what}-differs",
                severity="error",
                where="recorded",
                message=f"was recorded with {what} {then[:12]}, and this is {now[:12]}",
                effect="the recorded token ids are not used; what is measured is a new rendering, and off-policy.",
                hint=f"use the {what} of the recording",
            )


def check_thinking(subject: Subject) -> Iterator[Finding]:
    """Reasoning of earlier turns that the template leaves out of the history."""
    rendered = subject.rendered
    thinking = [
        index
        for index, message in enumerate(subject.session.messages)
        if isinstance(message, AssistantMessage) and (message.reasoning_content or "").strip()
    ]
    if rendered is None or not thinking:
        return
    kept = {span.turn for span in rendered.spans if span.kind == "reasoning"}
    lost = [index for index in thinking if index not in kept]
    if lost:
        yield Finding(
            code="thinking-stripped",
            severity="warning",
            where=f"messages.{lost[0]}",
            message=f"the template leaves the reasoning of {len(lost)} of {len(thinking)} answers out of the history",
            effect="those answers stand there without what led to them: at their first tokens the model predicts "
            "reasoning, so that they are off-policy there, and prefix caches of a live run differ from this prompt.",
            hint="measure the turns as they were sent, or a template that keeps the reasoning (for instance "
            "chat_template_kwargs with preserve_thinking)",
        )


def check_arguments(subject: Subject) -> Iterator[Finding]:
    """Tool arguments that the model sees as a string, and values whose type is not the tool's."""
    schemas = {tool.function.name: tool.function.parameters for tool in subject.session.tools}
    whole = 0
    first: int | None = None
    values: list[str] = []
    text = ""
    for index, message in enumerate(subject.session.messages):
        calls = message.tool_calls if isinstance(message, AssistantMessage) else None
        for call in calls or []:
            arguments = json.loads(call.function.arguments)
            text = text or _text(subject)
            if any(form in text for form in _as_strings(arguments)):
                whole += 1
                first = index if first is None else first
            values += _wrong_types(
                arguments, schemas.get(call.function.name, {}), f"messages.{index} {call.function.name}"
            )
    if whole and first is not None:
        yield Finding(
            code="arguments-as-string",
            severity="error",
            where=f"messages.{first}",
            message=f"the template writes the arguments of {whole} calls as a quoted string, not as an object",
            effect="the history teaches the model calls with escaped quotes; its next calls copy them and fail, which "
            "looks like damage of a stack.",
            hint="use a template that takes arguments as objects, and a server that parses them",
        )
    if values:
        yield Finding(
            code="value-as-string",
            severity="warning",
            where=values[0].split(":")[0],
            message=f"{len(values)} values have another type than the tool's schema: {'; '.join(values[:3])}",
            effect="a strict grader refuses such calls in every stack; they are no damage.",
            hint="keep them if the model wrote them; correct them if an import did",
        )


def _text(subject: Subject) -> str:
    try:
        return subject.template.apply(subject.template.messages)
    except InvalidInput:
        return ""


def _as_strings(arguments: Mapping[str, Any]) -> list[str]:
    if not arguments:
        return []
    forms = (
        json.dumps(arguments),
        json.dumps(arguments, ensure_ascii=False),
        json.dumps(arguments, separators=(",", ":")),
    )
    return [json.dumps(form) for form in forms] + [json.dumps(form, ensure_ascii=False) for form in forms]


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip


def _wrong_types(arguments: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    properties = schema.get("properties")
    found = []
    for key, value in arguments.items():
        wanted = (
            properties.get(key, {}).get("type")
            if isinstance(properties, dict) and isinstance(properties.get(key), dict)
            else None
        )
        if isinstance(wanted, str) and wanted in _TYPES and isinstance(value, str):
            found.append(f"{where}: {key} is a string, not {wanted}")
    return found
