"""`suite grade`: strict verdicts on the tool calls of one output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from suite.grade.server import Opinion
    from suite.grade.verdict import Graded

FORMATS = (
    "openai_json",
    "qwen_xml",
    "hermes",
    "mistral",
    "llama3_json",
    "glm",
    "deepseek_v3",
    "deepseek_v31",
    "deepseek_v32",
    "kimi_k2",
    "harmony",
)
"""Named here too, so that `--help` imports no grammar."""
MAX_OUTPUT_BYTES = 64 * 1024 * 1024


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--format", "format_name", type=click.Choice(["auto", *FORMATS]), default="auto", show_default=True)
@click.option("--tools", "tools_file", type=click.Path(path_type=Path), help="JSON list of tools, or a session.")
@click.option(
    "--context",
    "context_file",
    type=click.Path(path_type=Path),
    help="Where the literals come from: a text, a JSON list of those that must survive, or a session.",
)
@click.option(
    "--message", type=click.IntRange(min=0), help="With a session: index of the message that this output stands for."
)
@click.option("--truncated", is_flag=True, help="The output ran into the token cap.")
@click.option("--engine-error", is_flag=True, help="The engine failed before the output was whole.")
@click.option("--reasoning-open", is_flag=True, help="The prompt ended inside <think>.")
@click.option("--vllm-parser", metavar="NAME", help="Also ask vLLM's own lenient parser of that name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def grade(
    file: Path,
    format_name: str,
    tools_file: Path | None,
    context_file: Path | None,
    message: int | None,
    truncated: bool,
    engine_error: bool,
    reasoning_open: bool,
    vllm_parser: str | None,
    as_json: bool,
) -> None:
    """Grade the tool calls in FILE, a model's raw output with special tokens kept (- for standard input).

    Each call climbs a ladder: closed, parsed, known name, schema valid, literals intact; its verdict names the rung
    that it did not reach. Nothing in the output is executed. Exit code 0 whatever the verdict.
    """
    from suite.errors import InvalidInput
    from suite.grade.context import Expected, load_context
    from suite.grade.tools import load_tools
    from suite.grade.verdict import Ending, text_from
    from suite.grade.verdict import grade as grade_output

    if truncated and engine_error:
        raise InvalidInput("an output ends in one way", where="--truncated, --engine-error", hint="give one of them")
    if message is not None and context_file is None:
        raise InvalidInput("--message needs a session", where="--message", hint="name one with --context")
    data = _read(file)
    expected: Expected | None = load_context(context_file, message=message) if context_file else None
    tools = load_tools(tools_file) if tools_file else expected.tools if expected else None
    ending = Ending.TRUNCATED if truncated else Ending.ENGINE_ERROR if engine_error else Ending.STOP
    graded = grade_output(
        data,
        format=format_name,
        tools=tools,
        context=expected.context if expected else None,
        right_commands=expected.right_commands if expected else (),
        ending=ending,
        reasoning_open=reasoning_open,
    )
    if format_name == "auto":
        click.echo(f"format: {graded.format or 'no call of a known format'}", err=True)
    result: dict[str, Any] = graded.to_json()
    opinion, remark = None, ""
    if vllm_parser:
        from suite.grade.server import differences

        text = text_from(data)
        opinion = _ask(vllm_parser, text, tools.schemas if tools else {})
        remark = opinion.error or differences(graded, opinion.calls, text=text, tools=tools)
        result["vllm_parser"] = opinion.to_json(remark)
    if as_json:
        click.echo(json.dumps(result, indent=1, ensure_ascii=True))
    else:
        click.echo(_table(graded, opinion, remark))


def _read(file: Path) -> bytes:
    from suite.errors import InvalidInput

    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(MAX_OUTPUT_BYTES + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(MAX_OUTPUT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(file)) from error
    if len(data) > MAX_OUTPUT_BYTES:
        raise InvalidInput(f"larger than {MAX_OUTPUT_BYTES >> 20} MiB", where=str(file), hint="one output per file")
    return data


def _ask(parser: str, text: str, schemas: dict[str, Any]) -> Opinion:
    import os

    from suite.grade.server import ask_vllm
    from suite.runtime.process import find_interpreter

    python = find_interpreter(None, os.environ, Path.cwd())
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in schemas.items()]
    return ask_vllm(python, parser, text.encode(errors="replace").decode(), tools=tools)


def _table(graded: Graded, opinion: Opinion | None, remark: str) -> str:
    from tabulate import tabulate

    from suite.grade.verdict import printable

    lines = [f"verdict: {graded.verdict}"]
    if graded.calls:
        rows = [
            (
                number,
                ascii(call.name)[1:-1] if call.name else "-",
                *(_mark(step) for step in (call.closed, call.parsed, call.known_name, call.schema_valid)),
                _mark(call.literals_intact if call.parsed else False),
                str(call.verdict),
            )
            for number, call in enumerate(graded.calls, start=1)
        ]
        headers = ("call", "name", "closed", "parsed", "known name", "schema", "literals", "verdict")
        lines += ["", tabulate(rows, headers=headers)]
    for number, call in enumerate(graded.calls, start=1):
        if call.first_fault:
            lines.append(f"call {number}: character {call.first_fault.position}: {printable(call.first_fault.message)}")
        for source, mutant in call.literals.mutated:
            lines.append(f"call {number}: {printable(source)} became {printable(mutant)}")
        for kind, words in (("missing", call.literals.missing), ("invented", call.literals.invented)):
            if words:
                lines.append(f"call {number}: {kind}: {', '.join(map(printable, words[:20]))}")
    if graded.stray:
        lines.append(f"character {graded.stray.position}: {printable(graded.stray.message)}")
    if opinion:
        lines.append(f"vLLM {opinion.vllm or '?'}, parser {opinion.parser}: {printable(remark)}")
    return "\n".join(lines)


def _mark(step: bool | None) -> str:
    return "-" if step is None else "yes" if step else "no"
