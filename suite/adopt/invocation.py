"""How a vLLM server was started, whatever started it: image, variables, mounts and the arguments of `vllm serve`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from suite.errors import InvalidInput
from suite.stack.launch import SERVER_MODULE

TEXT_LIMIT_CHARACTERS = 64 * 1024
_WHERE = "command"
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})
_WRAPPERS = frozenset({"sudo", "exec", "nohup", "time", "command"})
_ENGINES = frozenset({"docker", "podman", "nerdctl"})
# Options of `docker run` that take no value; every other one takes the next word, or what follows `=`.
_NO_VALUE = frozenset(
    {
        "--rm", "--detach", "--interactive", "--tty", "--privileged", "--read-only", "--init", "--no-healthcheck",
        "--oom-kill-disable", "--publish-all", "--sig-proxy", "--disable-content-trust", "--quiet", "--replace",
    }
)  # fmt: skip
_SHORT_NO_VALUE = frozenset("ditPq")
_SHORT = {"-e": "--env", "-v": "--volume", "-p": "--publish"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """One start of a server."""

    image: str | None
    """As it was written, with tag or digest; None for a process."""
    arguments: tuple[str, ...]
    """What follows `vllm serve`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    passed_on: tuple[str, ...] = ()
    """Variables that were taken from the caller's environment: their values are not known."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folder inside -> folder on the host."""
    image_digests: Mapping[str, str] = field(default_factory=dict)
    """Digests that the engine knows of the image: `digest` (of a registry) and `config_digest`."""


def parse_command(text: str) -> Invocation:
    """Read `docker run ... vllm serve ...` or plain `vllm serve ...`, as it stands in a terminal or a script.

    Raises:
        InvalidInput: not one command, not a vLLM server, or something that only a shell could expand.
    """
    if len(text) > TEXT_LIMIT_CHARACTERS:
        raise InvalidInput(f"longer than {TEXT_LIMIT_CHARACTERS:,} characters", where=_WHERE)
    return from_words(_words(text), {})


def from_words(words: Sequence[str], environment: Mapping[str, str]) -> Invocation:
    """The same from a list of words, under variables that were set around them.

    Raises:
        InvalidInput: not a vLLM server.
    """
    words, variables = _strip(list(words), dict(environment))
    if len(words) > 1 and words[0] in _ENGINES and words[1] in ("run", "create", "container"):
        rest = words[2:] if words[1] != "container" else words[3:]
        return _docker(rest, variables)
    return Invocation(image=None, arguments=tuple(_server(words)), environment=variables)


