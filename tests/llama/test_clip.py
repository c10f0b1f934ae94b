import numpy as np
import pytest

from suite.errors import InvalidInput
from suite.llama.clip import clipped_rows, resolve_clip
from suite.llama.file import open_kld, survey_kld
from tests.llama.files import write_kld


@pytest.mark.parametrize(
    ("span", "nats", "source"),
    [(16.0, 16, "inferred"), (15.9999996, 16, "inferred"), (24.0, 24, "inferred"), (19.5, 24, "inferred")],
)
def test_the_widest_row_tells_the_clip(span, nats, source):
    clip = resolve_clip("auto", span, where="x")
    assert (clip.nats, clip.source) == (nats, source)
    assert f"max-{nats}" in clip.text()
    assert "inferred" in clip.text()


def test_a_file_without_clipped_rows_leaves_it_open():
    clip = resolve_clip("auto", 12.5, where="x")
    assert clip.nats is None
    assert "no row was clipped" in clip.text()


def test_what_is_stated_is_kept_and_said():
    assert resolve_clip("24", 12.5, where="x").nats == 24
    assert resolve_clip("16", 16.0, where="x").text() == "clip max-16 (llama.cpp), as stated"


@pytest.mark.parametrize(("choice", "span"), [("16", 24.0), ("24", 24.1), ("auto", 30.0)])
def test_a_span_that_the_clip_cannot_give_is_refused(choice, span):
    with pytest.raises(InvalidInput, match="spans"):
        resolve_clip(choice, span, where="x")


@pytest.mark.parametrize("clip", [16, 24])
def test_files_of_both_programs_are_told_apart(tmp_path, clip):
    survey = survey_kld(open_kld(write_kld(tmp_path / "a.kld", clip=clip, vocab=200)))
    assert survey.clip.nats == clip
    assert survey.clip.source == "inferred"


def test_only_rows_at_the_clip_are_clipped():
    scales = np.array([16 / 65535, 15 / 65535, 24 / 65535], np.float32)
    assert clipped_rows(scales, 16).tolist() == [True, False, False]
    assert clipped_rows(scales, 24).tolist() == [False, False, True]
