import json

import pytest

from suite.errors import InvalidInput, MissingPrerequisite
from suite.observer import SilentObserver
from suite.run.captures import Store
from suite.run.reference import (
    Packs,
    Reference,
    reference_without_model,
    require_reference_fits,
)
from suite.run.replayed import ReplayedRows
from suite.run.stack import Stack
from tests.manifest.samples import CUDA, rendered
from tests.manifest.samples import lock as sample_lock
from tests.manifest.samples import manifest as sample_manifest
from tests.reference.server import serve
from tests.reference.world import hidden_capture, packed, reference_lock

SIZES = {
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "vocab_size": 248320,
}


class Notes(SilentObserver):
    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def warn(self, text):
        self.lines.append(f"warning: {text}")


class NoRuntime:
    """Stands for the candidate's runtime; nothing is started."""


def candidate(tmp_path, base=None, **changes) -> Stack:
    folder = tmp_path / "candidate"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SIZES))
    (folder / "reference.yaml").touch()
    changes = {"name": "fp8", "role": "candidate", "reference": "reference.yaml", **changes}
    changes.setdefault("engine__kv_cache_dtype", "fp8_e4m3")
    arguments = (folder,) if base is None else (folder, base)
    return Stack(
        manifest=sample_manifest(*arguments, **changes),
        lock=sample_lock(*arguments, **changes),
        rendered=rendered(),
        model_folder=folder,
        runtime=NoRuntime(),
    )


def reference(tmp_path, base=None, **changes):
    folder = tmp_path / "reference"
    folder.mkdir(exist_ok=True)
    return sample_manifest(*((folder,) if base is None else (folder, base)), **changes)


def find(tmp_path, home, manifest=None, **packs):
    shelf = Packs(home=home, **packs)
    notes = Notes()
    found = reference_without_model(
        manifest or reference(tmp_path), candidate(tmp_path), store=Store(home=home), packs=shelf, observer=notes
    )
    return found, shelf, notes.lines


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def pack(tmp_path):
    return packed(tmp_path)


def test_nothing_at_hand_is_no_error(tmp_path, home):
    found, shelf, notes = find(tmp_path, home)
    assert found is None
    assert notes == []
    shelf.require_used()


def test_a_given_pack_becomes_the_reference(tmp_path, home, pack):
    found, shelf, notes = find(tmp_path, home, given=[str(pack)])
    assert found is not None
    assert found.stack is None
    assert found.capture is not None
    assert found.capture.index.num_rows == 29
    assert "captured elsewhere (reference pack)" in notes[-1]
    shelf.require_used()


def test_its_rows_are_replayed_by_the_candidates_runtime_under_its_own_settings(tmp_path, home, pack):
    found, _, _ = find(tmp_path, home, given=[str(pack)])
    assert found is not None
    replay = found.replay(Store(home=home))
    rows = replay(found.capture)
    assert isinstance(rows, ReplayedRows)
    assert isinstance(rows.runtime, NoRuntime)
    assert rows.elsewhere
    assert (rows.threads, rows.device) == (1, "cpu")
    assert rows.environment["OMP_NUM_THREADS"] == "1"


def test_a_capture_of_this_machine_comes_first_and_is_replayed_strictly(tmp_path, home, pack):
    hidden_capture(home, reference_lock(tmp_path), seed=4)
    found, _, notes = find(tmp_path, home, given=[str(pack)])
    assert found is not None
    assert "captured here" in notes[-1]
    assert not found.replay(Store(home=home))(found.capture).elsewhere


def test_a_standing_pack_is_used_where_it_fits(tmp_path, home, pack):
    (tmp_path / "other").mkdir()
    other = packed(tmp_path / "other", lock=reference_lock(tmp_path, hardware__threads=4))
    found, _, _ = find(tmp_path, home, standing=[str(other), str(pack)])
    assert found is not None
    assert found.lock == reference_lock(tmp_path)