def _words(text: str) -> list[str]:
    joined = re.sub(r"\\\r?\n", " ", text)
    # `2>` names a stream; apart from its operator it would look like a value.
    joined = re.sub(r"(?<=\s)[012](?=>)", "", joined)
    try:
        lexer = shlex.shlex(joined, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError as error:
        raise InvalidInput(f"cannot be read as shell text: {error}", where=_WHERE, hint="close the quote") from error
    # A `#` begins a comment only at the start of a word.
    if "#" in {word[:1] for word in words}:
        words = words[: next(index for index, word in enumerate(words) if word.startswith("#"))]
    # What follows a pipe or a redirection is not the server's.
    for index, word in enumerate(words):
        if word and set(word) <= set("();<>|&"):
            if word in ("&&", ";") and not any("vllm" in other for other in words[:index]):
                return _words(shlex.join(words[index + 1 :]))
            return words[:index]
    return words


def _strip(words: list[str], variables: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Take off what stands before the program: variables, `env`, `sudo`, and a shell that was given a text."""
    while words:
        if match := _ASSIGNMENT.fullmatch(words[0]):
            variables[match[1]] = match[2]
            words = words[1:]
        elif words[0] in ("export", "env") or words[0] in _WRAPPERS:
            words = words[1:]
        elif _name(words[0]) in _SHELLS and len(words) > 2 and re.fullmatch(r"-[a-z]*c", words[1]):
            words = _words(words[2])
        else:
            break
    return words, variables


def _server(words: list[str]) -> list[str]:
    """The arguments of the server that `words` start."""
    if words and _name(words[0]) == "vllm" and words[1:2] == ["serve"]:
        return words[2:]
    for index, word in enumerate(words):
        if word == SERVER_MODULE and index > 0 and words[index - 1] == "-m":
            return words[index + 1 :]
        if word == "-m" and words[index + 1 : index + 2] == ["vllm.entrypoints.cli.main"] and "serve" in words:
            return words[words.index("serve") + 1 :]
    shown = " ".join(words[:3]) or "nothing"
    raise InvalidInput(
        f"not a vLLM server: it starts {shown!r}",
        where=_WHERE,
        hint="give `docker run ... IMAGE ...`, `vllm serve MODEL ...`, or what starts the API server's module",
    )


def inside_image(words: Sequence[str], *, entrypoint: Sequence[str] | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and variables of the server that an image starts with `words`.

    Args:
        words: What follows the image's name.
        entrypoint: What the image runs; None for that of vLLM's own images, `vllm serve` (older ones: the module).

    Raises:
        InvalidInput: not a vLLM server.
    """
    if entrypoint is None:
        stripped, variables = _strip(list(words), {})
        starts = bool(stripped) and (_name(stripped[0]) in ("vllm", "python", "python3") or "-m" in stripped[:3])
        return (tuple(_server(stripped)) if starts else tuple(stripped)), variables
    stripped, variables = _strip([*entrypoint, *words], {})
    return tuple(_server(stripped)), variables


def _docker(words: list[str], variables: Mapping[str, str]) -> Invocation:
    environment: dict[str, str] = {}
    passed_on: list[str] = []
    mounts: dict[str, str] = {}
    entrypoint: list[str] | None = None
    index = 0
    while index < len(words) and words[index].startswith("-"):
        name, value, index = _option(words, index)
        if name == "--env":
            key, equals, given = value.partition("=")
            if equals:
                environment[key] = given
            elif key in variables:
                environment[key] = variables[key]
            else:
                passed_on.append(key)
        elif name == "--env-file":
            passed_on.append(f"the file {value}")
        elif name in ("--volume", "--mount"):
            mounts |= _mount(name, value)
        elif name == "--entrypoint":
            entrypoint = _words(value)
    if index >= len(words):
        raise InvalidInput("names no image", where=_WHERE, hint="give the whole command")
    image, rest = words[index], words[index + 1 :]
    arguments, inner = inside_image(rest, entrypoint=entrypoint)
    return Invocation(
        image=image,
        arguments=arguments,
        environment=environment | inner,
        passed_on=tuple(passed_on),
        mounts=mounts,
    )


def _option(words: list[str], index: int) -> tuple[str, str, int]:
    """Name, value and the index of what follows one option of `docker run`."""
    word = words[index]
    if not word.startswith("--"):
        if set(word[1:]) <= _SHORT_NO_VALUE:
            return word, "", index + 1
        # `-eNAME=value`, `-dp 80:80`
        letter = next((at for at, char in enumerate(word[1:], 1) if char not in _SHORT_NO_VALUE), 1)
        name = _SHORT.get(f"-{word[letter]}", f"-{word[letter]}")
        if word[letter + 1 :]:
            return name, word[letter + 1 :].removeprefix("="), index + 1
        return name, words[index + 1] if index + 1 < len(words) else "", index + 2
    name, equals, value = word.partition("=")
    if equals or name in _NO_VALUE:
        return name, value, index + 1
    return name, words[index + 1] if index + 1 < len(words) else "", index + 2


def _mount(name: str, value: str) -> dict[str, str]:
    if name == "--volume":
        host, _, inside = value.partition(":")
        inside = inside.partition(":")[0]
        return {inside: host} if inside.startswith("/") and host.startswith(("/", "~", ".", "$")) else {}
    fields = dict(part.partition("=")[::2] for part in _csv(value))
    source = fields.get("src") or fields.get("source") or ""
    target = fields.get("dst") or fields.get("target") or fields.get("destination") or ""
    return {target: source} if fields.get("type", "volume") == "bind" and target else {}


def _csv(value: str) -> list[str]:
    import csv

    return next(csv.reader([value]), [])


def _name(program: str) -> str:
    return program.rsplit("/", 1)[-1]
