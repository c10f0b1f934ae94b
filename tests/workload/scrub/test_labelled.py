from __future__ import annotations

import json
from collections import Counter

import pytest

from suite.workload.scrub.private_map import PrivateMap
from suite.workload.scrub.text import TextScrubber
from suite.workload.scrub.views import blocks, views
from tests.workload.scrub.labelled import CLEAN, KINDS, Plant, plants

PLANTS = tuple(plants())


def readings(text: str, depth: int = 0) -> list[str]:
    """Every reading of a text that a curious person would try."""
    found = [view.text for view in views(text)]
    if depth < 3:
        for reading in list(found):
            for block in blocks(reading):
                found += readings(block.text, depth + 1)
    return found


def survivors(planted: tuple[Plant, ...], scrubbed: list[str]) -> list[Plant]:
    return [p for p, text in zip(planted, scrubbed, strict=True) if any(p.value in r for r in readings(text))]


def test_the_set_is_what_it_says() -> None:
    assert len(PLANTS) >= 300
    assert len(KINDS) >= 25
    assert len({p.value for p in PLANTS}) == len(PLANTS)
    for plant in PLANTS:
        assert any(
            plant.value in reading or json.dumps(plant.value)[1:-1] in reading for reading in readings(plant.text)
        )


def test_recall() -> None:
    scrubbed = TextScrubber(PrivateMap(key=bytes(32))).run([p.text for p in PLANTS])
    missed = survivors(PLANTS, scrubbed)
    recall = 1 - len(missed) / len(PLANTS)
    assert recall >= 0.99, f"{len(missed)} of {len(PLANTS)}: " + "\n".join(
        f"{p.kind} {p.form}: {p.text}" for p in missed
    )


def test_recall_of_each_text_alone() -> None:
    """Nothing is found only because another text gave it away."""
    missed = []
    for plant in PLANTS:
        scrubbed = TextScrubber(PrivateMap(key=bytes(32))).run([plant.text])
        missed += survivors((plant,), scrubbed)
    kinds = Counter(p.kind for p in missed)
    assert len(missed) <= 0.01 * len(PLANTS), f"{kinds}\n" + "\n".join(f"{p.kind} {p.form}: {p.text}" for p in missed)


@pytest.mark.parametrize("text", CLEAN)
def test_what_is_not_private_stays(text: str) -> None:
    assert TextScrubber(PrivateMap(key=bytes(32))).run([text]) == [text]
