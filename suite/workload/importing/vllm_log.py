"""Logs of a vLLM server with --enable-log-requests: prompts, settings and, at debug level, whole request bodies."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from suite.untyped import Json, as_dict, as_list, json_or_none
from suite.workload.importing.draft import Draft
from suite.workload.importing.interface import Source, messages_in
from suite.workload.importing.markup import messages_of_prompt
from suite.workload.importing.messages import SAMPLING_KEYS

_RECEIVED = re.compile(
    r"Received request (?P<id>[^\s:]+): (?:prompt: (?P<prompt>'.*?'|\".*?\"), )?params: (?P<params>[A-Za-z]+\(.*)"
)
_DETAILS = re.compile(r"Request (?P<id>\S+) details: prompt: (?P<prompt>'.*?'|\".*?\"), prompt_token_ids: ")
_BODY = re.compile(r"Request (?P<id>\S+) JSON body: (?P<body>\{.*\})\s*$")
_OUTPUT = re.compile(
    r"Generated response (?P<id>\S+)(?: \(streaming complete\))?: output: (?P<text>'.*?'|\".*?\"), "
    r"(?:output_token_ids|finish_reason): "
)
_SETTING = re.compile(r"\b(\w+)=(-?\d+(?:\.\d+)?(?:e-?\d+)?|None)\b")


@dataclass
class _Request:
    prompt: str | None = None
    body: Json | None = None
    output: str | None = None
    sampling: Json = field(default_factory=dict)


class VllmLog:
    """Text."""

    name = "vllm-log"

    def recognises(self, source: Source) -> bool:
        """See `Importer`."""
        return _RECEIVED.search(source.text) is not None

    def read(self, source: Source) -> Iterator[Draft]:
        """One draft for each request that no later one continues."""
        drafts = [draft for request in _requests(source.text) if (draft := _draft(request)) is not None]
        for index, draft in enumerate(drafts):
            longer = (later for later in drafts[index + 1 :] if len(later.messages) > len(draft.messages))
            own = [(m.get("role"), m.get("content")) for m in draft.messages]
            if not any([(m.get("role"), m.get("content")) for m in x.messages[: len(own)]] == own for x in longer):
                yield draft


def _requests(text: str) -> list[_Request]:
    found: dict[str, _Request] = {}
    for line in text.splitlines():
        for pattern in (_RECEIVED, _DETAILS, _BODY, _OUTPUT):
            match = pattern.search(line)
            if match is None:
                continue
            # A completion request may hold several prompts, each with its number at the end of the id.
            request = found.setdefault(re.sub(r"\A(cmpl-.+)-0\Z", r"\1", match["id"]), _Request())
            groups = match.groupdict()
            if groups.get("prompt"):
                request.prompt = _literal(groups["prompt"])
            if groups.get("body"):
                request.body = as_dict(json_or_none(groups["body"]))
            if groups.get("text"):
                request.output = _literal(groups["text"])
            if groups.get("params"):
                pairs = dict(_SETTING.findall(groups["params"]))
                request.sampling = {k: json.loads(pairs[k]) for k in SAMPLING_KEYS if pairs.get(k, "None") != "None"}
    return list(found.values())


def _literal(text: str) -> str | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _draft(request: _Request) -> Draft | None:
    body = request.body or {}
    messages = messages_in(body.get("messages")) or messages_of_prompt(request.prompt or "")
    if not messages:
        return None
    if request.output:
        messages = [*messages, {"role": "assistant", "content": request.output}]
    tools = body.get("tools")
    return Draft(
        messages=messages,
        generator="import of a vLLM log",
        tools=[as_dict(t) for t in as_list(tools)] if body else None,
        sampling=request.sampling or {k: body[k] for k in SAMPLING_KEYS if body.get(k) is not None} or None,
        template_kwargs=as_dict(body.get("chat_template_kwargs")),
        note="" if body else "Taken apart from rendered prompts: tool definitions and calls stand in the text.",
    )
