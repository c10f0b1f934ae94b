"""Where the Python packages of an interpreter are looked for."""

import sysconfig
from pathlib import Path

from suite.agent.stocktake import import_folders


def test_folders_that_a_path_file_adds_are_read_too(tmp_path):
    added, code = tmp_path / "added", tmp_path / "code"
    (added / "vllm-0.25.1.dist-info").mkdir(parents=True)
    (added / "vllm-0.25.1.dist-info" / "METADATA").write_text("Name: vllm\n")
    code.mkdir()
    own = Path(sysconfig.get_paths()["purelib"])
    assert import_folders(["", str(code), str(added), str(tmp_path / "absent"), str(own)]) == sorted({own, added})
