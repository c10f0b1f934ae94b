"""One stack read four ways: as an image, as a running container, from its export, and as a folder."""

import io
import tarfile

import pytest

from suite.agent.inventory import collect_inventory, inventory_bytes
from suite.errors import InvalidInput, MissingPrerequisite, RunFailed
from suite.observer import SilentObserver
from suite.sbom.components import components_of, count_by_kind
from suite.sbom.container import _from_export, inventory_of_container, inventory_of_image
from suite.sbom.schema import load_inventory
from tests.container_engine import containers_of

pytestmark = pytest.mark.container


@pytest.fixture
def running(engine, base):
    """A container of the base that does nothing, as somebody else would have started it."""
    created = engine.api.create_container(
        base.image_id,
        command=["sleep", "600"],
        host_config=engine.api.create_host_config(network_mode="none"),
        network_disabled=True,
    )["Id"]
    engine.api.start(created)
    yield created
    engine.api.remove_container(created, force=True)


def test_image_container_export_and_folder_give_the_same_bytes(engine, base, running, tmp_path):
    home = tmp_path / "home"
    from_image = inventory_of_image(base.image_id, engine=engine, home=home, observer=SilentObserver())
    assert inventory_of_container(running, engine=engine, observer=SilentObserver()) == from_image
    assert _from_export(engine, running) == from_image
    with tarfile.open(fileobj=io.BytesIO(b"".join(engine.api.export(running)))) as archive:
        archive.extractall(tmp_path / "root", filter="tar")
    assert inventory_bytes(collect_inventory(tmp_path / "root")) == from_image
    counts = count_by_kind(components_of(load_inventory(from_image, where="image")))
    assert counts["operating_system"] == 1
    assert counts["dpkg"] > 50
    assert containers_of(engine, home) == []


def test_an_image_without_python_is_unpacked_and_read(engine, tmp_path):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, data in (
            ("etc/os-release", b"ID=small\nVERSION_ID=1\n"),
            ("var/lib/dpkg/status", b"Package: a\nStatus: install ok installed\nVersion: 1.0\nArchitecture: all\n\n"),
            ("../outside", b"x"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("usr-link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/os-release"
        archive.addfile(link)
    response = engine.api.import_image_from_data(sink.getvalue(), repository="suite-test/small", tag="1")
    assert "status" in response
    name = engine.api.inspect_image("suite-test/small:1")["Id"]
    notes: list[str] = []
    observer = SilentObserver()
    observer.note = notes.append
    try:
        raw = inventory_of_image(name, engine=engine, home=tmp_path / "home", observer=observer)
    finally:
        engine.api.remove_image("suite-test/small:1", force=True)
    inventory = load_inventory(raw, where="image")
    assert [package.name for package in inventory.dpkg] == ["a"]
    assert inventory.operating_system is not None
    assert inventory.operating_system.id == "small"
    assert notes == ["the image has no python3: it is unpacked and read here"]
    assert containers_of(engine, tmp_path / "home") == []


def test_what_is_not_there_is_said(engine, base, running, tmp_path):
    absent = "sha256:" + "0" * 64
    with pytest.raises(InvalidInput, match="holds no such image"):
        inventory_of_image(absent, engine=engine, home=tmp_path, observer=SilentObserver())
    with pytest.raises(MissingPrerequisite):
        inventory_of_container("suite-no-such-container", engine=engine, observer=SilentObserver())
    engine.api.kill(running)
    engine.api.wait(running)
    with pytest.raises(RunFailed, match="not running"):
        inventory_of_container(running, engine=engine, observer=SilentObserver())
