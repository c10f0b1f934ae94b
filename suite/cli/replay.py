"""`suite replay`: let stacks or servers write every tool-call turn of a session, and count the calls that survive."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.grade import FORMATS
from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.replay.schema import ReplaysRecord, Side
    from suite.run.replays import ReplayPlan
    from suite.run.stack import Stack

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
@click.option(
    "--format", "format_name", type=click.Choice(FORMATS), help="Format of raw answers. [default: the template's]"
)
@click.option("--samples", type=click.IntRange(0, 64), help="Sampled answers at each turn, beside the greedy one.")
@click.option("--temperature", type=click.FloatRange(0, 5, min_open=True), help="Of the sampled answers.")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of the sampled answers.")
@click.option(
    "--max-tokens", type=click.IntRange(1, 1 << 20), help=f"Longest answer in tokens. [default: {_DEFAULT_TOKENS}]"
)
@click.option("--turns", type=click.IntRange(1), metavar="N", help="Only N turns, spread over the session.")
@click.option(
    "--settings",
    type=click.Choice(["measure", "serve", "both"]),
    help="Manifests: under which settings the stack answers. [default: the manifest's, else measure]",
)
@click.option(
    "--follow",
    type=click.IntRange(0, 8),
    metavar="N",
    help="Manifests: let greedy answers that do not survive go on for N turns in the simulated laboratory.",
)
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
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the whole record as JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="The whole record on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.pass_context
def replay(
    context: click.Context,
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
    settings: str | None,
    follow: int | None,
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
    With a manifest its stack answers, and the reference beside it. Of a bundle what it holds is printed.
    """
    if endpoint is None:
        _refuse(context, _OF_SERVERS, "needs --endpoint")
        plan = _Plan(
            samples=samples, temperature=temperature, top_p=top_p, max_tokens=max_tokens, turns=turns, follow=follow,
            settings=settings, format=format_name,
        )  # fmt: skip
        if any(target.is_dir() for target in targets):
            _refuse(context, _OF_STACKS, "is for manifests: a bundle has been replayed")
        records = [_of_target(target, plan, quiet=quiet) for target in targets]
        if not records:
            raise InvalidInput("name a manifest, a bundle or a server", where="suite replay", hint="see --help")
        if len(records) > 1 and (as_json or out):
            raise InvalidInput("one record at a time", where="--json, --out", hint="name one manifest or bundle")
    else:
        if targets:
            raise InvalidInput("a server and manifests at once", where="--endpoint", hint="name either")
        _refuse(context, ("settings", "follow"), "is for manifests")
        if api == "chat":
            _refuse(context, ("tokenizer", "chat_template", "prompt_text", "format_name"), "needs --api completions")
        if against is None:
            _refuse(context, ("against_model", "against_key_env"), "needs --against")
        if not samples:
            _refuse(context, ("temperature", "top_p"), "is for sampled answers: needs --samples")
        ask = _Server(
            url=endpoint, against=against, model=model, against_model=against_model, api=api, tokenizer=tokenizer,
            chat_template=chat_template, prompt_text=prompt_text, stream=not no_stream, jobs=jobs, timeout=timeout,
            retries=retries, api_key_env=api_key_env, against_key_env=against_key_env, format=format_name,
        )  # fmt: skip
        records = [_of_server(ask, session, samples, temperature, top_p, max_tokens, turns, shown_turn, quiet=quiet)]
    for number, record in enumerate(records):
        if number:
            click.echo("")
        _tell(record, shown_turn=shown_turn, out=out, as_json=as_json)


_OF_SERVERS = (
    "session", "against", "model", "against_model", "api", "tokenizer", "chat_template", "prompt_text", "no_stream",
    "jobs", "timeout", "retries", "api_key_env", "against_key_env",
)  # fmt: skip
_OF_STACKS = ("samples", "temperature", "top_p", "max_tokens", "turns", "settings", "follow", "format_name")


def _refuse(context: click.Context, names: Sequence[str], why: str) -> None:
    """Say that an option has no meaning here, where it was given."""
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is given:
            raise InvalidInput(why, where=parameter.opts[0], hint="see suite replay --help")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    samples: int | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    turns: int | None
    follow: int | None
    settings: str | None
    format: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Server:
    url: str
    against: str | None
    model: str | None
    against_model: str | None
    api: str
    tokenizer: Path | None
    chat_template: Path | None
    prompt_text: bool
    stream: bool
    jobs: int
    timeout: float
    retries: int
    api_key_env: str
    against_key_env: str
    format: str | None