def test_a_standing_pack_that_cannot_be_reached_is_passed_over(tmp_path, home, pack):
    found, _, notes = find(tmp_path, home, standing=["http://127.0.0.1:9/p.tar", str(pack)])
    assert found is not None
    assert notes[0].startswith("warning: reference pack passed over: http://127.0.0.1:9/p.tar: the transfer broke off")


def test_a_given_pack_that_cannot_be_reached_is_an_error(tmp_path, home):
    with pytest.raises(MissingPrerequisite, match="broke off"):
        find(tmp_path, home, given=["http://127.0.0.1:9/p.tar"])


def test_a_given_pack_of_another_reference_is_refused_naming_the_keys(tmp_path, home, pack):
    manifest = reference(tmp_path, engine__max_num_batched_tokens=512, hardware__threads=4)
    found, shelf, _ = find(tmp_path, home, manifest, given=[str(pack)])
    assert found is None
    with pytest.raises(
        InvalidInput, match=r"reference\.tar: .* differs from sample: chunk_size \(512 .*, threads \(4 "
    ):
        shelf.require_used()


def test_a_pack_that_fits_one_of_two_references_is_no_error(tmp_path, home, pack):
    shelf = Packs(home=home, given=[str(pack)])
    lock = candidate(tmp_path).lock
    assert shelf.take(reference(tmp_path, hardware__threads=4), lock, Notes()) is None
    assert shelf.take(reference(tmp_path), lock, Notes()) is not None
    shelf.require_used()


def test_only_the_head_of_a_pack_that_does_not_fit_is_fetched(tmp_path, home):
    pack = packed(tmp_path)
    # A tail that any fetch of the whole would take seconds for.
    data = pack.read_bytes() + bytes(40_000_000)
    with serve(data) as site:
        find(tmp_path, home, reference(tmp_path, hardware__threads=4), given=[site.url])
    assert site.sent < len(data) // 2


def test_a_reference_of_no_stack_and_no_runtime_cannot_be_replayed(tmp_path):
    lock = reference_lock(tmp_path)
    assert Reference(file=tmp_path, lock=lock, stack=None, capture=None).replay(Store(home=tmp_path)) is None


PROCESS = {"runtime": {"kind": "process", "packages": {"vllm": "0.32.0"}}}
PRO_6000 = {"kind": "cuda", "architecture": "12.0", "gpu": "RTX PRO 6000 Blackwell", "count": 1}


def test_a_reference_too_large_for_this_card_is_refused_before_its_model_is_fetched(tmp_path, home):
    stack = candidate(tmp_path, CUDA, **PROCESS)
    large = reference(tmp_path, CUDA, hardware=PRO_6000, **PROCESS)
    with pytest.raises(MissingPrerequisite) as caught:
        require_reference_fits(large, stack, Packs(home=home, given=["a"], standing=["b"]))
    assert caught.value.exit_code == 3
    text = str(caught.value)
    assert "the reference of fp8 is not at hand and cannot be run here: needs about " in text
    assert "GiB are available" in text
    for way_out in ("2 reference packs", "--reference PACK", "suite reference pull", "suite reference pack", "offload"):
        assert way_out in text


def test_a_reference_that_fits_may_run(tmp_path, home):
    stack = candidate(tmp_path, CUDA, hardware=PRO_6000, **PROCESS)
    require_reference_fits(reference(tmp_path, CUDA, hardware=PRO_6000, **PROCESS), stack, Packs(home=home))


def test_a_cpu_reference_is_held_against_this_machines_memory(tmp_path, home, monkeypatch):
    stack = candidate(tmp_path, CUDA, **PROCESS)
    monkeypatch.setattr("suite.run.prepare.host_memory_bytes", lambda: 16 << 30)
    with pytest.raises(MissingPrerequisite, match=r"16\.0 GiB are available"):
        require_reference_fits(reference(tmp_path), stack, Packs(home=home))


def test_of_another_base_model_nothing_is_known_beforehand(tmp_path, home):
    stack = candidate(tmp_path, CUDA, model__base="Other-7B", **PROCESS)
    require_reference_fits(reference(tmp_path, CUDA, hardware=PRO_6000, **PROCESS), stack, Packs(home=home))
