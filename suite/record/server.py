"""Runs the proxy on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from suite import __version__
from suite.errors import MissingPrerequisite
from suite.observer import Observer
from suite.record.journal import Journal
from suite.record.proxy import Counts, Proxy, http_client
from suite.record.upstream import Upstream

_GRACE_SECONDS = 5
"""How long open exchanges may go on after the first signal."""
_KEEP_ALIVE_SECONDS = 300
_TRY_SECONDS = 3


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        MissingPrerequisite: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise MissingPrerequisite(
            f"cannot listen there: {error.strerror or error}", where=f"{host}:{port}", hint="choose another --port"
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    upstream: Upstream,
    folder: Path,
    listener: socket.socket,
    *,
    observer: Observer,
    ask_token_ids: bool = False,
    on_start: Callable[[Callable[[], None]], None] | None = None,
) -> Counts:
    """Record until SIGINT or SIGTERM, or until the function that `on_start` got is called.

    Args:
        upstream: Where requests go.
        folder: Where the journal is written.
        listener: From `listen`.
        observer: Told of every recorded exchange.
        ask_token_ids: See `Proxy`.
        on_start: Called with a function that stops the server; signals are then left alone.

    Raises:
        OSError: the journal cannot be made.
    """
    journal = Journal.create(folder, {"upstream": upstream.origin, "base": upstream.base, "suite": __version__})
    try:
        return asyncio.run(_serve(upstream, journal, listener, observer, ask_token_ids, on_start))
    finally:
        journal.close()


async def _serve(
    upstream: Upstream,
    journal: Journal,
    listener: socket.socket,
    observer: Observer,
    ask_token_ids: bool,
    on_start: Callable[[Callable[[], None]], None] | None,
) -> Counts:
    async with http_client() as client:
        proxy = Proxy(upstream, client=client, journal=journal, observer=observer, ask_token_ids=ask_token_ids)
        config = uvicorn.Config(
            Starlette(routes=[Mount("/", app=proxy)]),
            log_config=None,
            log_level="critical",  # a cut stream is an event of the recording, not an error of the server
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = _Server(config, signals=on_start is None)
        if on_start is not None:
            loop = asyncio.get_running_loop()

            def stop() -> None:
                loop.call_soon_threadsafe(server.stop)

            on_start(stop)
        await _try(upstream, observer)
        await server.serve(sockets=[listener])
        return proxy.counts


async def _try(upstream: Upstream, observer: Observer) -> None:
    """Tell early that nothing answers there. It also loads what connecting needs, before the first request does."""
    try:
        with anyio.fail_after(_TRY_SECONDS):
            await (await anyio.connect_tcp(upstream.host, upstream.port)).aclose()
    except (OSError, TimeoutError):
        observer.warn(f"nothing answers at {upstream.origin} yet")


class _Server(uvicorn.Server):
    """Ends on a signal without raising it again, so that sessions can be written afterwards."""

    def __init__(self, config: uvicorn.Config, *, signals: bool) -> None:
        super().__init__(config)
        self._signals = signals

    def stop(self) -> None:
        """Once: let open exchanges end. Twice: do not wait for them."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces uvicorn's own."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.stop()

        if not self._signals:
            yield
            return
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
