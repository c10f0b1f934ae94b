"""A forger who edits rows, rebuilds every hash, signs again and grinds 2^16 roots, against a draw he cannot foresee."""

import hashlib
import json
import math
import random
import shutil
from pathlib import Path

import pytest

from suite.bundle.evidence import find_capture
from suite.bundle.read import open_bundle
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.errors import VerificationFailed
from suite.evidence.answer import write_answer
from suite.evidence.challenge import draw_leaves, make_challenge
from suite.evidence.chance import escape_chance
from suite.evidence.check import check_answer
from suite.evidence.commitment import commit
from suite.files import canonical_json, sha256_bytes
from suite.score.ledger import read_ledger
from suite.signing.folder import sign_folder
from suite.signing.keys import new_key
from tests.bundle.test_verify import forge_ledger, reseal
from tests.bundle.world import World

GRIND = 1 << 16
TRIALS = 1000
ROWS = 7114
FORGED = {2: 40.0, 7: 9.0}
"""What the forger writes into the column kl_ref_cand of the small bundle."""


def log_of(number: int) -> bytes:
    """What nobody reads, and the forger varies: the engine's log."""
    return b"nothing happened %d\n" % number


class Forger:
    """Knows the root of every choice of the log without writing a file: each is one hash in a record."""

    def __init__(self, bundle: Path, commitment, *, leaves: int | None = None) -> None:
        fields = json.loads((bundle / "bundle.json").read_text())
        del fields["record_sha256"]
        self.record = self._cut(fields, fields["files"]["engine.log"])
        committed = commitment.model_dump(mode="json", exclude={"root"})
        if leaves is not None:
            committed["leaves"] = leaves
        self.commitment = self._cut(committed, commitment.record_sha256)

    @staticmethod
    def _cut(fields, inner: str):
        before, after = canonical_json(fields).split(inner.encode())
        return hashlib.sha256(before), after

    @staticmethod
    def _hash(parts, inner: str) -> str:
        digest = parts[0].copy()
        digest.update(inner.encode() + parts[1])
        return digest.hexdigest()

    def root(self, number: int) -> str:
        record = self._hash(self.record, sha256_bytes(log_of(number)))
        return self._hash(self.commitment, record)


def sign(bundle: Path, key) -> None:
    (bundle / "statement.dsse.json").unlink(missing_ok=True)
    sign_folder(bundle, key, kind="result")


def committed(bundle: Path, captures: Path):
    opened = open_bundle(bundle)
    named = opened.record.evidence
    sides = [find_capture(captures, side) for side in (named.reference, named.candidate)]
    return *commit(opened, read_ledger(bundle / "ledger.parquet"), *sides), sides


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """A bundle of 11 rows, two of them false, that verifies and is signed."""
    root = tmp_path_factory.mktemp("forged")
    world = World(root=root)
    honest = write_bundle(world.parts(repeats=1), results=world.results)
    bundle = Path(shutil.copytree(honest, root / "forger" / honest.parent.name / honest.name))
    forge_ledger(bundle, kl_ref_cand=FORGED)
    key = new_key(root / "key.pem")
    sign(bundle, key)
    return bundle, world.captures, key


@pytest.fixture(scope="module")
def roots(forged):
    """2^16 roots over a ledger of 7,114 rows, one for each log."""
    bundle, captures, _ = forged
    forger = Forger(bundle, committed(bundle, captures)[0], leaves=ROWS)
    return [forger.root(number) for number in range(GRIND)]


def first_hit(root: str, nonce: str, falsified: frozenset[int], *, within: int) -> int | None:
    """Which draw is the first to hit a falsified row; None for none of the first `within`."""
    draws = enumerate(draw_leaves(root, nonce, leaves=ROWS, draw=within))
    return next((number for number, leaf in draws if leaf in falsified), None)


def self_drawn(root: str) -> str:
    """The nonce of a sample that a submitter draws from what he publishes."""
    return sha256_bytes(bytes.fromhex(root))


def p_value(count: int, trials: int, chance: float) -> float:
    """Exact two-sided binomial test: how likely an outcome at least as unlikely as this one is."""
    weights = [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]
    return sum(weight for weight in weights if weight <= weights[count] * (1 + 1e-9))


