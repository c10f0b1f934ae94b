"""`suite replay`: let stacks or servers write every tool-call turn of a session, and count the calls that survive."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.replay.schema import ReplaysRecord, Sampler, Side
    from suite.workload.session import Session

_DEFAULT_TOKENS = 1024


@click.command()
@click.argument("targets", nargs=-1, type=click.Path(path_type=Path), metavar="[MANIFEST|BUNDLE]...")
@click.option("--endpoint", metavar="URL", help="Ask an OpenAI-compatible server instead (vLLM, llama.cpp, SGLang).")
@click.option("--against", metavar="URL", help="A second server, the reference: answers are paired by turn.")
@click.option("--session", type=click.Path(path_type=Path), metavar="FILE", help="The session, for --endpoint.")
@click.option("--model", metavar="NAME", help="Served name of the model; needed where a server has several.")
@click.option("--against-model", metavar="NAME", help="The same for --against.")
@click.option(
    "--api",
    type=click.Choice(["chat", "completions"]),
    default="chat",
    show_default=True,
    help="chat: the server's template and tool parser. completions: raw prompts, rendered here; needs --tokenizer.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Model folder, for raw prompts.",
)
@click.option("--chat-template", type=click.Path(path_type=Path), metavar="FILE", help="Template, for raw prompts.")
@click.option("--prompt-text", is_flag=True, help="Send raw prompts as text, to a server that takes no token ids.")
@click.option("--format", "format_name", metavar="NAME", help="Format of raw answers. [default: the template's]")
@click.option("--samples", type=click.IntRange(0, 64), help="Sampled answers at each turn, beside the greedy one.")
@click.option("--temperature", type=click.FloatRange(0, 5, min_open=True), help="Of the sampled answers.")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of the sampled answers.")
@click.option(
    "--max-tokens", type=click.IntRange(1, 1 << 20), help=f"Longest answer in tokens. [default: {_DEFAULT_TOKENS}]"
)
@click.option("--turns", type=click.IntRange(1), metavar="N", help="Only N turns, spread over the session.")
@click.option("--no-stream", is_flag=True, help="Ask for whole answers.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Requests at once.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, metavar="SECONDS", help="For one answer."
)
@click.option("--retries", type=click.IntRange(0, 20), default=3, show_default=True, help="Further attempts.")
@click.option(
    "--api-key-env", default="SUITE_API_KEY", show_default=True, metavar="NAME", help="Variable that holds the API key."
)
@click.option(
    "--against-key-env",
    default="SUITE_AGAINST_API_KEY",
    show_default=True,
    metavar="NAME",
    help="Variable that holds the key of --against.",
)
@click.option("--show", "shown_turn", type=click.IntRange(0), metavar="TURN", help="Print all answers at one turn.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Also write the whole record as JSON.")
@click.option("--json", "as_json", is_flag=True, help="The whole record on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def replay(
    targets: tuple[Path, ...],
    endpoint: str | None,
    against: str | None,
    session: Path | None,
    model: str | None,
    against_model: str | None,
    api: str,
    tokenizer: Path | None,
    chat_template: Path | None,
    prompt_text: bool,
    format_name: str | None,
    samples: int | None,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    turns: int | None,
    no_stream: bool,
    jobs: int,
    timeout: float,
    retries: int,
    api_key_env: str,
    against_key_env: str,
    shown_turn: int | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Let a stack write every tool-call turn of a recorded session, and count the calls that survive.

    At each turn the recorded history is given, and the answer is graded strictly (see `suite grade`). A call survives
    if it is closed, parsed, of a known tool, fits its schema and keeps its literals. Nothing in an answer is executed.

    With --endpoint a running server answers, with its own chat template and tool parser: the quickest look at a stack.
    """
    from suite.cli.progress import Progress
    from suite.cli.workload import read_template
    from suite.replay.endpoint import Endpoint, EndpointOptions
    from suite.replay.judge import tool_call_turns
    from suite.replay.served import Asked, load_prompts, replay_served

    if endpoint is None:
        raise InvalidInput("name a server", where="--endpoint", hint="for instance --endpoint http://localhost:8000/v1")
    if session is None:
        raise InvalidInput("a session is needed", where="--session", hint="name a session file; see docs/workloads.md")
    from suite.workload.session import load_session

    loaded = load_session(session)
    messages = tool_call_turns(loaded, limit=turns)
    prompts = None
    if api == "completions":
        if tokenizer is None:
            raise InvalidInput("raw prompts need a tokenizer", where="--tokenizer", hint="give the model's folder")
        prompts = load_prompts(
            loaded,
            messages,
            tokenizer,
            chat_template=read_template(chat_template),
            as_text=prompt_text,
            format=format_name,
        )
    asked = Asked(
        session=loaded,
        messages=messages,
        samples=samples or 0,
        sampler=_sampler(loaded, temperature, top_p) if samples else None,
        max_new_tokens=max_tokens or loaded.sampling.max_tokens or _DEFAULT_TOKENS,
        jobs=jobs,
        prompts=prompts,
    )
    cancelled = threading.Event()

    def server(url: str, name: str | None, key_variable: str) -> Endpoint:
        options = EndpointOptions(
            url=url,
            model=name,
            api="chat" if api == "chat" else "completions",
            stream=not no_stream,
            timeout_seconds=timeout,
            retries=retries,
            api_key=os.environ.get(key_variable) or None,
        )
        return Endpoint(options, cancelled=cancelled)

    servers: dict[Side, Endpoint] = {"candidate": server(endpoint, model, api_key_env)}
    if against is not None:
        servers["reference"] = server(against, against_model or model, against_key_env)
    try:
        with Progress(quiet=quiet) as progress:
            record = replay_served(asked, servers, observer=progress.line("replay"), cancelled=cancelled)
    finally:
        for opened in servers.values():
            opened.close()
    _tell(record, shown_turn=shown_turn, out=out, as_json=as_json)


def _sampler(session: Session, temperature: float | None, top_p: float | None) -> Sampler:
    from suite.replay.sampler import sampler_of

    return sampler_of(session, None, temperature=temperature, top_p=top_p)


def _tell(record: ReplaysRecord, *, shown_turn: int | None, out: Path | None, as_json: bool) -> None:
    from suite.files import write_atomic
    from suite.replay.table import faults, side_by_side, summary

    if out is not None:
        write_atomic(out, record.to_bytes())
    if as_json:
        click.echo(json.dumps(record.model_dump(mode="json"), indent=1))
    elif shown_turn is not None:
        click.echo(side_by_side(record, shown_turn))
    else:
        click.echo(summary(record))
        if found := faults(record):
            click.echo(f"\n{found}")
        click.echo("\nSpeaks of this session only. --show TURN prints all answers at a turn.")
