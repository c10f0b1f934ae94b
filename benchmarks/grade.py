"""Seconds to grade one megabyte in every format, for ordinary and for hostile outputs.

python benchmarks/grade.py [MEGABYTES]
"""

import sys
import time

from suite.grade.formats import GRAMMARS
from suite.grade.literals import listed
from suite.grade.tools import ToolSet
from suite.grade.verdict import grade

TOOLS = ToolSet({"run": {"type": "object", "properties": {"command": {"type": "string"}}}})
CONTEXT = listed(["5432", "GigabitEthernet0/0/1.201", "10.0.0.5", "page_size"])
WORDS = "show run interface GigabitEthernet0/0/1 and ping 10.0.0.7 from db-1:5433 with /etc/hosts "


def one_call(name: str, value: str) -> str:
    """One call `run(command=value)` in a format."""
    shapes = {
        "openai_json": '{"tool_calls":[{"id":"a","type":"function","function":{"name":"run",'
        '"arguments":"{\\"command\\": \\"%s\\"}"}}]}',
        "qwen_xml": "<tool_call>\n<function=run>\n<parameter=command>\n%s\n</parameter>\n</function>\n</tool_call>",
        "hermes": '<tool_call>\n{"name":"run","arguments":{"command":"%s"}}\n</tool_call>',
        "mistral": '[TOOL_CALLS]run[ARGS]{"command":"%s"}',
        "llama3_json": '{"name":"run","parameters":{"command":"%s"}}',
        "glm": "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>",
        "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>run\n```json\n"
        '{"command":"%s"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "deepseek_v31": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{"command":"%s"}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="run">\n<｜DSML｜parameter name="command" '
        'string="true">%s</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>"
        '{"command":"%s"}<|tool_call_end|><|tool_calls_section_end|>',
        "harmony": "<|start|>assistant<|channel|>commentary to=functions.run <|constrain|>json<|message|>"
        '{"command":"%s"}<|call|>',
    }
    return shapes[name] % value


def outputs(name: str, size: int) -> dict[str, str]:
    """Outputs of about `size` characters."""
    call = one_call(name, "ls")
    opening = one_call(name, "\0").split("\0")[0]
    mark = {"openai_json": '{"function":'}.get(name, opening[:24])
    return {
        "one long value": one_call(name, WORDS * (size // len(WORDS))),
        "distinct words": one_call(name, " ".join(f"w{n}-{n}.x" for n in range(size // 14))),
        "many calls": call * (size // len(call)),
        "opening marks": mark * (size // len(mark)),
        "numbers": opening.removesuffix('"') + "[" + "1," * (size // 2),
        "brackets": opening.removesuffix('"') + "[" * size,
        "escapes": opening + "\\u00e9" * (size // 6),
        "less-than signs": opening + "<" * size,
        "white space": opening + " " * size,
    }


def main() -> None:
    """Print a table; the last line is the worst."""
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 1) * 1e6)
    worst = (0.0, "")
    for name in GRAMMARS:
        for kind, text in outputs(name, size).items():
            started = time.perf_counter()
            graded = grade(text, format=name, tools=TOOLS, context=CONTEXT)
            seconds = time.perf_counter() - started
            worst = max(worst, (seconds, f"{name}, {kind}"))
            print(f"{name:13} {kind:16} {len(text):>9,} characters {seconds:6.3f} s  {graded.verdict}")
    print(f"worst: {worst[0]:.3f} s, {worst[1]}")


if __name__ == "__main__":
    main()
