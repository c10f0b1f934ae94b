"""What the recording proxy adds to the first token. One command: python benchmarks/record.py

A fake server streams an answer; a client asks it directly and through the proxy by turns, so that both meet the same
machine. Prints the time to the first piece and to the last, direct and through the proxy, as medians and as their
ratio, for a server that answers at once (the proxy's own cost) and for one that takes as long as a model does to its
first token.
"""

import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import httpx2  # noqa: E402

from tests.record.world import chat_chunk, fake_server, finish_chunk  # noqa: E402

REQUESTS = 150
PIECES = [chat_chunk(i, content=f"word{i} ") for i in range(40)] + [finish_chunk()]
HISTORY = [{"role": "user", "content": "x" * 40_000}]


@contextmanager
def proxy(upstream: str, folder: Path) -> Iterator[str]:
    """`suite record` as a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = "from suite.cli.main import main; main()"
    options = ["record", "--upstream", upstream, "--out", str(folder), "--port", str(port), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx2.get(f"{url}/health")
                break
            except httpx2.HTTPError:
                time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def ask(client: httpx2.Client, url: str, before_first: float) -> tuple[float, float]:
    """Milliseconds to the first and to the last piece."""
    body = json.dumps(
        {
            "messages": HISTORY,
            "do": {"pieces": [p.decode() for p in PIECES], "before_first": before_first, "pause": 0.001},
        }
    )
    begun = time.perf_counter()
    with client.stream("POST", f"{url}/v1/chat/completions", content=body) as reply:
        pieces = reply.iter_raw()
        next(pieces)
        first = time.perf_counter()
        for _ in pieces:
            pass
    return (first - begun) * 1000, (time.perf_counter() - begun) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, fake_server() as fake:
        direct = f"http://127.0.0.1:{fake.port}"
        with proxy(direct, Path(folder) / "out") as through, httpx2.Client(timeout=60) as client:
            for name, wait, count in (("at once", 0.0, REQUESTS), ("after 100 ms", 0.1, REQUESTS // 3)):
                times: dict[str, list[tuple[float, float]]] = {direct: [], through: []}
                for number in range(count + 5):
                    for url in (direct, through):
                        measured = ask(client, url, wait)
                        if number >= 5:  # the first ones open connections
                            times[url].append(measured)
                for index, what in enumerate(("first piece", "last piece")):
                    a, b = (statistics.median(t[index] for t in times[url]) for url in (direct, through))
                    added = f"+{b - a:.2f} ms, ratio {b / a:.3f}"
                    print(f"{name:13} {what:12} direct {a:.2f} ms, proxy {b:.2f} ms, {added}")


if __name__ == "__main__":
    main()
