from __future__ import annotations

from datetime import UTC, datetime

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from suite.sbom.spdx import render_spdx
from tests.sbom.roots import add_distribution, make_root, put, read


def problems(tmp_path, data):
    file = tmp_path / "stack.spdx.json"
    file.write_bytes(data)
    document = parse_file(str(file))
    return document, [message.validation_message for message in validate_full_spdx_document(document)]


@pytest.fixture
def root(tmp_path):
    return make_root(tmp_path / "root")


def test_spdx_tools_find_nothing_to_complain_about(tmp_path, root):
    add_distribution(root, "odd", "1", metadata="Name: odd\nVersion: 1\nLicense: Some licence\n\n")
    put(root, "usr/local/lib/plain.so", b"\x7fELF\x02\x01" + bytes(10) + b"\x03\x00")
    document, messages = problems(tmp_path, render_spdx(read(root)))
    assert messages == []
    assert [(package.name, package.version) for package in document.packages] == [
        ("debian", "12"),
        ("libc6", "2.36-9"),
        ("python3-yaml", "6.0-3"),
        ("odd", "1"),
        ("torch", "2.13.0"),
        ("libcudart.so.13.0.48", "13.0.48"),
        ("plain.so", None),
        ("server", None),
    ]
    assert str(document.packages[4].license_declared) == "MIT"
    assert document.packages[3].license_comment == "declared as: Some licence"


def test_it_is_deterministic_and_takes_a_time(root):
    assert render_spdx(read(root)) == render_spdx(read(root))
    assert b'"created": "1970-01-01T00:00:00Z"' in render_spdx(read(root))
    timed = render_spdx(read(root), timestamp=datetime(2026, 1, 2, 3, tzinfo=UTC))
    assert b'"created": "2026-01-02T03:00:00Z"' in timed
