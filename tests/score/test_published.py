"""Published percentages of flips come from integer counts, and are shown again as such."""

import pytest

from suite.bundle.show import of

# Percentage as published, positions, flips. By their order: fine-tunes on 1,535 and 4,339 output tokens, 4-bit exports
# on 7,114, a repeat on 3,512; https://forum.level1techs.com/t/why-your-local-llm-feels-dumber-than-it-is/253917.
PUBLISHED = [
    ("0.717", 1_535, 11),
    ("0.912", 1_535, 14),
    ("3.844", 1_535, 59),
    ("2.997", 1_535, 46),
    ("1.337", 4_339, 58),
    ("1.406", 4_339, 61),
    ("4.978", 4_339, 216),
    ("5.831", 4_339, 253),
    ("2.193", 7_114, 156),
    ("2.586", 7_114, 184),
    ("6.340", 7_114, 451),
    ("0.37", 3_512, 13),
]


@pytest.mark.parametrize(("percent", "positions", "flips"), PUBLISHED)
def test_a_published_percentage_has_exactly_one_integer_count(percent, positions, flips):
    digits = len(percent.partition(".")[2])
    assert [k for k in range(positions + 1) if f"{100 * k / positions:.{digits}f}" == percent] == [flips]
    assert of(flips, positions) == f"{flips:,} of {positions:,} ({float(percent):.1f} %)"


# One decimal or none, windows of 250 probes: one flip is 0.4 percentage points, so two or three counts fit.
@pytest.mark.parametrize(("percent", "flips"), [(16, 40), (22, 55), (30, 75), (46, 115), (47, 118), (50, 125)])
def test_a_whole_percentage_of_a_window_leaves_two_or_three_counts(percent, flips):
    found = [k for k in range(251) if f"{100 * k / 250:.0f}" == str(percent)]
    assert flips in found
    assert len(found) in (2, 3)
