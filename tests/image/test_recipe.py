import hashlib
import re
import subprocess
import zipfile

import pytest

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.image.recipe import load_recipe, pinned_base
from suite.image.wheels import ensure_wheels
from suite.observer import SilentObserver
from tests.agent_stack import ROOT

DIGEST = "sha256:" + "b2" * 32
GOOD = f"# python: 3.11\nARG BASE=debian:12@{DIGEST}\nFROM ${{BASE}}\nCOPY requirements/one.txt /requirements/\n"


def write(root, text, name="small", **locks):
    folder = root / "dockerfiles" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text(text)
    (root / "requirements").mkdir(exist_ok=True)
    for lock, content in locks.items():
        (root / "requirements" / f"{lock}.txt").write_text(content)


def test_what_decides_an_image_decides_its_hash(tmp_path):
    write(tmp_path, GOOD, one="a==1")
    first = load_recipe("small", root=tmp_path)
    assert first.base == f"debian@{DIGEST}"
    assert first.python == "3.11"
    assert first.tag == f"suite/small:{first.sha256[:12]}"
    assert load_recipe("small", root=tmp_path) == first
    write(tmp_path, GOOD, one="a==2")
    assert load_recipe("small", root=tmp_path).sha256 != first.sha256
    write(tmp_path, GOOD + "USER 1000\n", one="a==1")
    assert load_recipe("small", root=tmp_path).sha256 != first.sha256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace(f"@{DIGEST}", ""), "a tag is refused"),
        (GOOD.replace("# python: 3.11\n", ""), "needs the lines"),
        (GOOD.replace("${BASE}", "debian:12"), r"every FROM must name \$\{BASE\}"),
        (GOOD.replace("one.txt", "two.txt"), "is absent"),
    ],
)
def test_recipes_that_pin_nothing_are_refused(tmp_path, text, message):
    write(tmp_path, text, one="a==1")
    with pytest.raises(InvalidInput, match=message):
        load_recipe("small", root=tmp_path)


def test_a_recipe_that_is_not_there_names_those_that_are():
    with pytest.raises(InvalidInput, match="no recipe 'vllm'") as caught:
        load_recipe("vllm", root=ROOT)
    assert "vllm-cpu, vllm-cuda" in caught.value.hint


@pytest.mark.parametrize("name", ["vllm-cpu", "vllm-cuda"])
def test_shipped_recipes_install_by_hash_only(name):
    recipe = load_recipe(name, root=ROOT)
    text = recipe.dockerfile.decode()
    assert re.search(r"pip install [^&]*--no-index[^&]*--require-hashes", text.replace("\\\n", " "))
    assert "USER 1000:1000" in text
    for lock in recipe.locks:
        blocks = re.split(r"\n(?=[a-z0-9])", lock.read_text())
        pinned = [block for block in blocks if re.match(r"[a-z0-9].*==", block)]
        assert pinned
        assert all("--hash=sha256:" in block for block in pinned)


def test_a_base_is_pinned_by_digest():
    assert pinned_base(f"127.0.0.1:5000/base:1@{DIGEST}") == f"127.0.0.1:5000/base@{DIGEST}"
    with pytest.raises(InvalidInput, match="a tag is refused"):
        pinned_base("debian:12")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder with one wheel, in the place of a package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a.py", "")
        archive.writestr("a-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1\n")
        archive.writestr("a-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("a-1.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")  # nothing listens where no index is
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_wheels_come_by_hash_once(tmp_path, index, monkeypatch):
    write(tmp_path, GOOD, one=f"a==1 --hash=sha256:{index}\n")
    recipe = load_recipe("small", root=tmp_path)
    folder = ensure_wheels(recipe, home=tmp_path / "home", observer=SilentObserver())
    assert [path.name for path in folder.iterdir()] == ["a-1-py3-none-any.whl"]
    monkeypatch.setattr(subprocess, "run", None)
    assert ensure_wheels(recipe, home=tmp_path / "home", observer=SilentObserver()) == folder


def test_a_further_index_is_asked_only_for_what_the_usual_ones_lack(tmp_path, index, monkeypatch):
    write(tmp_path, GOOD, one=f"a==1 --hash=sha256:{index}\n")
    monkeypatch.setenv("TORCH_INDEX", "http://127.0.0.1:9/none")
    asked = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **kwargs: (asked.append(command), run(command, **kwargs))[1])
    ensure_wheels(load_recipe("small", root=tmp_path), home=tmp_path / "home", observer=SilentObserver())
    assert ["--extra-index-url" in command for command in asked] == [False]
    write(tmp_path, GOOD, one=f"b==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(MissingPrerequisite):
        ensure_wheels(load_recipe("small", root=tmp_path), home=tmp_path / "home", observer=SilentObserver())
    assert ["--extra-index-url" in command for command in asked] == [False, False, True]


def test_wheels_that_are_others_or_absent_leave_nothing(tmp_path, index):
    write(tmp_path, GOOD, one=f"a==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(VerificationFailed, match="another file than the lock names"):
        ensure_wheels(load_recipe("small", root=tmp_path), home=tmp_path / "home", observer=SilentObserver())
    write(tmp_path, GOOD, one=f"b==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(MissingPrerequisite, match="cannot be had") as caught:
        ensure_wheels(load_recipe("small", root=tmp_path), home=tmp_path / "home", observer=SilentObserver())
    assert "TORCH_INDEX" in caught.value.hint
    assert [path for path in (tmp_path / "home" / "wheels").iterdir() if path.is_dir()] == []
