"""Where a statement discloses a field: one finder for each, which yields what it found and what is lacking in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from suite.card.claims import is_n_label, stated_n
from suite.card.document import Statement
from suite.card.numbers import find_numbers
from suite.card.patterns import (
    AGAINST,
    AGGREGATION,
    ANY_HASH,
    BACKEND,
    BACKEND_LABEL,
    BACKWARD,
    CALIBRATION,
    COMMIT,
    CONTEXT,
    CONTEXT_LABEL,
    CUT_DIGEST,
    DIGEST,
    DIRECTION_WORDS,
    DTYPE,
    DTYPES,
    EVERY,
    FLOOR,
    FORWARD,
    IMAGE,
    KV_AFTER,
    KV_BEFORE,
    KV_FLAG,
    KV_LABEL,
    KV_VALUE,
    KV_WORD,
    LETTERS,
    NO_IMAGE,
    NOT_TEXT,
    ONE_GPU,
    PRECISION,
    REPOSITORY,
    SHA256,
    SHORT,
    SHORT_HASH,
    SPANS,
    SPANS_LABEL,
    STORED,
    STRIDE,
    TAG,
    TEXT,
    TEXT_NAME,
    TP,
    TP_LABEL,
    VOCABULARY,
    VOCABULARY_LABEL,
    WEIGHTS,
)
from suite.card.words import Side, side_before


@dataclass(frozen=True, kw_only=True, slots=True)
class Disclosure:
    """One place at which a card says something about a field."""

    value: str
    """In one spelling, so that two places can be compared."""
    statement: Statement
    side: Side | None = None
    partial: str = ""
    """What is lacking for it to count, for instance `a tag can move`; empty where it counts."""


Finder = Callable[[Statement], Iterator[Disclosure]]

EFFECTIVE = "say what the engine really used"


def _label(statement: Statement) -> str:
    return statement.label.replace("_", " ")


def _key(statement: Statement) -> str:
    """What names the value: the header, in a table of two columns the first cell, the last key of a path."""
    label = _label(statement)
    return label.split(" | ")[0] if statement.kind == "cell" else label


def side_of(statement: Statement, position: int = 0) -> Side | None:
    """The side that the text up to `position`, the label or the innermost heading names."""
    return (
        side_before(statement.text, position)
        or side_before(_label(statement), len(statement.label))
        or (side_before(statement.section[-1], 10_000) if statement.section and statement.kind != "prose" else None)
    )


def revision_of(side: Side) -> Finder:
    """A finder of one side's checkpoint: a commit, or a hash of weights."""

    def find(statement: Statement) -> Iterator[Disclosure]:
        text = statement.text
        about = f"{_label(statement)} {text}"
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
    if found is None and re.search(r"base[ _]model", _label(statement), re.IGNORECASE):
        return "reference"
    return found


def dtype_name(text: str) -> str:
    """One spelling of a dtype: `bf16`, `fp16`, `fp32`, else lower case."""
    lower = text.lower()
    return DTYPES.get(lower, lower)


def reference_dtype(statement: Statement) -> Iterator[Disclosure]:
    """The dtype named as the reference's."""
    text, label = statement.text, _label(statement)
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


def direction(statement: Statement) -> Iterator[Disclosure]:
    """Which side stands first in a KL divergence."""
    said = statement.said
    forward, backward = FORWARD.search(said), BACKWARD.search(said)
    if LETTERS.search(said) and not re.search(r"\b[PQ]\b\s*(?:=|is|:|being|denotes|the)", said):
        letters = (forward and "Q" in forward[0].upper() and "P" in forward[0].upper()) or backward
        if letters and not re.search(r"ref|base|cand|quant", said, re.IGNORECASE):
            yield Disclosure(
                value="P||Q", statement=statement, partial="writes P and Q without saying which is the reference"
            )
            return
    if re.search(r"\b[PQ]\b\s*(?:=|is|:|being|denotes|the)", said):
        p_is = re.search(r"\bP\b\s*(?:=|is|:|being|denotes)?\s*(?:the\s)?(.{0,30})", said)
        if p_is and re.match(r"(?i)\s*(?:cand|quant|student)", p_is[1]):
            forward, backward = backward, forward
    if forward or DIRECTION_WORDS.search(said):
        yield Disclosure(value="KL(ref||cand)", statement=statement)
    if backward:
        yield Disclosure(value="KL(cand||ref)", statement=statement)


