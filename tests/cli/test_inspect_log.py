import gzip
import json

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput
from tests.manifest.samples import ROOT

BUNDLE = next((ROOT / "results" / "h200-smollm2-flash-attn-3-kv-fp8").iterdir())


def run(*arguments, **options):
    result = CliRunner().invoke(cli, ["inspect-log", *map(str, arguments)], **options)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_log_is_read_whole_packed_or_from_a_pipe(tmp_path):
    log = BUNDLE / "engine.log"
    packed = tmp_path / "engine.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    text = run(log)
    assert "FLASH_ATTN" in text
    assert "fp8_e4m3, scales not told" in text
    assert run(packed) == text
    assert run("-", input=log.read_bytes()) == text
    value = json.loads(run(log, "--json"))
    assert value["effective"]["flash_attn_version"] == 3
    assert value["kv_cache"]["capacity"]["consistent"] is True


def test_a_receipt_tells_more():
    text = run(BUNDLE / "receipt.json")
    assert "FLASH_ATTN 3, KV fp8_e4m3, unit scale, uncalibrated" in text
    assert "NVIDIA H200" in text


def test_nothing_in_a_log_reaches_the_terminal_raw(tmp_path):
    log = tmp_path / "log"
    log.write_text("Initializing a V1 LLM engine (v1) with config: model='\x1b[31mred', dtype=torch.bfloat16\n")
    assert "\x1b" not in run(log)


@pytest.mark.parametrize("content", [b"{}", b'{"ranks": []}', b"[]"])
def test_what_is_no_receipt_is_refused(tmp_path, content):
    path = tmp_path / "receipt.json"
    path.write_bytes(content)
    result = CliRunner().invoke(cli, ["inspect-log", str(path)])
    assert isinstance(result.exception, InvalidInput)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"line\n" * 1000, mtime=0)[:-12]])
def test_a_broken_file_is_told(tmp_path, content):
    path = tmp_path / "log.gz"
    path.write_bytes(content)
    result = CliRunner().invoke(cli, ["inspect-log", str(path)])
    assert isinstance(result.exception, InvalidInput)


@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe", b"GET / 200\n"])
def test_what_is_no_log_of_an_engine_is_refused(tmp_path, content):
    path = tmp_path / "log"
    path.write_bytes(content)
    result = CliRunner().invoke(cli, ["inspect-log", "--json", str(path)])
    assert isinstance(result.exception, InvalidInput)
    assert "no line of a vLLM server" in str(result.exception)
    assert not result.stdout


def test_an_absent_file_is_told(tmp_path):
    result = CliRunner().invoke(cli, ["inspect-log", str(tmp_path / "none.log")])
    assert isinstance(result.exception, InvalidInput)