def test_without_evidence_the_forgery_passes_and_with_packs_it_never_does(forged):
    bundle, captures, key = forged
    report = verify_bundle(bundle)
    assert report.failure is None
    assert any(key.key_id in check.detail for check in report.checks if check.name == "signature")
    failure = verify_bundle(bundle, captures=captures).failure
    assert failure is not None
    assert "position 2: kl_ref_cand is 40.0, the evidence gives" in failure.detail


def test_a_ground_root_is_real_and_is_caught_exactly_where_a_false_row_is_drawn(forged, tmp_path):
    """The forger grinds until his own sample of three rows is clean, and publishes that bundle, signed."""
    source, captures, key = forged
    bundle = Path(shutil.copytree(source, tmp_path / source.parent.name / source.name))
    forger = Forger(bundle, committed(bundle, captures)[0])
    clean = next(
        number
        for number in range(GRIND)
        if FORGED.keys().isdisjoint(draw_leaves(root := forger.root(number), self_drawn(root), leaves=11, draw=3))
    )
    (bundle / "engine.log").write_bytes(log_of(clean))
    reseal(bundle)
    sign(bundle, key)
    commitment, tree, sides = committed(bundle, captures)
    assert commitment.root == forger.root(clean)
    caught = 0
    for trial in range(30):
        challenge = make_challenge(commitment, draw=3, nonce=hashlib.sha256(b"checker %d" % trial).digest())
        write_answer(tmp_path / "answer", challenge, commitment, tree, *sides)
        hit = sorted(FORGED.keys() & set(challenge.indices))
        if hit:
            with pytest.raises(VerificationFailed, match=f"position {hit[0]}: kl_ref_cand is {FORGED[hit[0]]}"):
                check_answer(open_bundle(bundle), commitment, challenge, tmp_path / "answer")
        else:
            check_answer(open_bundle(bundle), commitment, challenge, tmp_path / "answer")
        caught += bool(hit)
    chance = escape_chance(rows=11, falsified=2, drawn=3)
    assert p_value(30 - caught, 30, chance) > 0.001


@pytest.mark.parametrize(("falsified", "drawn"), [(28, 64), (356, 64), (71, 256)])
def test_grinding_beats_a_sample_of_ones_own_and_not_the_checkers(roots, falsified, drawn):
    """1,000 trials: other false rows each time, up to 2^16 roots tried, then one draw by the checker."""
    chooser = random.Random(falsified)
    escaped = ground = 0
    for trial in range(TRIALS):
        rows = frozenset(chooser.sample(range(ROWS), falsified))
        start = chooser.randrange(GRIND)
        candidates = (roots[(start + tried) % GRIND] for tried in range(GRIND))
        found = next((r for r in candidates if first_hit(r, self_drawn(r), rows, within=drawn) is None), None)
        if found is None:
            continue
        ground += 1
        nonce = sha256_bytes(b"checker %d" % trial)
        escaped += first_hit(found, nonce, rows, within=drawn) is None
    assert ground == TRIALS, "every sample of his own was ground away"
    chance = escape_chance(rows=ROWS, falsified=falsified, drawn=drawn)
    assert p_value(escaped, TRIALS, chance) > 0.001, (escaped, chance)


def test_the_best_of_all_roots_is_worth_no_more_than_any(roots):
    """711 false rows: the forger tries all 2^16 roots, and keeps the one whose own draw stays clean the longest."""
    rows = frozenset(random.Random(711).sample(range(ROWS), 711))
    hits = {root: first_hit(root, self_drawn(root), rows, within=ROWS) for root in roots}
    best = max(hits, key=hits.__getitem__)
    assert hits[best] >= 64, "a sample of 64 rows that he draws himself shows nothing"
    nonces = [sha256_bytes(b"checker %d" % trial) for trial in range(TRIALS)]
    found = [first_hit(best, nonce, rows, within=64) for nonce in nonces]
    for drawn in (4, 16, 64):
        escaped = sum(1 for hit in found if hit is None or hit >= drawn)
        assert p_value(escaped, TRIALS, escape_chance(rows=ROWS, falsified=711, drawn=drawn)) > 0.001, (drawn, escaped)


def test_the_test_of_frequencies_can_fail():
    assert p_value(776, 1000, 0.776) > 0.9
    assert p_value(700, 1000, 0.776) < 1e-6
    assert p_value(12, 1000, 0.001) < 1e-6
