"""What is honest is taken in, and the process that reads it is bounded."""

import gzip
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from click.testing import CliRunner

from suite.cli.intake import intake
from suite.errors import InvalidInput, VerificationFailed
from suite.files import pretty_json
from suite.intake.intake import take_in
from suite.intake.limits import LIMITS
from suite.intake.report import IntakeReport
from suite.signing import sign_folder
from tests.intake.archives import tar_of, zip_of
from tests.intake.forger import Forger
from tests.intake.here import look
from tests.intake.senders import attestation, private, submission
from tests.intake.threats import THREATS, Scene


def packed(folder, form):
    """An archive of `folder` with its name and that of its parent."""
    below = f"{folder.parent.name}/{folder.name}"
    plain = tar_of(folder, below=below)
    if form == "zip":
        return zip_of(*((f"{below}/{path.name}", path.read_bytes()) for path in sorted(folder.iterdir())))
    return {
        "tar": lambda: plain,
        "tar.gz": lambda: gzip.compress(plain),
        "tar.zst": lambda: pa.compress(plain, codec="zstd", asbytes=True),
    }[form]()


def test_folder(bundle, results):
    report = take_in(bundle, results=results)
    assert report.accepted, report.findings
    assert (report.what, report.tier, report.exit_code) == ("bundle", "self-reported", 0)
    assert report.bundle_id == f"{bundle.parent.name}/{bundle.name}"
    report.require_accepted()


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.zst", "zip"])
def test_archive(form, bundle, tmp_path):
    path = tmp_path / "archive"
    path.write_bytes(packed(bundle, form))
    # What unpacks must get by with the memory of the process, too.
    report = (take_in if form in ("tar.zst", "zip") else look)(path, results=None)
    assert report.accepted, report.findings
    assert report.bundle_id == f"{bundle.parent.name}/{bundle.name}"


def test_a_bundle_in_its_place_is_no_duplicate_of_itself(results):
    for folder in results.glob("*/*"):
        assert look(folder, results=results).accepted


def test_signed_by_who_signed(bundle, results, keys):
    sign_folder(bundle, keys[0], kind="result")
    sign_folder(bundle, keys[1], kind="result")
    report = look(bundle, results=results)
    assert report.accepted, report.findings
    assert set(report.key_ids) == {key.verify_key.key_id for key in keys}


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("write", [submission, private])
def test_submission(write, signed, bundle, results, keys, tmp_path):
    folder = write(tmp_path / "out", bundle, keys[0] if signed else None)
    report = look(folder, results=results)
    assert report.accepted, report.findings
    assert report.what == ("submission" if write is submission else "private submission")
    assert report.tier == "self-reported"
    assert report.key_ids == ((keys[0].verify_key.key_id,) if signed else ())


def test_submission_archive_in_its_place(bundle, results, tmp_path):
    folder = submission(results / "submissions", bundle, None)
    assert look(folder, results=results).accepted
    path = tmp_path / "sent.tar.gz"
    path.write_bytes(gzip.compress(tar_of(folder, below=folder.name)))
    assert look(path, results=None).accepted
    assert [finding.code for finding in look(path, results=results).findings] == ["duplicate"]


def test_a_bundle_of_ones_own_beside_the_submission(bundle, results, keys):
    """In a checkout only what git knows is published; elsewhere everything is."""
    shutil.copytree(bundle, results / bundle.parent.name / bundle.name)
    folder = submission(results / "submissions", bundle, keys[0])
    assert [finding.code for finding in look(folder, results=results).findings] == ["re-signed"]
    for command in (["init", "-q"], ["add", "h200-smollm2-chunk512"]):
        subprocess.run(["git", *command], cwd=results, check=True)
    assert look(folder, results=results).accepted
    subprocess.run(["git", "add", bundle.parent.name], cwd=results, check=True)
    assert [finding.code for finding in look(folder, results=results).findings] == ["re-signed"]


def test_attestations(bundle, results, keys, tmp_path):
    known = next((results / "h200-smollm2-chunk512").iterdir())
    assert look(attestation(tmp_path / "a", known, keys[0]), results=results).accepted
    report = look(attestation(tmp_path / "b", known, keys[0], own=bundle), results=results)
    assert report.accepted, report.findings
    assert (report.what, report.tier) == ("attestation", None)


def test_attested_tier(bundle, results, keys):
    """The tier is that which the attestations of trusted keys give."""
    folder = submission(results / "submissions", bundle, keys[0])
    attestation(results / "attestations", bundle, keys[1])
    assert look(folder, results=results).tier == "self-reported"
    key = {"key_id": keys[1].verify_key.key_id, "name": "K", "role": "maintainer", "since": "2026-11-30"}
    (results / "trusted-keys.json").write_bytes(pretty_json({"schema_version": 1, "keys": [key]}))
    assert look(folder, results=results).tier == "consistent"


