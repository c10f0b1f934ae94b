import json

import pytest
from click.testing import CliRunner

from suite.cli.reference import reference
from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import canonical_json, pretty_json
from suite.manifest.load import load_manifest
from suite.observer import SilentObserver
from suite.reference.index import IndexedPack, ReferenceIndex, add_to_index, indexed, read_index, require_as_indexed
from suite.reference.pull import peek
from suite.reference.signature import sign_pack
from suite.run.prepare import _indexed_packs
from suite.run.reference import Packs
from suite.signing import new_key
from tests.manifest.samples import lock as candidate_lock
from tests.reference.server import serve
from tests.reference.world import reference_lock

URL = "https://example.org/packs/reference.tar"


@pytest.fixture
def entry(pack):
    return indexed(peek(str(pack)), url=URL)


def test_an_entry_says_what_the_pack_is(pack, entry, tmp_path):
    head = peek(str(pack))
    assert entry.pack_digest == head.digest
    assert entry.lock_digest == reference_lock(tmp_path).digest
    assert (entry.name, entry.num_rows, entry.path, entry.signer) == ("sample", 29, "prefill", None)
    require_as_indexed(entry, head)


def test_packs_are_added_sorted_and_replaced(entry, tmp_path):
    file = tmp_path / "references" / "index.json"
    add_to_index(file, [entry])
    other = entry.model_copy(update={"pack_digest": "0" * 64})
    moved = entry.model_copy(update={"url": "s3://bucket/reference.tar"})
    index = add_to_index(file, [other, moved])
    assert index == read_index(file)
    assert [(p.pack_digest, p.url) for p in index.packs] == sorted([("0" * 64, URL), (entry.pack_digest, moved.url)])
    assert file.read_bytes() == index.to_bytes()


def record_of(entry, **changes):
    return {"schema_version": 1, "packs": [entry.model_dump(mode="json") | changes]}


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "/etc/passwd",
        "memory://x/y",
        "github://owner:name@/p.tar",
        "simplecache::https://example.org/p.tar",
        "https://user:word@example.org/p.tar",
        "https://example.org/p.tar?token=secret",
        "https://example.org/p.tar#x",
        "https://example.org/a/../p.tar",
        "https://example.org/",
        "https://example.org/a b",
        "https://example.org/\u202ep.tar",
        "HTTPS://example.org/p.tar\n",
    ],
)
def test_a_hostile_address_is_refused(entry, tmp_path, url):
    file = tmp_path / "index.json"
    file.write_bytes(canonical_json(record_of(entry, url=url)))
    with pytest.raises(InvalidInput, match="url"):
        read_index(file)


@pytest.mark.parametrize("url", [URL, "s3://b/p.tar", "hf://datasets/owner/name@" + "1" * 40 + "/p.tar"])
def test_addresses_that_may_stand_in_it(entry, url):
    assert IndexedPack.model_validate(entry.model_dump() | {"url": url}).url == url


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not JSON"),
        (b'{"schema_version":1,"schema_version":1,"packs":[]}', "stands twice"),
        (b'{"schema_version":2,"packs":[]}', "newer than this program"),
        (b'{"schema_version":1,"packs":[],"more":1}', "more"),
        (b'{"schema_version":1,"packs":[1]}', "packs.0"),
        (b'{"schema_version":1,"packs":' + b"[" * 100_000, "not JSON"),
    ],
    ids=range(6),
)
def test_what_is_no_index_is_refused(tmp_path, data, message):
    file = tmp_path / "index.json"
    file.write_bytes(data)
    with pytest.raises(InvalidInput, match=message):
        read_index(file)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../x"},
        {"signer": "rsa:" + "0" * 64},
        {"pack_digest": "A" * 64},
        {"size_bytes": 1 << 60},
        {"size_bytes": True},
        {"num_rows": -1},
        {"licence": "a\x1b[31m"},
        {"path": "both"},
    ],
)
def test_entries_out_of_bounds_are_refused(entry, tmp_path, changes):
    file = tmp_path / "index.json"
    file.write_bytes(canonical_json(record_of(entry, **changes)))
    with pytest.raises(InvalidInput, match=next(iter(changes))):
        read_index(file)


def test_order_size_and_absence(entry, tmp_path, monkeypatch):
    file = tmp_path / "index.json"
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_index(file)
    value = record_of(entry)
    file.write_bytes(canonical_json(value | {"packs": value["packs"] * 2}))
    with pytest.raises(InvalidInput, match="each once"):
        read_index(file)
    monkeypatch.setattr("suite.reference.index.INDEX_LIMIT_BYTES", 10)
    with pytest.raises(InvalidInput, match="more than 10 bytes"):
        read_index(file)


