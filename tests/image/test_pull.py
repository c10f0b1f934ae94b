"""Pulling by digest from a real registry into a real engine: what is pinned, and what is absent or something else."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import requests

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.image.archive import archive_image, open_archive, restore_image
from suite.image.engine import connected
from suite.image.pull import ensure_pulled
from suite.image.reference import ImageReference, parse_reference, pinned_reference
from suite.image.resolve import resolve_image, this_platform
from suite.manifest.schema import Image
from suite.observer import SilentObserver
from tests.image.stub import INDEX, digest_of

pytestmark = pytest.mark.container

ABSENT = "sha256:" + "0" * 64


class Seen(SilentObserver):
    def __init__(self):
        self.phases, self.units, self.notes = [], 0, []

    def phase(self, name, *, total=None, unit=""):
        self.phases.append((name, total, unit))

    def advance(self, count):
        self.units += count

    def note(self, text):
        self.notes.append(text)


def forget(engine, image: Image) -> None:
    """Take the image out of the engine, with everything that names it."""
    for repository in (image.repository, *image.mirrors):
        for digest in {image.digest, image.platform_digest} - {None}:
            if engine.client.images.list(filters={"reference": f"{repository}@{digest}"}):
                engine.api.remove_image(f"{repository}@{digest}", force=True)


@pytest.fixture
def own_image(world, engine, tmp_path):
    """Pushes a small image under a tag, forgets it here, and gives its repository and digest."""
    count = iter(range(100))

    def make(name: str, content: str) -> tuple[str, str]:
        repository = f"{world.registry}/suite-test/{name}-{os.getpid()}"
        root = tmp_path / f"root-{next(count)}"
        root.mkdir()
        (root / "content").write_text(content)
        packed = subprocess.run(["tar", "-C", str(root), "-c", "."], check=True, capture_output=True).stdout
        engine.api.import_image_from_data(packed, repository=repository, tag="latest")
        for event in engine.api.push(repository, tag="latest", stream=True, decode=True):
            assert "error" not in event, event
        (pushed,) = engine.api.inspect_image(f"{repository}:latest")["RepoDigests"]
        engine.api.remove_image(f"{repository}:latest", force=True)
        return repository, pushed.partition("@")[2]

    return make


def index_over(repository: str, manifest_digest: str) -> str:
    """Push an index that names one manifest for this platform; returns its digest."""
    reference = parse_reference(repository)
    base = f"http://{reference.registry}/v2/{reference.path}/manifests"
    types = "application/vnd.docker.distribution.manifest.v2+json"
    answer = requests.get(f"{base}/{manifest_digest}", headers={"Accept": types}, timeout=30)
    system, architecture = this_platform().split("/")
    value = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            {
                "mediaType": types,
                "digest": manifest_digest,
                "size": len(answer.content),
                "platform": {"os": system, "architecture": architecture},
            }
        ],
    }
    data = json.dumps(value).encode()
    put = requests.put(f"{base}/{digest_of(data)}", data=data, headers={"Content-Type": INDEX}, timeout=30)
    assert put.status_code == 201, put.text
    return digest_of(data)


def test_an_image_is_pulled_by_digest_with_progress_once(engine, own_image, tmp_path):
    repository, digest = own_image("pulled", os.urandom(3 << 20).hex())
    image = Image(repository=repository, digest=digest)
    seen = Seen()
    present = ensure_pulled(image, engine=engine, home=tmp_path, observer=seen)
    asked = resolve_image(ImageReference(repository=repository, digest=digest), platform=this_platform())
    assert present.facts == asked
    (name, total, unit), *_ = seen.phases
    assert (name, unit) == ("pull image", "MiB")
    assert total == asked.size_bytes >> 20
    assert total - 1 <= seen.units <= total
    assert engine.api.inspect_image(f"{repository}@{digest}")["Id"] == present.image_id == asked.config_digest
    again = Seen()
    assert ensure_pulled(image, engine=engine, home=tmp_path, observer=again) == present
    assert again.phases == []
    forget(engine, image)


def test_a_digest_that_no_registry_has(world, engine, tmp_path):
    image = Image(repository=world.base_image.repository, digest=ABSENT, mirrors=(f"{world.registry}/suite-test/none",))
    with pytest.raises(MissingPrerequisite, match="no registry has the image") as caught:
        ensure_pulled(image, engine=engine, home=tmp_path, observer=SilentObserver())
    assert f"{world.registry}/suite-test/none@{ABSENT}" in caught.value.message
    assert "mirror" in caught.value.hint


def test_a_tag_that_moves_changes_nothing(engine, own_image, tmp_path):
    repository, first = own_image("moving", "one")
    same_repository, second = own_image("moving", "two")
    assert (same_repository, first != second) == (repository, True)
    assert resolve_image(ImageReference(repository=repository), platform=this_platform()).platform_digest == second
    image = Image(repository=repository, digest=first, tag_seen="latest")
    present = ensure_pulled(image, engine=engine, home=tmp_path, observer=SilentObserver())
    assert present.facts.platform_digest == first
    forget(engine, image)


def test_index_and_platform_are_checked_against_their_pins(engine, own_image, tmp_path):
    repository, platform = own_image("indexed", "one")
    index = index_over(repository, platform)
    image = Image(repository=repository, digest=index, digest_kind="index", platform_digest=platform)
    present = ensure_pulled(image, engine=engine, home=tmp_path / "a", observer=SilentObserver())
    assert (present.facts.index_digest, present.facts.platform_digest) == (index, platform)
    assert present.image_id == present.facts.config_digest
    for wrong in (
        {"digest": index, "digest_kind": "index", "platform_digest": ABSENT},
        {"digest": platform, "digest_kind": "platform", "config_digest": ABSENT},
    ):
        with pytest.raises(VerificationFailed, match="is sha256:0000"):
            ensure_pulled(
                Image(repository=repository, **wrong), engine=engine, home=tmp_path / "b", observer=SilentObserver()
            )
    forget(engine, image)


def test_mirrors_are_asked_in_order_for_the_same_image(world, engine, own_image, tmp_path):
    repository, digest = own_image("original", "one")
    target = tmp_path / "archive"
    archive_image(
        ImageReference(repository=repository, digest=digest),
        target,
        platform=this_platform(),
        all_platforms=False,
        observer=SilentObserver(),
    )
    mirror = f"{world.registry}/suite-test/mirror-{os.getpid()}"
    restored = restore_image(
        open_archive(target, observer=SilentObserver()), parse_reference(mirror), observer=SilentObserver()
    )
    assert restored == f"{mirror}@{digest}"
    gone = Image(
        repository=f"{world.registry}/suite-test/gone",
        digest=index_over(repository, digest),  # of which the mirror knows nothing
        digest_kind="index",
        platform_digest=digest,
        mirrors=(f"{world.registry}/suite-test/gone-too", mirror),
    )
    present = ensure_pulled(gone, engine=engine, home=tmp_path / "home", observer=SilentObserver())
    assert present.facts.repository == gone.repository
    assert present.facts.platform_digest == digest
    forget(engine, gone)


@pytest.mark.parametrize("all_platforms", [False, True])
def test_an_archive_keeps_digests_bit_for_bit(world, own_image, tmp_path, all_platforms):
    repository, platform = own_image("archived", "one")
    index = index_over(repository, platform)
    target = tmp_path / "archive"
    archive = archive_image(
        ImageReference(repository=repository, digest=index),
        target,
        platform=this_platform(),
        all_platforms=all_platforms,
        observer=SilentObserver(),
    )
    assert archive.record.digest == (index if all_platforms else platform)
    assert archive.record.image.index_digest == index
    opened = open_archive(target, observer=SilentObserver())
    assert opened.record == archive.record
    copy = f"{world.registry}/suite-test/copy-{os.getpid()}-{str(all_platforms).lower()}"
    restored = restore_image(opened, parse_reference(copy), observer=SilentObserver())
    assert restored == f"{copy}@{archive.record.digest}"
    facts = resolve_image(pinned_reference(restored), platform=this_platform())
    assert facts.platform_digest == platform
    assert facts.index_digest == (index if all_platforms else None)
    with pytest.raises(InvalidInput, match="exists already"):
        archive_image(
            ImageReference(repository=repository, digest=index),
            target,
            platform=this_platform(),
            all_platforms=False,
            observer=SilentObserver(),
        )


def test_an_archive_that_was_touched_is_found_out(own_image, tmp_path):
    repository, digest = own_image("touched", "one")
    target = tmp_path / "archive"
    archive_image(
        ImageReference(repository=repository, digest=digest),
        target,
        platform=this_platform(),
        all_platforms=False,
        observer=SilentObserver(),
    )
    manifest = target / "image" / "manifest.json"
    data = manifest.read_bytes()
    manifest.write_bytes(data + b" ")
    with pytest.raises(VerificationFailed, match="was altered"):
        open_archive(target, observer=SilentObserver())
    manifest.write_bytes(data)
    (target / "image" / "extra").write_text("")
    with pytest.raises(VerificationFailed, match="is not named"):
        open_archive(target, observer=SilentObserver())
    (target / "image" / "extra").unlink()
    blob = max((target / "image").iterdir(), key=lambda path: path.stat().st_size)
    blob.unlink()
    with pytest.raises(VerificationFailed, match="is missing"):
        open_archive(target, observer=SilentObserver())
    (target / "archive.json").write_text('{"schema_version": 2}')
    with pytest.raises(InvalidInput, match="newer"):
        open_archive(target, observer=SilentObserver())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_of_the_archive_leaves_nothing(world, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], check=True)
    try:
        with pytest.raises(MissingPrerequisite, match="no space left"):
            archive_image(
                pinned_reference(world.base),
                small / "archive",
                platform=this_platform(),
                all_platforms=False,
                observer=SilentObserver(),
            )
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="starts an engine")
def test_a_full_disk_of_the_engine_says_so(world, tmp_path, monkeypatch):
    from tests.container_engine import another_engine

    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(small)], check=True)
    try:
        with another_engine(tmp_path, monkeypatch, data=small / "data"), connected() as full:
            with pytest.raises(MissingPrerequisite, match="no space left on the engine's disk") as caught:
                ensure_pulled(world.base_image, engine=full, home=tmp_path / "home", observer=SilentObserver())
            assert "docker system df" in caught.value.hint
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def test_without_skopeo_it_says_what_to_install(world, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPrerequisite, match="skopeo is not installed"):
        archive_image(
            pinned_reference(world.base),
            Path(tmp_path / "archive"),
            platform=this_platform(),
            all_platforms=False,
            observer=SilentObserver(),
        )
