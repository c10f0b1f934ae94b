"""Stage the agent for a stack: its files alone, so that nothing else of this installation reaches the stack's path."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import suite.agent
from suite.files import sha256_file

_ROOT = Path(suite.agent.__file__).parent


def agent_files(folder: Path = _ROOT) -> dict[str, str]:
    """Relative path to SHA-256 of every file of the agent."""
    return {str(p.relative_to(folder)): sha256_file(p) for p in sorted(folder.rglob("*.py"))}


def agent_digest(folder: Path = _ROOT) -> str:
    """One SHA-256 over the agent's file names and hashes."""
    text = "".join(f"{digest}  {name}\n" for name, digest in agent_files(folder).items())
    return hashlib.sha256(text.encode()).hexdigest()


def stage_agent(home: Path) -> Path:
    """Copy the agent once per version below `home` and return the folder to put on PYTHONPATH.

    A copy that is no longer what its name says is replaced.
    """
    digest = agent_digest()
    target = home / "agent" / digest
    if target.is_dir():
        if agent_digest(target / "suite" / "agent") == digest:
            return target
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".agent-", dir=target.parent))
    try:
        temporary.chmod(0o755)
        (temporary / "suite").mkdir()
        (temporary / "suite" / "__init__.py").write_text("")
        shutil.copytree(_ROOT, temporary / "suite" / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        temporary.rename(target)
    except OSError:
        if not target.is_dir():  # else another process staged the same version first
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target
