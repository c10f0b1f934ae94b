"""From the `matrix.json` of matrix_32k.py to a table of speeds that the site shows (`site/speeds/*.json`).

    python3 benchmarks/gpu/publish_speeds.py MATRIX.json --manifests DIR --engine "vLLM 0.25.0" --created 2026-11-30 \\
        --out site/speeds/NAME.json [--context 32768] [--decode 256] [--eager]

GPU, model and weights are those of the manifests; all stacks must share GPU and model. Context, decode and --eager are
to be those that the matrix was measured with.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from suite.errors import SuiteError
from suite.files import write_atomic
from suite.site.launches import ManifestFacts, read_launches
from suite.site.speeds import SCHEMA_VERSION, parse_speeds


def main() -> None:
    """Write the table; exit code 2 where it would not be one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrix", type=Path)
    parser.add_argument("--manifests", type=Path, required=True, help="folder of the manifests that were measured")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--created", required=True, help="day of the measurement, YYYY-MM-DD")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--decode", type=int, default=256)
    parser.add_argument("--eager", action="store_true")
    options = parser.parse_args()
    rows = json.loads(options.matrix.read_text())
    known = {manifest.name: manifest for manifest in read_launches(options.manifests)}
    try:
        missing = [row["stack"] for row in rows if row["stack"] not in known]
        kinds = {(known[row["stack"]].gpu, known[row["stack"]].model) for row in rows if row["stack"] in known}
        if missing or len(kinds) != 1:
            sys.exit(f"not in {options.manifests}: {missing}" if missing else f"of several GPUs or models: {kinds}")
        ((gpu, model),) = kinds
        value = {
            "schema_version": SCHEMA_VERSION,
            "gpu": gpu,
            "model": model,
            "created": options.created,
            "engine": options.engine,
            "eager": options.eager,
            "prompt_tokens": options.context - options.decode,
            "decoded_tokens": options.decode,
            "stacks": [stack(row, known[row["stack"]]) for row in rows],
        }
        table = parse_speeds(json.dumps(value).encode(), where=str(options.matrix))
    except SuiteError as error:
        print(f"{error.where}: {error.message}", file=sys.stderr)
        sys.exit(2)
    write_atomic(options.out, table.to_bytes())


def stack(row: dict[str, object], manifest: ManifestFacts) -> dict[str, object]:
    """One row as the site's tables have it."""
    rounds = row.get("rounds", [])
    assert isinstance(rounds, list)
    return {
        "stack": row["stack"],
        "backend": row["backend"],
        "kv_cache_dtype": row["kv_cache_dtype"],
        "weights": manifest.command.weights,
        "is_reference": manifest.role == "reference",
        "rounds": [{name: one[name] for name in ("prefill_seconds", "decode_seconds")} for one in rounds],
        "kv_tokens": row.get("kv_tokens"),
        "error": row.get("error", ""),
    }


if __name__ == "__main__":
    main()
