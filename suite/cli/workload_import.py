"""`suite workload import`: sessions from what other programs kept."""

from __future__ import annotations

from pathlib import Path

import click

from suite.errors import InvalidInput

_FORMATS = ("vllm-log", "sharegpt", "open-webui", "anthropic", "rollout", "trajectory", "openai")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Where the sessions go.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), help="Format of FILE. [default: found out]")
@click.option("--name", help="Name of the session. [default: the source's or the file's]")
def command(file: Path, out: Path, format_: str | None, name: str | None) -> None:
    """Make session files of the conversations in FILE.

    What measuring needs and FILE does not say (tools, sampler settings) is listed, never guessed; so is everything
    that had to be changed or left out.
    """
    from suite.files import write_atomic
    from suite.workload.importing.read import import_file

    imported = import_file(file, format=format_, name=name)
    paths = [out / f"{built.session.name}.json" for built in imported.built]
    if taken := next((path for path in paths if path.exists()), None):
        raise InvalidInput("exists already", where=str(taken), hint="give another --out or --name")
    click.echo(f"{file}: format {imported.format}")
    for path, built in zip(paths, imported.built, strict=True):
        write_atomic(path, built.session.to_json())
        click.echo(f"{path}: {len(built.session.messages)} messages, {len(built.session.tools)} tools")
        for change in built.changes:
            click.echo(f"  changed: {change}")
        for item in built.missing:
            click.echo(f"  missing: {item}")
    click.echo("  missing: the template and tokenizer that the model saw: suite workload check SESSION --tokenizer DIR")
    for text in imported.refused:
        click.echo(f"not taken: {text}", err=True)
