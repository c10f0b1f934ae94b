"""One OpenAI-compatible server over HTTP: retries, deadlines, and errors that say what to do."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx2

from suite.errors import InvalidInput, MissingPrerequisite, RunFailed, SuiteError
from suite.replay.wire import Malformed, Refused, Reply, error_text, model_names, read_stream, read_whole

Api = Literal["chat", "completions"]
_Found = TypeVar("_Found")

MAX_ANSWER_BYTES = 16 << 20
_CONNECT_SECONDS = 10.0
_MOST_WAIT_SECONDS = 60.0
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class NoAnswer(Exception):
    """The server gave no answer to one request, after all retries.

    Args:
        error: What to raise where this ends the run.
    """

    def __init__(self, error: SuiteError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointOptions:
    """Where the server is and how it is asked."""

    url: str
    """With or without `/v1`."""
    model: str | None = None
    """None: the one that the server serves."""
    api: Api = "chat"
    stream: bool = True
    timeout_seconds: float = 300.0
    """For one whole answer."""
    retries: int = 3
    """Further attempts where the server is busy, fails or cuts the connection."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token, and never written anywhere."""
    backoff_seconds: float = 0.5
    """Wait before the first further attempt; doubled each time."""


class Endpoint:
    """A server, asked by any number of threads."""

    def __init__(self, options: EndpointOptions, *, cancelled: threading.Event | None = None) -> None:
        """`cancelled` ends waits and streams when set.

        Raises:
            InvalidInput: the URL is none, or the timeout is no number.
        """
        self.options = options
        self.base = base_url(options.url)
        self.shown_url = shown_url(self.base)
        self._cancelled = cancelled or threading.Event()
        if not math.isfinite(options.timeout_seconds):
            raise InvalidInput("not a number of seconds", where="--timeout")
        headers = {"Accept": "application/json, text/event-stream", "User-Agent": "suite-replay"}
        if options.api_key:
            headers["Authorization"] = f"Bearer {options.api_key}"
        timeout = httpx2.Timeout(options.timeout_seconds, connect=min(_CONNECT_SECONDS, options.timeout_seconds))
        self._client = httpx2.Client(headers=headers, timeout=timeout)

    def close(self) -> None:
        """End all connections."""
        self._client.close()

    def model(self) -> tuple[str, str | None]:
        """The model's served name, and who owns it according to the server.

        Raises:
            InvalidInput: the server serves several, or not the one asked for.
            MissingPrerequisite, RunFailed: it cannot be reached, or lists none.
        """
        try:
            data = self._attempts(lambda: self._get("models"))
        except NoAnswer as failure:
            if self.options.model is not None and isinstance(failure.error, InvalidInput):
                return self.options.model, None  # a server without a list; the name is taken as given
            raise failure.error from failure
        names, owner = data
        if self.options.model is not None:
            if names and self.options.model not in names:
                raise InvalidInput(
                    f"the server serves no model {self.options.model!r}",
                    where=self.shown_url,
                    hint=f"it serves {', '.join(names[:10])}",
                )
            return self.options.model, owner
        if len(names) != 1:
            raise InvalidInput(
                f"the server serves {len(names)} models" if names else "the server names no model",
                where=self.shown_url,
                hint="say which with --model" + (f": {', '.join(names[:10])}" if names else ""),
            )
        return names[0], owner

    def answer(self, body: Mapping[str, Any]) -> Reply:
        """Ask once; busy and failing servers are asked again.

        Raises:
            NoAnswer: with the error to raise if this ends the run.
            KeyboardInterrupt: cancelled.
        """
        path = "chat/completions" if self.options.api == "chat" else "completions"
        return self._attempts(lambda: self._post(path, body))

    def _attempts(self, ask: Callable[[], _Found]) -> _Found:
        for attempt in range(self.options.retries + 1):
            last = attempt == self.options.retries
            wait = self.options.backoff_seconds * 2**attempt * (1 + random.random() / 4)  # noqa: S311 - spreads retries
            try:
                return ask()
            except _Again as again:
                if last:
                    raise NoAnswer(self._failed(again.told)) from again
                wait = again.after_seconds if again.after_seconds is not None else wait
            except httpx2.InvalidURL as error:
                raise NoAnswer(InvalidInput(f"not a URL: {error}", where=self.shown_url)) from error
            except httpx2.TransportError as error:
                if last:
                    raise NoAnswer(self._unreachable(error)) from error
            except Malformed as error:
                if last:
                    raise NoAnswer(self._failed(f"not an answer of the OpenAI protocol: {error}")) from error
            except Refused as error:
                raise NoAnswer(self._failed(self._without_key(str(error)))) from error
            if self._cancelled.wait(min(wait, _MOST_WAIT_SECONDS)):
                raise KeyboardInterrupt
        raise AssertionError("the last attempt returns or raises")

    def _get(self, path: str) -> tuple[list[str], str | None]:
        with self._client.stream("GET", f"{self.base}/{path}") as response:
            data = b"".join(self._pieces(response))
            self._require_success(response, data)
        return model_names(data)

    def _post(self, path: str, body: Mapping[str, Any]) -> Reply:
        with self._client.stream("POST", f"{self.base}/{path}", json=dict(body)) as response:
            if response.is_success and response.headers.get("content-type", "").startswith("text/event-stream"):
                return read_stream(self._pieces(response))
            data = b"".join(self._pieces(response))
            self._require_success(response, data)
            # A server that does not stream answers as a whole, whatever was asked.
            return read_whole(data)

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """The body, within the deadline of one whole answer and its largest size."""
        deadline = time.monotonic() + self.options.timeout_seconds
        size = 0
        for piece in response.iter_bytes():
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                raise Refused(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the answer is not complete")
            if self._cancelled.is_set():
                raise KeyboardInterrupt
            yield piece

    def _require_success(self, response: httpx2.Response, data: bytes) -> None:
        status = response.status_code
        if response.is_success:
            return
        told = self._without_key(f"HTTP {status}: {error_text(data) or response.reason_phrase}")
        if status in _AGAIN:
            raise _Again(told, _retry_after(response.headers.get("retry-after")))
        if status in (401, 403):
            raise NoAnswer(
                MissingPrerequisite(
                    f"the server wants a valid API key ({told})",
                    where=self.shown_url,
                    hint="put it into the environment variable that --api-key-env names (SUITE_API_KEY by default)",
                )
            )
        hint = "see the server's own log"
        if status == 404:
            hint = f"is this the API's root? {self.shown_url} was asked; completions may need --api completions"
        elif response.is_redirect:
            hint = "give the URL that it redirects to"
        elif "tool" in told and self.options.api == "chat":
            hint = (
                "start the server with tool calling (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; "
                "llama.cpp: --jinja), or use --api completions"
            )
        raise NoAnswer(InvalidInput(f"the server refuses the request ({told})", where=self.shown_url, hint=hint))

    def _without_key(self, text: str) -> str:
        return text.replace(self.options.api_key, "<key>") if self.options.api_key else text

    def _failed(self, told: str) -> RunFailed:
        attempts = self.options.retries + 1
        return RunFailed(
            f"no answer after {attempts} attempt{'s' if attempts > 1 else ''}: {told}",
            where=self.shown_url,
            hint="see the server's own log; --retries and --timeout give it more time",
        )

    def _unreachable(self, error: httpx2.TransportError) -> SuiteError:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
            return MissingPrerequisite(
                f"the server cannot be reached: {error}",
                where=self.shown_url,
                hint="is it running, and is this its URL?",
            )
        if isinstance(error, httpx2.TimeoutException):
            return self._failed(f"nothing more came within {self.options.timeout_seconds:g} s")
        return self._failed(f"the connection broke: {error or type(error).__name__}")


class _Again(Exception):
    def __init__(self, told: str, after_seconds: float | None) -> None:
        super().__init__(told)
        self.told = told
        self.after_seconds = after_seconds


def base_url(url: str) -> str:
    """The API's root: `/v1` is added where the URL has no path.

    Raises:
        InvalidInput: not an http or https URL.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"not a URL: {error}", where=ascii(url)) from error
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidInput("not an http or https URL", where=ascii(url), hint="for instance http://localhost:8000/v1")
    path = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(ending)
    return urlunsplit((parts.scheme, parts.netloc, path or "/v1", "", ""))


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _retry_after(text: str | None) -> float | None:
    """Seconds of a Retry-After header; a date or nonsense is passed over."""
    try:
        seconds = float(text) if text else None
    except ValueError:
        return None
    return seconds if seconds is not None and seconds >= 0 else None
