"""The text of a session's tokens, where it is at hand: ledgers hold ids alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.capture.index import Sha256
from suite.errors import InvalidInput, SuiteError
from suite.files import canonical_json, sha256_bytes
from suite.grade.record import Text
from suite.records import parse_strictly
from suite.score.ledger import read_ledger
from suite.site.resources import site_folder

if TYPE_CHECKING:
    from suite.workload.rendered import Rendered
    from suite.workload.session import Session
    from suite.workload.tokenizer import Tokenizer

SCHEMA_VERSION = 1

TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class TokenTexts(BaseModel):
    """`site/texts/<tokens_sha256>.json`: what each token of one rendered session spells."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1]
    tokens_sha256: Sha256
    """SHA-256 of the ids as little-endian 32-bit integers, as locks and ledgers name the session."""
    tokenizer_sha256: Sha256
    licence: Annotated[str, Field(max_length=100)]
    """Of the session: a private one has no such file."""
    token_ids: Annotated[tuple[TokenId, ...], Field(min_length=1, max_length=1 << 24)]
    token_texts: tuple[Text, ...]
    """One for each token; joined they are the rendered text. A character of several tokens stands at its last one."""
    others: dict[Annotated[str, Field(pattern=r"^[0-9]{1,10}$")], Text]
    """Id -> text of tokens that are no token of the session but the best of some stack."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len(self.token_ids) != len(self.token_texts):
            raise ValueError("one text for each token")
        if tokens_hash(self.token_ids) != self.tokens_sha256:
            raise ValueError("the ids are not those of the session")
        return self

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return canonical_json(self.model_dump(mode="json"))

    def vocabulary(self) -> dict[int, str]:
        """Id -> text of every token whose text is known."""
        own = zip(self.token_ids, self.token_texts, strict=True)
        return {int(key): text for key, text in self.others.items()} | {key: text for key, text in own if text}


def tokens_hash(token_ids: Sequence[int]) -> str:
    """SHA-256 of ids as little-endian 32-bit integers."""
    import numpy as np

    return sha256_bytes(np.asarray(token_ids, dtype="<i4").tobytes())


def texts_of(pieces: Iterable[bytes]) -> tuple[str, ...]:
    """Texts of tokens from their bytes: a character that several tokens spell stands at its last one."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return tuple(decoder.decode(piece) for piece in pieces)


def texts_path(tokens_sha256: str) -> Path:
    """Where the site looks for the texts of a session."""
    return site_folder() / "texts" / f"{tokens_sha256}.json"


@lru_cache(maxsize=4)
def find_texts(tokens_sha256: str) -> TokenTexts | None:
    """The texts of a session; None where they are not at hand or cannot be used."""
    path = texts_path(tokens_sha256)
    try:
        return parse_texts(path.read_bytes(), where=path.name)
    except (OSError, SuiteError):
        return None


def parse_texts(data: bytes, *, where: str) -> TokenTexts:
    """Read what `TokenTexts.to_bytes` wrote, strictly.

    Raises:
        InvalidInput: not strict JSON, or not the texts of the session that it names.
    """
    return parse_strictly(TokenTexts, data, where=where, newest=SCHEMA_VERSION)


def make_texts(session: Session, rendered: Rendered, tokenizer: Tokenizer, *, others: Iterable[int]) -> TokenTexts:
    """The texts of one session.

    Args:
        session: Says under which licence its text may be shown.
        rendered: The session under this tokenizer.
        tokenizer: It spells the tokens.
        others: Ids of tokens that may stand beside the session's own.

    Raises:
        InvalidInput: the session is private: its text is not for a site.
    """
    if session.licence == "private":
        raise InvalidInput(
            "the session is private, so its text may not stand on a site",
            where=session.name,
            hint="the viewer shows ids without it",
        )
    more = sorted(set(others) - set(rendered.token_ids))
    return TokenTexts(
        schema_version=1,
        tokens_sha256=rendered.tokens_sha256,
        tokenizer_sha256=tokenizer.sha256,
        licence=session.licence,
        token_ids=rendered.token_ids,
        token_texts=texts_of(tokenizer.pieces(rendered.token_ids)),
        others={
            str(token_id): piece.decode(errors="replace")
            for token_id, piece in zip(more, tokenizer.pieces(more), strict=True)
        },
    )


def best_tokens(results: Path, tokens_sha256: str) -> set[int]:
    """Ids of the best tokens at all flips of the bundles below a results folder that replay this session."""
    found: set[int] = set()
    for path in sorted(results.glob("*/*/ledger.parquet")):
        ledger = read_ledger(path)
        if ledger.facts.tokens_sha256 == tokens_sha256:
            flips = ledger.columns["flip"]
            found |= set(ledger.columns["ref_top1"][flips].tolist()) | set(ledger.columns["cand_top1"][flips].tolist())
    return found
