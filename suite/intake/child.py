"""The bounded process: limits on memory, time and files come first, then a stranger's bytes are looked at.

python -P -m suite.intake.child     with one JSON object on standard input; writes the report to standard output
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

OUT_OF_MEMORY = 77
"""Exit code where the limit on memory was met."""


def bind(task: dict[str, Any]) -> None:
    """Apply the limits of `task` to this process and what it might start."""
    limits = task["limits"]
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, limits["expanded_bytes"]),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value, value) if hard == resource.RLIM_INFINITY else (min(value, hard), hard))


def main() -> None:
    """Do one task."""
    task = json.load(sys.stdin)
    bind(task)
    try:
        from suite.intake.examine import examine
        from suite.intake.limits import Limits

        report = examine(
            Path(task["path"]),
            scratch=Path(task["scratch"]),
            results=None if task["results"] is None else Path(task["results"]),
            limits=Limits(**{field.name: task["limits"][field.name] for field in fields(Limits)}),
            now=datetime.fromisoformat(task["now"]),
        )
        text = json.dumps(report.to_json() | {"unusable": report.unusable})
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
