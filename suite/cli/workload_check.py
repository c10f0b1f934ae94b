"""`suite workload check`: what the model really sees."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.errors import InvalidInput

if TYPE_CHECKING:
    from suite.workload.check.run import Report

_COLOURS = {
    "system": "blue",
    "user": "bright_blue",
    "assistant_output": "green",
    "reasoning": "magenta",
    "tool_call": "yellow",
    "tool_result": "cyan",
    "scaffold": "bright_black",
}
_SHOWN_CHARACTERS = 400


@click.command("check")
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--tokenizer", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Model folder.")
@click.option(
    "--chat-template", type=click.Path(path_type=Path), metavar="FILE", help="Template in place of the model's own."
)
@click.option(
    "--turns",
    "turns_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What the server did at each turn. [default: the .turns.json beside SESSION, if any]",
)
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="FILE", help="The server's log, for its sampler defaults."
)
@click.option("--context", type=click.IntRange(1), metavar="TOKENS", help="Context length. [default: config.json's]")
@click.option("--show", is_flag=True, help="Print the text with its spans in colours; long ones shortened.")
@click.option("--full", is_flag=True, help="The same, whole.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write all of it as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(
    session: Path,
    tokenizer: Path,
    chat_template: Path | None,
    turns_path: Path | None,
    log: Path | None,
    context: int | None,
    show: bool,
    full: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Render SESSION as the model sees it and look for what would spoil a measurement.

    Each finding says what it does to a measurement. Exit code 2 if one of them is an error.
    """
    from suite.cli.workload import read_template
    from suite.files import write_atomic
    from suite.workload.check.page import page
    from suite.workload.check.run import check_session
    from suite.workload.check.segments import segments
    from suite.workload.session import load_session
    from suite.workload.turns import load_turns, turns_file

    loaded = load_session(session)
    if turns_path is None and turns_file(session).is_file():
        turns_path = turns_file(session)
    report = check_session(
        loaded,
        tokenizer,
        chat_template=read_template(chat_template),
        turns=None if turns_path is None else load_turns(turns_path),
        log=_lines(log),
        context_tokens=context,
    )
    parts = list(segments(report.rendered, report.tokenizer)) if report.rendered else []
    if html is not None:
        write_atomic(html, page(loaded.name, report.findings, parts, _hashes(report)))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in report.findings], indent=1, ensure_ascii=False))
    else:
        _print(report, parts, show=show or full, full=full)
        if html is not None:
            click.echo(f"{html}: the same as a page, with the session's text")
    if report.num_errors:
        raise InvalidInput(
            f"{report.num_errors} faults would spoil a measurement", where=str(session), hint="each says what to do"
        )


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error


def _hashes(report: Report) -> list[tuple[str, str]]:
    rendered = report.rendered
    if rendered is None:
        return []
    return [
        ("workload", rendered.workload_digest),
        ("tokens", rendered.tokens_sha256),
        ("tokenizer", rendered.tokenizer_sha256),
        ("chat template", rendered.chat_template_sha256),
    ]


def _print(report: Report, parts: list, *, show: bool, full: bool) -> None:  # type: ignore[type-arg]
    if show:
        from suite.grade.verdict import printable

        for part in parts:
            text = part.text
            if not full and len(text) > _SHOWN_CHARACTERS:
                cut = len(text) - _SHOWN_CHARACTERS
                text = f"{text[: _SHOWN_CHARACTERS // 2]} […{cut:,} characters…] {text[-_SHOWN_CHARACTERS // 2 :]}"
            click.secho(printable(text, kept="\n\t"), fg=_COLOURS[part.kind], underline=part.literal, nl=False)
        click.echo("\n")
        legend = "  ".join(click.style(kind, fg=colour) for kind, colour in _COLOURS.items())
        click.echo(f"{legend}  {click.style('literal', underline=True)}\n")
    if report.rendered is not None:
        from suite.cli.workload import summary

        click.echo(summary(report.rendered))
        click.echo()
    for finding in report.findings:
        colour = {"error": "red", "warning": "yellow", "note": "cyan"}[finding.severity]
        click.echo(f"{click.style(finding.severity, fg=colour)} {finding.code}, {finding.where}: {finding.message}")
        click.echo(f"  it does: {finding.effect}")
        click.echo(f"  to do:   {finding.hint}")
    if not report.findings:
        click.echo("nothing found")
