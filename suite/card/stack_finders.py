"""Where a statement discloses what ran: checkpoints, dtypes, kernels, images.

Each finder yields what it found and what is lacking in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from suite.card.disclosure import EFFECTIVE, Disclosure, Finder, dtype_name, key_of, label_of, side_of
from suite.card.document import Statement
from suite.card.patterns import (
    AGAINST,
    ANY_HASH,
    BACKEND,
    BACKEND_LABEL,
    COMMIT,
    CUT_DIGEST,
    DIGEST,
    DTYPE,
    IMAGE,
    KV_AFTER,
    KV_BEFORE,
    KV_FLAG,
    KV_LABEL,
    KV_VALUE,
    KV_WORD,
    NO_IMAGE,
    ONE_GPU,
    REPOSITORY,
    SHA256,
    SHORT,
    SHORT_HASH,
    TAG,
    TP,
    TP_LABEL,
    WEIGHTS,
)
from suite.card.words import Side, side_before


def revision_of(side: Side) -> Finder:
    """A finder of one side's checkpoint: a commit, or a hash of weights."""

    def find(statement: Statement) -> Iterator[Disclosure]:
        text = statement.text
        about = f"{label_of(statement)} {text}"
        hashes = [(m.start(), m[0]) for m in COMMIT.finditer(text)] + [(m.start(1), m[1]) for m in SHORT.finditer(text)]
        # A file by its hash is as exact as a commit, where it is the model's.
        if re.search(r"weights?|model|gguf|wheel|checkpoint|safetensors", about, re.IGNORECASE) and not (
            IMAGE.search(about) or re.search(r"tokeni[sz]er|template", about, re.IGNORECASE)
        ):
            hashes += [(m.start(), m[0]) for m in SHA256.finditer(text)]
        if IMAGE.search(text) and not REPOSITORY.search(text):
            hashes = []
        for at, value in hashes:
            if (_revision_side(statement, at) or "candidate") == side:
                yield Disclosure(value=value, statement=statement, side=side)
        named = REPOSITORY.search(text)
        if named and not hashes and not IMAGE.search(about) and side_of(statement, named.start()) == side:
            yield Disclosure(
                value=named[1], statement=statement, side=side, partial=f"names {named[1]} without a revision"
            )

    return find


def _revision_side(statement: Statement, at: int) -> Side | None:
    found = side_of(statement, at)
    if found is None and re.search(r"base[ _]model", label_of(statement), re.IGNORECASE):
        return "reference"
    return found


def reference_dtype(statement: Statement) -> Iterator[Disclosure]:
    """The dtype named as the reference's."""
    text, label = statement.text, label_of(statement)
    if re.search(r"KV|cache", label, re.IGNORECASE) or statement.kind == "command":
        return
    found: list[str] = [m[1] for m in AGAINST.finditer(text)]
    if side_before(label, len(label)) == "reference" or re.search(r"base model", label, re.IGNORECASE):
        first = DTYPE.search(re.sub(rf"(?i){KV_WORD}\W{{0,4}}\w+|\w+[- ]{KV_WORD}", "", text))
        found += [first[1]] if first else []
    else:
        for match in DTYPE.finditer(text):
            after = text[match.end() : match.end() + 24]
            if re.match(rf"\s?{KV_WORD}", after, re.IGNORECASE) or re.search(
                rf"{KV_WORD}\W{{0,4}}$", text[: match.start()], re.IGNORECASE
            ):
                continue
            beside = re.match(
                r"\s*(?:weights?\s*)?(?:reference|baseline|base\b|original|Referenz|référence|参考)",
                after,
                re.IGNORECASE,
            )
            before = side_before(text[max(0, match.start() - 90) : match.start()], 90) == "reference"
            if beside or before:
                found.append(match[1])
                break
    for value in found[:1]:
        yield Disclosure(value=dtype_name(value), statement=statement, side="reference")


