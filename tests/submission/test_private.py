import hmac
import json
import math
import stat

import pytest

from suite.errors import InvalidInput
from suite.files import pretty_json
from suite.submission.private import (
    aggregate,
    keyed_bundle_id,
    keyed_record,
    new_owner_key,
    parse_aggregates,
    read_owner_key,
    write_owner_key,
)
from tests.results.repository import OWNER_KEY


@pytest.fixture
def bundle(repository):
    return repository.bundle()


@pytest.fixture
def value(bundle):
    return json.loads(aggregate(bundle, OWNER_KEY).to_bytes())


def test_aggregates_are_those_of_the_record(bundle):
    found = aggregate(bundle, OWNER_KEY)
    h = bundle.record.headlines
    assert (found.totals.n, found.totals.flips, found.totals.flips_confident) == (11, 2, 1)
    assert found.totals.kl_ref_cand_sum == pytest.approx(h.kl_ref_cand.mean * h.n, rel=1e-3)
    assert [turn.turn for turn in found.by_turn] == [group.key for group in h.by_turn]
    assert sum(turn.flips for turn in found.by_turn) == 2
    assert math.isclose(sum(turn.kl_ref_cand_sum for turn in found.by_turn), found.totals.kl_ref_cand_sum, rel_tol=1e-2)
    assert found.repeat_floor == bundle.record.repeat_floor
    assert [factor.key for factor in found.factors] == ["kv_cache_dtype"]
    assert parse_aggregates(found.to_bytes(), where="x") == found


def test_sums_have_four_digits(bundle):
    found = aggregate(bundle, OWNER_KEY)
    for number in (found.rounding_kl_sum, *(one.kl_ref_cand_sum for one in (found.totals, *found.by_turn))):
        assert float(f"{number:.4g}") == number


def test_one_key_tells_the_same_session_and_another_key_nothing(repository, bundle):
    again = repository.bundle("fp8-kv", later_seconds=5)
    ours, theirs = aggregate(bundle, OWNER_KEY), aggregate(again, OWNER_KEY)
    assert ours.sequence_hmac_sha256 == theirs.sequence_hmac_sha256
    other = aggregate(bundle, bytes(32))
    assert ours.sequence_hmac_sha256 != other.sequence_hmac_sha256
    assert ours.bundle_id.partition("-")[0] == other.bundle_id.partition("-")[0]
    assert len({ours.bundle_id, other.bundle_id, bundle.bundle_id}) == 3
    assert keyed_bundle_id(bundle.record, OWNER_KEY) == ours.bundle_id
    assert keyed_record(bundle.record, OWNER_KEY) == ours.record_sha256
    assert len({ours.record_sha256, theirs.record_sha256, other.record_sha256, bundle.record.record_sha256}) == 4
    # One key for several things: what is keyed in one place is never that of another.
    assert (
        keyed_record(bundle.record, OWNER_KEY)
        != hmac.new(OWNER_KEY, bundle.record.record_sha256.encode(), "sha256").hexdigest()
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["totals"].update(flips=3), "classes"),
        (lambda v: v["totals"].update(off_policy=12), "do not add up"),
        (lambda v: v["by_turn"].reverse(), "order"),
        (lambda v: v["by_turn"].append(v["by_turn"][-1]), "twice"),
        (lambda v: v["by_turn"].pop(), "does not add up"),
        (lambda v: v["by_turn"][0].update(n=v["by_turn"][0]["n"] + 1), "does not add up"),
        (lambda v: v["totals"].update(kl_ref_cand_sum=0.0001), "kl_ref_cand_sum"),
        (lambda v: v["off_policy"].update(n=12), "off_policy"),
        (lambda v: v["repeat_floor"]["starts"][1].update(n=12), "repeat_floor"),
        (lambda v: v.update(identical_rows=10), "identical_rows"),
        (lambda v: v.update(factors=v["factors"] * 2), "causal"),
        (lambda v: v.update(token_ids=[1, 2]), "token_ids"),
        (lambda v: v["by_turn"][0].update(text="hello"), "text"),
        (lambda v: v["candidate"].update(model="a\x1bb"), "candidate.model"),
        (lambda v: v["totals"].update(kl_ref_cand_sum=1e12), "kl_ref_cand_sum"),
    ],
)
def test_what_does_not_add_up_is_refused(value, change, message):
    change(value)
    with pytest.raises(InvalidInput, match=message):
        parse_aggregates(pretty_json(value), where="x")


def test_the_owners_key_is_made_once_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "state" / "owner.key"
    assert read_owner_key(path) is None
    made = new_owner_key()
    assert len(made) == 32
    assert made != new_owner_key()
    write_owner_key(path, made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_owner_key(path) == made


@pytest.mark.parametrize("text", ["", "xyz", "ab" * 31, "ab" * 33, "é"])
def test_what_is_no_owners_key(tmp_path, text):
    path = tmp_path / "owner.key"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        read_owner_key(path)