def test_own_measurement_sealed_anew_by_its_author(forger, results, keys):
    """Who signed a measurement may send it again under a corrected record."""
    target = results / forger.folder.parent.name / forger.folder.name
    shutil.copytree(forger.folder, target)
    sign_folder(target, keys[0], kind="result")
    folder = forger.seal(created="2026-11-29T21:00:00Z")
    sign_folder(folder, keys[0], kind="result")
    report = look(folder, results=results)
    assert report.accepted, report.findings


def test_clock(bundle):
    early = datetime(2026, 11, 29, tzinfo=UTC)
    assert [finding.code for finding in look(bundle, results=None, now=early).findings] == ["from-the-future"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"cpu_seconds": 0}, "too-much-time"),
        ({"wall_seconds": 0}, "too-slow"),
        ({"memory_bytes": 4 << 20}, "parser-ended"),
    ],
)
def test_bounds_of_the_process(limits, code, bundle):
    report = take_in(bundle, results=None, limits=replace(LIMITS, **limits))
    assert [finding.code for finding in report.findings] == [code]
    assert report.exit_code == 5


def test_bound_of_memory(forger):
    """What gets past the bounds on sizes is stopped by the operating system."""
    forger.write("sbom.cdx.json", b"[" + b"[]," * 8_000_000 + b"[]]")
    report = take_in(forger.folder, results=None, limits=replace(LIMITS, json_values=1 << 30))
    assert [finding.code for finding in report.findings] == ["too-much-memory"]


BOMBS = [name for name in THREATS if "bomb" in name or name in ("json_many_values", "ledger_many_rows", "json_deep")]
# A small process of its own: on Linux a child's peak is at least what its parent held when it was started.
HELPER = """
import json, resource, sys
from pathlib import Path
from suite.intake.intake import take_in
codes = [[f.code for f in take_in(Path(path), results=None).findings] for path in sys.argv[1:]]
print(json.dumps({"codes": codes, "peak_kib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))
"""


def test_bombs_stay_small(tmp_path, bundle, results, keys):
    """The process that reads what expands stays below 512 MB."""
    paths = []
    for name in BOMBS:
        root = tmp_path / name
        shutil.copytree(bundle, root / bundle.parent.name / bundle.name)
        forger = Forger(root / bundle.parent.name / bundle.name)
        paths.append(THREATS[name][1](Scene(root=root, forger=forger, results=results, keys=keys)))
    done = subprocess.run([sys.executable, "-c", HELPER, *map(str, paths)], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    for name, codes in zip(BOMBS, found["codes"], strict=True):
        assert THREATS[name][0] in codes, name
    assert found["peak_kib"] * 1024 < 512_000_000
    assert LIMITS.memory_bytes < 512_000_000


def test_no_secret_reaches_the_process(bundle, monkeypatch):
    from suite.intake import intake as module

    seen = {}
    popen = module.subprocess.Popen

    def spy(*args, **options):
        seen.update(options["env"])
        return popen(*args, **options)

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(module.subprocess, "Popen", spy)
    assert take_in(bundle, results=None).accepted
    assert "hf_secret" not in seen.values()
    assert "PATH" in seen


def test_nothing_is_written_beside_it(bundle):
    before = {path: path.stat().st_mtime_ns for path in bundle.rglob("*")}
    take_in(bundle, results=None)
    assert {path: path.stat().st_mtime_ns for path in bundle.rglob("*")} == before


def test_errors():
    report = IntakeReport(what="unknown")
    report.require_accepted()
    from suite.intake.report import Finding

    one = Finding(code="link", where="a", message="a link")
    with pytest.raises(VerificationFailed, match=r"\[link\] a link \(and 1 more\)"):
        replace(report, findings=(one, one)).require_accepted()
    with pytest.raises(InvalidInput):
        replace(report, findings=(one,), unusable=True).require_accepted()


def test_command(bundle, results):
    done = CliRunner().invoke(intake, [str(bundle), "--results", str(results)])
    assert done.exit_code == 0, done.output
    assert f"accepted: bundle of {bundle.parent.name}/{bundle.name}, self-reported" in done.output


def test_command_json(bundle, results):
    (bundle / "setup.py").write_text("")
    done = CliRunner().invoke(intake, [str(bundle), "--results", str(results), "--json"])
    value = json.loads(done.output)
    assert (value["accepted"], value["tier"], value["schema_version"]) == (False, None, 1)
    assert [finding["code"] for finding in value["findings"]] == ["unlisted-file"]
    assert isinstance(done.exception, VerificationFailed)
