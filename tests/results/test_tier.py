import pytest

from suite.results.attestation import Attested
from suite.results.tier import tier_of
from tests.results.repository import attestation, reproduced


@pytest.fixture
def bundle(repository):
    return repository.bundle()


def attested(bundle, *key_ids, **changes):
    made = attestation(bundle, **changes)
    return Attested(attestation=made, key_ids=key_ids, folder=bundle.folder, bundle=None)


def tier(bundle, *found, signers=("me",), trusted=("you", "me")):
    return tier_of(bundle.record.record_sha256, signers, found, trusted)


WITHIN = reproduced(identical_rows=5, flips=1, floor_flips=1, verdict="within floor")
DIFFERS = reproduced(identical_rows=5, flips=3, verdict="differs")


def test_nobody_else_means_self_reported(bundle):
    assert tier(bundle) == "self-reported"


def test_a_trusted_key_lifts(bundle):
    assert tier(bundle, attested(bundle, "you")) == "consistent"
    assert tier(bundle, attested(bundle, "you", kind="reproduced", detail=reproduced())) == "reproduced"
    assert tier(bundle, attested(bundle, "you", kind="reproduced", detail=WITHIN)) == "reproduced"


def test_the_highest_counts_in_any_order(bundle):
    both = [attested(bundle, "you"), attested(bundle, "you", kind="reproduced", detail=reproduced())]
    assert tier(bundle, *both) == tier(bundle, *reversed(both)) == "reproduced"


def test_ones_own_key_lifts_nothing_even_if_trusted(bundle):
    own = attested(bundle, "me", kind="reproduced", detail=reproduced())
    assert tier(bundle, own) == "self-reported"
    together = attested(bundle, "me", "you", kind="reproduced", detail=reproduced())
    assert tier(bundle, together) == "self-reported"


def test_an_unknown_key_lifts_nothing(bundle):
    assert tier(bundle, attested(bundle, "stranger")) == "self-reported"


def test_an_unsigned_bundle_is_reproduced_by_nobody_else(bundle):
    again = attested(bundle, "you", kind="reproduced", detail=reproduced())
    assert tier(bundle, again, signers=()) == "self-reported"
    assert tier(bundle, again, attested(bundle, "you"), signers=()) == "consistent"


def test_rows_that_differ_lift_nothing(bundle):
    assert tier(bundle, attested(bundle, "you", kind="reproduced", detail=DIFFERS)) == "self-reported"


def test_an_attestation_of_another_bundle_does_not_count(bundle):
    other = attested(bundle, "you", record_sha256="f" * 64)
    assert tier(bundle, other) == "self-reported"
