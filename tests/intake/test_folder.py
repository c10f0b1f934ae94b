import os
import shutil

import pytest
from click.testing import CliRunner

from suite.cli.verify import verify
from suite.errors import VerificationFailed
from suite.intake.folder import gate_folder
from suite.intake.refusal import Refused
from tests.intake.senders import submission


def test_bundle(bundle):
    tree = gate_folder(bundle)
    assert tree.bundle == bundle
    assert tree.files["ledger.parquet"] == (bundle / "ledger.parquet").stat().st_size
    assert list(tree.files) == sorted(tree.files)


def test_submission(bundle, tmp_path):
    folder = submission(tmp_path, bundle, None)
    assert gate_folder(folder).bundle == folder / "bundle" / bundle.parent.name / bundle.name


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_device(bundle):
    (bundle / "engine.log").unlink()
    os.mknod(bundle / "engine.log", 0o020600, os.makedev(1, 5))
    with pytest.raises(Refused) as error:
        gate_folder(bundle)
    assert error.value.code == "device"


def test_link_inside_a_submission(bundle, tmp_path):
    folder = submission(tmp_path, bundle, None)
    shutil.move(folder / "bundle", tmp_path / "elsewhere")
    (folder / "bundle").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused) as error:
        gate_folder(folder)
    assert error.value.code == "link"


def test_verify_goes_through_the_gate(bundle):
    (bundle / "engine.log").unlink()
    (bundle / "engine.log").symlink_to("/etc/passwd")
    done = CliRunner().invoke(verify, [str(bundle)])
    assert "FAIL  gate  engine.log: a symbolic link" in done.output
    assert isinstance(done.exception, VerificationFailed)
