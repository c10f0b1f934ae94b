"""The `suite` command. Commands are imported only when used, so that `--help` stays fast."""

from __future__ import annotations

import importlib
import keyword
import sys
from typing import NoReturn

import click

from suite import __version__
from suite.errors import MissingPrerequisite, SuiteError

# name -> (module, one line for `suite --help`); the module holds a click command of that name (`import_`: a keyword).
COMMANDS = {
    "run": ("suite.cli.run", "Measure stacks: manifest in, verified result bundle out."),
    "plan": ("suite.cli.plan", "Say what `run` would do, with disk and time, without running."),
    "show": ("suite.cli.show", "Print a result bundle's headline counts."),
    "launch": ("suite.cli.launch", "Print the command that launches a stack, checked and with its differences."),
    "verify": ("suite.cli.verify", "Recompute a bundle's headlines, hashes and, with evidence, its ledger."),
    "compare": ("suite.cli.compare", "Put bundles of one reference in one table, and rank what a test separates."),
    "gate": ("suite.cli.gate", "Check whether a new stack is worse than allowed (exit code 1)."),
    "reproduce": ("suite.cli.reproduce", "Run somebody else's bundle again on this machine, and compare every row."),
    "score": ("suite.cli.score", "Score two captures, without bundles."),
    "replay": ("suite.cli.replay", "Let a stack or server write the tool-call turns; count the calls that survive."),
    "manifest": ("suite.cli.manifest", "Check, show, lock and compare manifests."),
    "record": ("suite.cli.record", "Keep an agent's own session while it works."),
    "workload": ("suite.cli.workload", "Import, scrub, check, render and synthesize sessions."),
    "model": ("suite.cli.model", "Fetch and derive the models that manifests name."),
    "weights": ("suite.cli.weights", "Compare the tensors of checkpoints."),
    "reference": ("suite.cli.reference", "Publish, take in, check and list reference packs."),
    "evidence": ("suite.cli.evidence", "Publish what a ledger was computed from, or open it where others draw."),
    "submit": ("suite.cli.submit", "Make a bundle ready to be published, after showing what becomes public."),
    "intake": ("suite.cli.intake", "Check what a stranger sent: bundle, submission or attestation."),
    "result": ("suite.cli.result", "List published results, correct and withdraw them, and attest others'."),
    "key": ("suite.cli.key", "Make and show the keys that sign."),
    "sign": ("suite.cli.sign", "Put your name under a bundle, submission, attestation or reference pack."),
    "import": ("suite.cli.import_", "Bring base files of llama.cpp into the capture store."),
    "export": ("suite.cli.export", "Write a capture as a base file of llama.cpp."),
    "inspect-log": ("suite.cli.inspect_log", "Say what an engine really used, from its log or its receipt."),
    "llama": ("suite.cli.llama", "Check llama.cpp's numbers, and its command lines."),
    "branches": ("suite.cli.branches", "Show what became of a bundle's flips: both futures, side by side."),
    "grade": ("suite.cli.grade", "Grade the tool calls in an output, strictly."),
    "image": ("suite.cli.image", "Pin, build, check, archive and restore container images."),
    "site": ("suite.cli.site", "Build guides, leaderboard and result pages from bundles."),
    "card": ("suite.cli.card", "Write and check what model cards say about divergences."),
    "sbom": ("suite.cli.sbom", "List what a stack is made of."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of a run."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        attribute = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="suite")
def cli() -> None:
    """Measure what one serving flag does to a local model's answers, and prove it.

    Exit codes: 0 done, 1 gate not passed, 2 invalid input, 3 missing prerequisite, 4 run failed, 5 verification failed.
    """


def main() -> NoReturn:
    """Run the command line; user errors become one message and their exit code."""
    try:
        cli(standalone_mode=False)
    except SuiteError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OSError as error:
        # Whatever no module could say better: a folder that may not be written, a disk that is full.
        # Of a renaming the second name is the one that a person gave.
        name = error.filename2 or error.filename
        place = f"{name}: " if name is not None else ""
        click.echo(
            f"error: {place}{error.strerror or error}\n  make the file usable or free the disk, then run again",
            err=True,
        )
        sys.exit(MissingPrerequisite.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(0)
