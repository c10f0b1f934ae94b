"""Every bundle that the repository publishes verifies, and can be compared with those of its reference."""

from pathlib import Path

import pytest

from suite.bundle.find import find_bundles
from suite.bundle.verify import verify_bundle
from suite.results.check import check_results

RESULTS = Path(__file__).parent.parent / "results"
BUNDLES = find_bundles(RESULTS)


def test_bundles_are_published():
    assert len(BUNDLES) >= 25


@pytest.mark.parametrize("folder", BUNDLES, ids=lambda folder: folder.parent.name)
def test_published_bundle_verifies(folder, tmp_path):
    report = verify_bundle(folder, captures=tmp_path)
    assert report.failure is None, report
    done = {check.name for check in report.checks if check.outcome == "passed"}
    assert {"record", "files", "locks", "receipts", "factors", "ledger", "headlines", "repeat floor"} <= done


def test_the_index_is_current_and_nothing_else_lies_there():
    report = check_results(RESULTS)
    assert report.problems == ()
    assert report.num_results >= 25
