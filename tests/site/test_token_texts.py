"""The texts that the repository ships are those that its session gives under the small model's tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.cli.main import cli
from suite.errors import InvalidInput
from suite.site.token_texts import best_tokens, make_texts, parse_texts, texts_path
from suite.workload.render import render
from suite.workload.session import load_session
from suite.workload.tokenizer import load_tokenizer

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "workloads/netops-lab/session-7k.json"
TEMPLATE = ROOT / "workloads/netops-lab/chatml-tools.jinja"

pytestmark = pytest.mark.vllm


def test_the_command_makes_the_file_that_is_shipped(smollm2, tmp_path):
    arguments = ["site", "texts", SESSION, "--tokenizer", smollm2, "--chat-template", TEMPLATE]
    arguments += ["--results", ROOT / "results", "--out", tmp_path]
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    (made,) = tmp_path.iterdir()
    shipped, texts = (parse_texts(path.read_bytes(), where=path.name) for path in (texts_path(made.stem), made))
    assert (texts.token_ids, texts.token_texts) == (shipped.token_ids, shipped.token_texts)
    assert texts.tokenizer_sha256 == shipped.tokenizer_sha256
    # Later results add best tokens.
    assert shipped.others.items() <= texts.others.items()
    assert best_tokens(ROOT / "results", texts.tokens_sha256) <= texts.vocabulary().keys()


def test_a_private_session_gets_no_texts(smollm2):
    session = load_session(SESSION)
    rendered = render(session, smollm2, chat_template=TEMPLATE.read_text(encoding="utf-8"))
    private = session.model_copy(update={"licence": "private"})
    with pytest.raises(InvalidInput, match="private"):
        make_texts(private, rendered, load_tokenizer(smollm2), others=())