def text_hash(statement: Statement) -> Iterator[Disclosure]:
    """A hash beside words that name a text."""
    said = f"{_label(statement)}: {statement.text}"
    if not TEXT.search(said):
        return
    for match in ANY_HASH.finditer(statement.text):
        before = said[: said.index(statement.text) + match.start()]
        words = [m.end() for m in TEXT.finditer(before)]
        others = [m.end() for m in re.finditer(rf"{NOT_TEXT.pattern}|{IMAGE.pattern}", before, re.IGNORECASE)]
        if words and (not others or max(words) > max(others)):
            yield Disclosure(value=match[1], statement=statement)
            return
    named = TEXT_NAME.search(statement.text)
    if named and not CALIBRATION.search(said):
        yield Disclosure(
            value=named[0].lower(), statement=statement, partial=f"names {named[0]} without a hash of the text"
        )


def positions(statement: Statement) -> Iterator[Disclosure]:
    """The number of positions."""
    if statement.kind == "command" or CALIBRATION.search(statement.said) or FLOOR.search(statement.said):
        return
    readings = ((text, comma) for comma in (False, True) for text in (statement.text, _label(statement)))
    number = next(filter(None, (stated_n(text, comma=comma) for text, comma in readings)), None)
    last = _key(statement)
    if number is None and (
        is_n_label(last) or re.search(r"\b(?:n|(?:num )?(?:positions|probes)|positions n|n positions)$", last)
    ):
        number = next((n for n in find_numbers(statement.text) if n.is_whole), None)
    if number is not None:
        yield Disclosure(value=f"{int(number.value)}", statement=statement)


def stride(statement: Statement) -> Iterator[Disclosure]:
    """Every how many tokens a position lies."""
    text = statement.text
    if re.search(r"\bstride\b", _label(statement), re.IGNORECASE) and (number := re.search(r"\d+", text)):
        yield Disclosure(value=number[0], statement=statement)
        return
    for pattern in STRIDE:
        if match := pattern.search(text):
            yield Disclosure(value=match[1], statement=statement)
            return
    if EVERY.search(text):
        yield Disclosure(value="1", statement=statement)


def spans(statement: Statement) -> Iterator[Disclosure]:
    """What the positions lie on."""
    if statement.kind == "command":
        return
    if SPANS_LABEL.search(_label(statement)) or SPANS.search(statement.text) or EVERY.search(statement.text):
        yield Disclosure(value=statement.text[:80].lower(), statement=statement)


def _whole_number(
    statement: Statement, label: re.Pattern[str], patterns: tuple[re.Pattern[str], ...]
) -> Iterator[Disclosure]:
    text = statement.text
    # "100.000" is a hundred thousand in half of Europe.
    numbers = [n for comma in (False, True) for n in find_numbers(text, decimal_comma=comma) if n.is_whole]
    found = next(
        (n for p in patterns for m in p.finditer(text) for n in numbers if m.start() <= n.start <= m.end()), None
    )
    if found is None and numbers and label.search(_label(statement)) and text.strip().startswith(numbers[0].text[0]):
        found = numbers[0]
    if found is not None:
        yield Disclosure(value=f"{int(found.value)}", statement=statement)