def _of_target(target: Path, given: _Plan, *, quiet: bool) -> ReplaysRecord:
    """What a bundle holds, or a replay of the manifest's stack and its reference."""
    from suite.bundle.read import open_bundle
    from suite.bundle.replays import read_replays
    from suite.cli.progress import Progress
    from suite.manifest.schema import Replay
    from suite.run.captures import Store
    from suite.run.replays import plan_of, replay_stacks
    from suite.run.stack import prepare_stack, stack_at_hand
    from suite.stack.home import require_writable, suite_home

    if target.is_dir():
        record = read_replays(open_bundle(target))
        if record is None:
            raise InvalidInput(
                "the bundle holds no turn replays", where=str(target), hint="name its manifest to make some"
            )
        return record
    home, cancelled = suite_home(), threading.Event()
    require_writable(home)
    store = Store(home=home)
    with Progress(quiet=quiet) as progress:
        observer = progress.line(target.stem)
        stack = prepare_stack(target, home=home, root=Path.cwd(), observer=observer, cancelled=cancelled)
        plan = _merged(plan_of(stack.lock.replay or Replay(settings=("measure",))), given)
        sides: dict[Side, Stack] = {"candidate": stack}
        if (file := stack.manifest.reference_file) is not None:
            reference = stack_at_hand(file, home=home, root=Path.cwd(), observer=observer, cancelled=cancelled)
            if reference is not None:
                sides["reference"] = reference
        return replay_stacks(plan, sides, store=store, observer=observer, cancelled=cancelled)


def _merged(plan: ReplayPlan, given: _Plan) -> ReplayPlan:
    """The manifest's plan, with what the command line says in its place."""
    from suite.run.replays import SETTINGS

    if given.top_p is not None and given.temperature is None:
        raise InvalidInput("--top-p needs --temperature", where="--top-p")
    changes: dict[str, Any] = {
        "samples": given.samples,
        "max_new_tokens": given.max_tokens,
        "turns": given.turns,
        "follow_steps": given.follow,
        "format": given.format,
        "settings": SETTINGS[given.settings] if given.settings else None,
    }
    if given.temperature is not None:
        changes |= {"temperature": given.temperature, "top_p": given.top_p}
    return replace(plan, **{name: value for name, value in changes.items() if value is not None})


def _of_server(
    ask: _Server,
    session: Path | None,
    samples: int | None,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    turns: int | None,
    shown_turn: int | None,
    *,
    quiet: bool,
) -> ReplaysRecord:
    from suite.cli.progress import Progress
    from suite.cli.workload import read_template
    from suite.replay.endpoint import Endpoint, EndpointOptions
    from suite.replay.judge import tool_call_turns
    from suite.replay.sampler import sampler_of
    from suite.replay.served import Asked, load_prompts, replay_served
    from suite.workload.session import load_session

    if session is None:
        raise InvalidInput("a session is needed", where="--session", hint="name a session file; see docs/workloads.md")
    loaded = load_session(session)
    messages = tool_call_turns(loaded, limit=turns)
    if shown_turn is not None:
        _known_turn(shown_turn, messages)
    sampler = sampler_of(loaded, None, temperature=temperature, top_p=top_p) if samples else None
    prompts = None
    if ask.api == "completions":
        if ask.tokenizer is None:
            raise InvalidInput("raw prompts need a tokenizer", where="--tokenizer", hint="give the model's folder")
        prompts = load_prompts(
            loaded,
            messages,
            ask.tokenizer,
            chat_template=read_template(ask.chat_template),
            as_text=ask.prompt_text,
            format=ask.format,
        )
    asked = Asked(
        session=loaded,
        messages=messages,
        samples=samples or 0,
        sampler=sampler,
        max_new_tokens=max_tokens or loaded.sampling.max_tokens or _DEFAULT_TOKENS,
        jobs=ask.jobs,
        prompts=prompts,
    )
    cancelled = threading.Event()

    def server(url: str, name: str | None, key_variable: str) -> Endpoint:
        options = EndpointOptions(
            url=url,
            model=name,
            api="chat" if ask.api == "chat" else "completions",
            stream=ask.stream,
            timeout_seconds=ask.timeout,
            retries=ask.retries,
            api_key=os.environ.get(key_variable) or None,
        )
        return Endpoint(options, cancelled=cancelled)

    servers: dict[Side, Endpoint] = {"candidate": server(ask.url, ask.model, ask.api_key_env)}
    try:
        if ask.against is not None:
            servers["reference"] = server(ask.against, ask.against_model or ask.model, ask.against_key_env)
        with Progress(quiet=quiet) as progress:
            return replay_served(asked, servers, observer=progress.line("replay"), cancelled=cancelled)
    finally:
        for opened in servers.values():
            opened.close()


def _known_turn(shown_turn: int, messages: Sequence[int]) -> None:
    if shown_turn not in messages:
        known = ", ".join(map(str, messages))
        raise InvalidInput(f"no tool-call turn {shown_turn} is replayed", where="--show", hint=f"there are {known}")


def _tell(record: ReplaysRecord, *, shown_turn: int | None, out: Path | None, as_json: bool) -> None:
    from suite.files import write_atomic
    from suite.replay.table import faults, side_by_side, summary

    if out is not None:
        write_atomic(out, record.to_bytes())
    if as_json:
        click.echo(json.dumps(record.model_dump(mode="json"), indent=1))
    elif shown_turn is not None:
        _known_turn(shown_turn, [turn.message for turn in record.turns])
        click.echo(side_by_side(record, shown_turn))
    else:
        click.echo(summary(record))
        if found := faults(record):
            click.echo(f"\n{found}")
        click.echo("\nSpeaks of this session only. --show TURN prints all answers at a turn.")