@pytest.mark.parametrize("key", ["pack_digest", "lock_digest", "tokens_sha256"])
def test_another_pack_at_its_address_is_refused(pack, entry, key):
    with pytest.raises(VerificationFailed, match=f"{key}: the index says"):
        require_as_indexed(entry.model_copy(update={key: "0" * 64}), peek(str(pack)))


def test_the_repositorys_index_is_one():
    from tests.manifest.samples import ROOT

    assert isinstance(read_index(ROOT / "references" / "index.json"), ReferenceIndex)


def test_a_run_reads_the_index_of_its_manifests_repository(entry, tmp_path):
    add_to_index(tmp_path / "one" / "references" / "index.json", [entry])
    assert _indexed_packs({tmp_path / "one", tmp_path / "two"}) == (entry,)
    (tmp_path / "two" / "references").mkdir(parents=True)
    (tmp_path / "two" / "references" / "index.json").write_text("{}")
    with pytest.raises(InvalidInput, match="not an index of reference packs"):
        _indexed_packs({tmp_path / "one", tmp_path / "two"})


# What a run does with it.


class Told(SilentObserver):
    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)


@pytest.fixture
def wanted(tmp_path):
    """The reference manifest and a candidate's lock."""
    lock = reference_lock(tmp_path)
    manifest = load_manifest(tmp_path / "manifests" / "sample.yaml")
    return manifest, lock, candidate_lock(tmp_path / "manifests")


def take(home, packs, wanted, **options):
    manifest, _, candidate = wanted
    told = Told()
    shelf = Packs(home=home, indexed=packs, **options)
    return shelf.take(manifest, candidate, told), told


def test_a_run_finds_its_reference_in_the_index(pack, entry, home, wanted):
    with serve(pack.read_bytes()) as site:
        here = entry.model_copy(update={"url": site.url})
        found, _ = take(home, [here], wanted)
        assert found.lock == wanted[1]
        asked = len(site.requests)
        assert take(home, [here.model_copy(update={"tokens_sha256": "0" * 64})], wanted)[0] is None
        assert len(site.requests) == asked, "a pack of other tokens is not even looked into"


def test_a_pack_that_cannot_be_reached_is_passed_over_with_a_word(pack, entry, home, wanted):
    with serve(b"", status=404) as site:
        found, told = take(home, [entry.model_copy(update={"url": site.url})], wanted)
    assert found is None
    assert "passed over" in told.warnings[0]


def test_a_pack_that_is_not_the_indexed_one_ends_the_run(pack, entry, home, wanted):
    with serve(pack.read_bytes()) as site:
        altered = entry.model_copy(update={"url": site.url, "pack_digest": "0" * 64})
        with pytest.raises(VerificationFailed, match="the index says"):
            take(home, [altered], wanted)


def test_the_indexed_signer_must_have_signed(pack, home, wanted, tmp_path):
    key = new_key(tmp_path / "k")
    statement = sign_pack(str(pack), key).read_bytes()
    entry = indexed(peek(str(pack)), url=URL)
    assert entry.signer == key.key_id
    with serve(pack.read_bytes()) as site:
        here = entry.model_copy(update={"url": site.url})
        with pytest.raises(VerificationFailed, match="signed by nobody"):
            take(home, [here], wanted)
        site.others[".dsse.json"] = statement
        assert take(home, [here], wanted, signers=["ed25519:" + "0" * 64])[0] is None
        assert take(home, [here], wanted, signers=[key.key_id])[0] is not None


def test_the_command_adds_and_lists(pack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(reference, [*map(str, arguments)])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    run("add", pack, "--url", URL)
    assert json.loads((tmp_path / "references" / "index.json").read_bytes())["packs"][0]["url"] == URL
    assert json.loads(run("list", "--indexed", "--json"))["packs"][0]["name"] == "sample"
    assert URL in run("list", "--index", tmp_path / "references" / "index.json")
    result = CliRunner().invoke(reference, ["add", str(pack), "--url", "file:///p.tar"])
    assert isinstance(result.exception, InvalidInput)
    assert not isinstance(result.exception, MissingPrerequisite)


def test_it_is_written_for_people(entry):
    index = ReferenceIndex(schema_version=1, packs=(entry,))
    assert index.to_bytes() == pretty_json(index.model_dump(mode="json"))