def backend(statement: Statement) -> Iterator[Disclosure]:
    """The attention backend; one in a command is only asked for."""
    said = f"{label_of(statement)}: {statement.text}"
    for match in BACKEND.finditer(statement.text):
        value = re.sub(r"[\s_-]", "", match[1].lower())
        value = {"flashattn": "flashattention", "tritonattention": "tritonattn", "flexattention": "flexattention"}.get(
            value, value
        )
        if statement.kind == "command" or (
            re.search(r"\brequested\b", said, re.IGNORECASE) and "effective" not in said.lower()
        ):
            yield Disclosure(value=value, statement=statement, partial=f"only asks for {match[1]}; {EFFECTIVE}")
        else:
            yield Disclosure(value=value, statement=statement, side=side_of(statement, match.start()))
    if not BACKEND.search(statement.text) and BACKEND_LABEL.search(label_of(statement)) and statement.kind != "command":
        value = statement.text.strip().lower()
        if re.search(r"\bauto\b|default|standard", value):
            yield Disclosure(value=value, statement=statement, partial=f"says {value[:40]!r}, which names no kernel")
        elif re.match(r"[a-z][\w. +/-]{2,40}$", value):
            yield Disclosure(value=re.sub(r"[\s_-]", "", value), statement=statement, side=side_of(statement))


def kv_dtype(statement: Statement) -> Iterator[Disclosure]:
    """The KV cache's dtype, with its side where one is named."""
    text = statement.text
    if statement.kind == "command":
        for match in KV_FLAG.finditer(text):
            yield Disclosure(
                value=dtype_name(match[1]), statement=statement, partial=f"only asks for {match[1]}; {EFFECTIVE}"
            )
        return
    matches = [*KV_AFTER.finditer(text), *KV_BEFORE.finditer(text)]
    if not matches and KV_LABEL.search(label_of(statement)):
        matches = list(re.finditer(rf"(?<![A-Za-z0-9]){KV_VALUE}", text, re.IGNORECASE))
    for match in matches:
        value = re.sub(r"[\s()-]+", "_", dtype_name(match[1])).strip("_")
        partial = "says auto, which names no dtype" if value == "auto" else ""
        after = re.match(r"[^.;,]{0,12}\(?(reference|candidate)", text[match.end() :], re.IGNORECASE)
        side: Side | None = side_of(statement, match.start())
        if after:
            side = "reference" if after[1].lower() == "reference" else "candidate"
        yield Disclosure(value=value, statement=statement, side=side, partial=partial)


def tensor_parallel(statement: Statement) -> Iterator[Disclosure]:
    """How many GPUs share a layer."""
    text = statement.text
    if match := TP.search(text):
        yield Disclosure(value=match[1], statement=statement, side=side_of(statement))
    elif TP_LABEL.search(key_of(statement)) and (number := re.match(r"\W*(\d{1,3})\b", text)):
        yield Disclosure(value=number[1], statement=statement, side=side_of(statement))
    elif ONE_GPU.search(text):
        yield Disclosure(value="1", statement=statement, side=side_of(statement))


def image(statement: Statement) -> Iterator[Disclosure]:
    """A container image by its digest, or the word that there was none."""
    said = f"{label_of(statement)}: {statement.text}"
    text = statement.text
    if NO_IMAGE.search(said):
        yield Disclosure(value="none", statement=statement)
    elif not IMAGE.search(said) and not re.search(r"@sha256:", text):
        return
    elif match := DIGEST.search(text) or (SHA256.search(text) if IMAGE.search(label_of(statement)) else None):
        yield Disclosure(
            value=match[0].removeprefix("sha256:"), statement=statement, side=side_of(statement, match.start())
        )
    elif CUT_DIGEST.search(text):
        yield Disclosure(value="cut", statement=statement, partial="shortens the digest; write all 64 digits")
    elif match := TAG.search(text):
        yield Disclosure(
            value=match[0], statement=statement, partial=f"names the tag {match[0].rstrip('.')}, which can move"
        )


def hash_of(pattern: re.Pattern[str], *, what: str, none: re.Pattern[str] | None = None) -> Finder:
    """A finder of the hash of a thing, or of the word that there is no such thing."""

    def find(statement: Statement) -> Iterator[Disclosure]:
        said = f"{label_of(statement)}: {statement.text}"
        if none is not None and none.search(said):
            yield Disclosure(value="none", statement=statement)
            return
        for match in pattern.finditer(said):
            hashed = ANY_HASH.search(said, match.end()) or SHORT_HASH.search(said, match.end())
            if hashed and hashed.start() - match.end() < 80:
                yield Disclosure(value=hashed[1], statement=statement)
                return
        if pattern.search(said) and statement.kind != "command":
            yield Disclosure(value="named", statement=statement, partial=f"speaks of the {what} without its hash")

    return find


def weights_of(text: str) -> str | None:
    """The quantised weight format that a text names first; None where it names none."""
    match = WEIGHTS.search(text)
    return match[1].upper() if match else None
