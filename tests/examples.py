"""How many examples a property is tried with."""

from hypothesis import settings


def examples(num: int) -> int:
    """So many in the usual run and ten times as many in the long one, for tests that state a number of their own."""
    return num * (10 if settings.get_current_profile_name() == "soak" else 1)
