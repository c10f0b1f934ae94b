"""Rows a second of reading, encoding and comparing base files, one thread.

Run: python benchmarks/llama_kld.py [--vocab 49152] [--rows 255]
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from suite.llama.codes import encode_rows
from suite.llama.export import row_bytes
from suite.llama.file import open_kld, survey_kld
from suite.llama.header import KldHeader
from suite.llama.pair import compare_files, own_columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab", type=int, default=49_152)
    parser.add_argument("--rows", type=int, default=255, help="rows per chunk; two chunks are written")
    options = parser.parse_args()
    header = KldHeader(context_tokens=2 * options.rows + 2, vocab_size=options.vocab, num_chunks=2)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("base.kld", "q.kld")]
        encoding = 0.0
        for path in paths:
            with path.open("wb") as stream:
                stream.write(header.to_bytes() + bytes(4 * header.num_tokens))
                for _ in range(0, header.num_rows, 64):
                    count = min(64, header.num_rows - stream.tell() // header.row_bytes)
                    logits = random.normal(0, 4, (count, options.vocab)).astype(np.float32)
                    started = time.perf_counter()
                    stream.write(row_bytes(encode_rows(logits, clip_nats=16), header))
                    encoding += time.perf_counter() - started
        report("encode and write", 2 * header.num_rows, encoding)
        file, other = (open_kld(path) for path in paths)
        started = time.perf_counter()
        survey_kld(file)
        report("survey (hash, clip, NLL)", header.num_rows, time.perf_counter() - started)
        started = time.perf_counter()
        for a, b in zip(file.blocks(), other.blocks(), strict=True):
            own_columns(a.encoded, b.encoded, a.target_ids)
        report("pairs, its formulas", header.num_rows, time.perf_counter() - started)
        started = time.perf_counter()
        compare_files(*paths)
        report("pairs, both, with surveys", header.num_rows, time.perf_counter() - started)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def report(what: str, rows: int, seconds: float) -> None:
    print(f"{what:<28} {rows / seconds:>9,.0f} rows/s")


if __name__ == "__main__":
    main()
