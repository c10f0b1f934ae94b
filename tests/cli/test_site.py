import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput, MissingPrerequisite
from suite.site.options import checked_base_url, default_cache, default_manifests
from suite.site.serve import open_server
from tests.site.world import GUIDE, table_of_bundles


@pytest.fixture
def results(tmp_path):
    return table_of_bundles(tmp_path / "world", turns=12).results


def test_build_says_what_it_wrote_and_keeps_its_memory_elsewhere(results, tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    arguments = ["site", "build", "--results", str(results), "--out", str(out), "--jobs", "1"]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "4 bundles, " in done.stdout
    assert (out / GUIDE).is_file()
    assert default_cache(out).is_dir()
    assert default_cache(out).is_relative_to(tmp_path / "home")
    (broken,) = (results / "tiny-kv-fp8").iterdir()
    (broken / "lock.json").write_text("{}")
    again = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert f"not shown: tiny-kv-fp8/{broken.name}: lock.json: not the file that the record names" in again.stderr
    assert "3 bundles, " in again.stdout
    with open_server(out, port=0) as server:
        import threading

        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/index.html") as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert b"What one serving flag does" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/%00")
        with pytest.raises(MissingPrerequisite, match="port cannot be used"):
            open_server(out, port=server.server_port)
        server.shutdown()


def test_what_cannot_be_served_or_named_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="no built site is here"):
        open_server(tmp_path, port=0)
    with pytest.raises(InvalidInput, match="no such folder"):
        default_manifests(tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)
    assert default_manifests(None) is None
    assert checked_base_url("https://example.org/site") == "https://example.org/site/"
    assert checked_base_url("") == ""
    for text in ("example.org", "javascript:alert(1)", "https://example.org/?q=1", "file:///x"):
        with pytest.raises(InvalidInput, match="not an address of a site"):
            checked_base_url(text)
