"""Writes calls in every format, as a well-behaved model does."""

from __future__ import annotations

import json
from typing import Any

Call = tuple[str, dict[str, Any]]


def text_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def openai_json(calls: list[Call]) -> str:
    items = [
        {"id": f"call{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return json.dumps({"role": "assistant", "content": None, "tool_calls": items})


def qwen_xml(calls: list[Call]) -> str:
    return "\n".join(
        f"<tool_call>\n<function={name}>\n"
        + "".join(f"<parameter={k}>\n{text_value(v)}\n</parameter>\n" for k, v in arguments.items())
        + "</function>\n</tool_call>"
        for name, arguments in calls
    )


def hermes(calls: list[Call]) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps({'name': n, 'arguments': a})}\n</tool_call>" for n, a in calls)


def mistral(calls: list[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}" for name, arguments in calls)


def mistral_old(calls: list[Call]) -> str:
    return "[TOOL_CALLS] " + json.dumps([{"name": n, "arguments": a} for n, a in calls])


def llama3_json(calls: list[Call]) -> str:
    return "<|python_tag|>" + "; ".join(json.dumps({"name": n, "parameters": a}) for n, a in calls)


def glm(calls: list[Call]) -> str:
    return "\n".join(
        f"<tool_call>{name}\n"
        + "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{text_value(v)}</arg_value>\n" for k, v in arguments.items())
        + "</tool_call>"
        for name, arguments in calls
    )


def deepseek_v3(calls: list[Call]) -> str:
    return (
        "<｜tool▁calls▁begin｜>"
        + "\n".join(
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{json.dumps(a)}\n```<｜tool▁call▁end｜>"
            for n, a in calls
        )
        + "<｜tool▁calls▁end｜>"
    )


def deepseek_v31(calls: list[Call]) -> str:
    return (
        "<｜tool▁calls▁begin｜>"
        + "".join(f"<｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{json.dumps(a)}<｜tool▁call▁end｜>" for n, a in calls)
        + "<｜tool▁calls▁end｜>"
    )


def deepseek_v32(calls: list[Call]) -> str:
    text = "<｜DSML｜function_calls>\n"
    for name, arguments in calls:
        text += f'<｜DSML｜invoke name="{name}">\n'
        for key, value in arguments.items():
            string = "true" if isinstance(value, str) else "false"
            text += f'<｜DSML｜parameter name="{key}" string="{string}">{text_value(value)}</｜DSML｜parameter>\n'
        text += "</｜DSML｜invoke>\n"
    return text + "</｜DSML｜function_calls>"


def kimi_k2(calls: list[Call]) -> str:
    return (
        "<|tool_calls_section_begin|>"
        + "".join(
            f"<|tool_call_begin|>functions.{name}:{n}<|tool_call_argument_begin|>{json.dumps(arguments)}"
            "<|tool_call_end|>"
            for n, (name, arguments) in enumerate(calls)
        )
        + "<|tool_calls_section_end|>"
    )


def harmony(calls: list[Call]) -> str:
    return "".join(
        f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
        f"{json.dumps(arguments)}<|call|>"
        for name, arguments in calls
    )


WRITERS = {
    "openai_json": openai_json,
    "qwen_xml": qwen_xml,
    "hermes": hermes,
    "mistral": mistral,
    "llama3_json": llama3_json,
    "glm": glm,
    "deepseek_v3": deepseek_v3,
    "deepseek_v31": deepseek_v31,
    "deepseek_v32": deepseek_v32,
    "kimi_k2": kimi_k2,
    "harmony": harmony,
}
