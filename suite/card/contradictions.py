"""Where a card contradicts itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from suite.card.arithmetic import (
    count_and_share,
    flips_and_agreement,
    impossible,
    order_of_statistics,
    units,
    whole_counts,
)
from suite.card.claims import Claim
from suite.card.comparability import factors, mixed_bases
from suite.card.contradiction import Contradiction
from suite.card.disclosure import Disclosure
from suite.card.document import Document
from suite.card.said_twice import said_twice


def find_contradictions(
    document: Document, claims: Sequence[Claim], disclosed: Mapping[str, Sequence[Disclosure]], singles: Iterable[str]
) -> tuple[Contradiction, ...]:
    """All contradictions of a card.

    Args:
        document: The card.
        claims: Its divergence claims.
        disclosed: Field name to what counts as its disclosures.
        singles: Fields that have one value per side.
    """
    found = [
        *impossible(claims),
        *whole_counts(claims),
        *count_and_share(document),
        *order_of_statistics(claims),
        *flips_and_agreement(claims),
        *units(claims),
        *said_twice(document, claims, disclosed, singles),
        *mixed_bases(document, claims),
        *factors(document, claims, disclosed),
    ]
    unique: dict[tuple[str, str], Contradiction] = {}
    for item in found:
        unique.setdefault((item.code, item.message), item)
    return tuple(sorted(unique.values(), key=lambda item: (item.line, item.code)))
