from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.intake.limits import LIMITS
from suite.intake.names import Names, check_path
from suite.intake.refusal import Refused


@given(st.text())
def test_what_passes_is_plain(path):
    parts = ()
    with suppress(Refused):
        parts = check_path(path, LIMITS)
    assert len(parts) <= LIMITS.depth
    for part in parts:
        assert part.isascii()
        assert part not in ("", ".", "..")
        assert not set(part) & set('/\\:*?"<>|\0\n ')


@pytest.mark.parametrize(
    "path", ["bundle.json", "a/b.c-d_e/ledger.parquet", "a/", "w8a8/20261129T204501Z-a10ddd25f963/"]
)
def test_plain(path):
    assert "/".join(check_path(path, LIMITS)) == path.rstrip("/")


def test_a_folder_may_stand_twice():
    names = Names()
    names.add(("a", "b.json"), folder=False)
    names.add(("a",), folder=True)
    names.add(("a", "c.json"), folder=False)
    with pytest.raises(Refused, match="stands twice"):
        names.add(("a", "c.json"), folder=False)
    with pytest.raises(Refused, match="case alone"):
        names.add(("a", "C.json"), folder=False)