def context(statement: Statement) -> Iterator[Disclosure]:
    """The context length of the measurement."""
    flags = (
        re.search(r"(?:--ctx-size|-c|--max-model-len)[= ]+(\d+)", statement.text)
        if statement.kind == "command"
        else None
    )
    if flags:
        limit = "--max-model-len" in flags[0]
        partial = f"gives only a limit, {flags[1]}, in a command" if limit else ""
        yield Disclosure(value=flags[1], statement=statement, partial=partial)
    elif statement.kind != "command":
        yield from _whole_number(statement, CONTEXT_LABEL, CONTEXT)


def vocabulary(statement: Statement) -> Iterator[Disclosure]:
    """The number of entries compared."""
    for found in _whole_number(statement, VOCABULARY_LABEL, VOCABULARY):
        if int(found.value) >= 1000:
            yield found


def backend(statement: Statement) -> Iterator[Disclosure]:
    """The attention backend; one in a command is only asked for."""
    said = f"{_label(statement)}: {statement.text}"
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
    if not BACKEND.search(statement.text) and BACKEND_LABEL.search(_label(statement)) and statement.kind != "command":
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
    if not matches and KV_LABEL.search(_label(statement)):
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
    elif TP_LABEL.search(_key(statement)) and (number := re.match(r"\W*(\d{1,3})\b", text)):
        yield Disclosure(value=number[1], statement=statement, side=side_of(statement))
    elif ONE_GPU.search(text):
        yield Disclosure(value="1", statement=statement, side=side_of(statement))


def image(statement: Statement) -> Iterator[Disclosure]:
    """A container image by its digest, or the word that there was none."""
    said = f"{_label(statement)}: {statement.text}"
    text = statement.text
    if NO_IMAGE.search(said):
        yield Disclosure(value="none", statement=statement)
    elif not IMAGE.search(said) and not re.search(r"@sha256:", text):
        return
    elif match := DIGEST.search(text) or (SHA256.search(text) if IMAGE.search(_label(statement)) else None):
        yield Disclosure(
            value=match[0].removeprefix("sha256:"), statement=statement, side=side_of(statement, match.start())
        )
    elif CUT_DIGEST.search(text):
        yield Disclosure(value="cut", statement=statement, partial="shortens the digest; write all 64 digits")
    elif match := TAG.search(text):
        yield Disclosure(
            value=match[0], statement=statement, partial=f"names the tag {match[0].rstrip('.')}, which can move"
        )


def said_by(pattern: re.Pattern[str]) -> Finder:
    """A finder for fields of which it is enough that they are spoken of."""

    def find(statement: Statement) -> Iterator[Disclosure]:
        if match := pattern.search(f"{_label(statement)}: {statement.text}"):
            yield Disclosure(value=match[0].lower(), statement=statement)

    return find


def hash_of(pattern: re.Pattern[str], *, what: str, none: re.Pattern[str] | None = None) -> Finder:
    """A finder of the hash of a thing, or of the word that there is no such thing."""

    def find(statement: Statement) -> Iterator[Disclosure]:
        said = f"{_label(statement)}: {statement.text}"
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


def storage(statement: Statement) -> Iterator[Disclosure]:
    """The dtype in which rows were kept."""
    said = f"{_label(statement)}: {statement.text}"
    match = PRECISION.search(statement.text)
    if match and statement.kind != "command" and re.search(
        rf"(?:{STORED.pattern})[^.]{{0,60}}{PRECISION.pattern}|{PRECISION.pattern}[- ](?:rows?|logits?|hidden)"
        rf"|storage|stored", said, re.IGNORECASE
    ):  # fmt: skip
        yield Disclosure(value=match[0].lower(), statement=statement)


def aggregation(statement: Statement) -> Iterator[Disclosure]:
    """How many numbers became one."""
    if match := AGGREGATION.search(statement.said):
        yield Disclosure(value=match[0].lower(), statement=statement)


def weights_of(text: str) -> str | None:
    """The quantised weight format that a text names first; None where it names none."""
    match = WEIGHTS.search(text)
    return match[1].upper() if match else None
