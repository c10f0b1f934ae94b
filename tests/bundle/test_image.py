"""What a bundle says of its image, against its lock."""

from dataclasses import replace

from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.image.facts import parse_facts
from tests.bundle.world import World
from tests.manifest.test_image import FACTS

RUNTIME = {
    "kind": "docker",
    "image": {"repository": "a/b", "digest": FACTS.index_digest, "digest_kind": "index"},
    "packages": {"vllm": "0.32.0"},
}


def outcome(folder) -> tuple[str, str]:
    report = verify_bundle(folder)
    return next((check.outcome, check.detail) for check in report.checks if check.name == "image")


def test_a_bundle_keeps_what_is_known_of_its_image(tmp_path):
    world = World(root=tmp_path)
    parts = replace(world.parts(runtime=RUNTIME), image=FACTS)
    folder = write_bundle(parts, results=world.results)
    assert parse_facts((folder / "image.json").read_bytes(), where="image.json") == FACTS
    assert outcome(folder) == ("passed", f"configuration {FACTS.config_digest}, 1 layers, as locked")


def test_another_image_than_the_locked_one_is_found_out(tmp_path):
    world = World(root=tmp_path)
    other = FACTS.model_copy(update={"index_digest": "sha256:" + "9" * 64})
    folder = write_bundle(replace(world.parts(runtime=RUNTIME), image=other), results=world.results)
    told, detail = outcome(folder)
    assert told == "failed"
    assert "digest (an index)" in detail


def test_a_process_has_no_image(tmp_path):
    world = World(root=tmp_path)
    folder = write_bundle(replace(world.parts(), image=FACTS), results=world.results)
    told, detail = outcome(folder)
    assert (told, "the stack is a process" in detail) == ("failed", True)
