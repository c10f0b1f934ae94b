import pytest

from suite.errors import InvalidInput
from suite.results.choose import choose_result
from suite.results.load import load_results


def test_every_way_to_name_a_result(repository):
    own, given = repository.bundle(), repository.submission("given")
    loaded = load_results(repository.results)
    mine = loaded.by_id[own.bundle_id]
    theirs = next(result for result in loaded.results if result.origin == "submitted")
    for named in (str(own.folder), own.bundle_id, own.record.record_sha256, own.record.record_sha256[:12]):
        assert choose_result(loaded, named) is mine
    for named in (str(given), str(theirs.bundle), given.name):
        assert choose_result(loaded, named) is theirs


@pytest.mark.parametrize("named", ["", "nothing", "/", "fp8-kv", "0123456789ab", "a\x1b[2J"])
def test_what_names_none(repository, named):
    repository.bundle()
    with pytest.raises(InvalidInput, match="no such result"):
        choose_result(load_results(repository.results), named)
