from typing import Any

import pytest

from suite.errors import InvalidInput
from suite.replay.sampler import sampler_of
from suite.workload.session import Sampling, Session
from tests.replay.sample import session

CARD = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": 2}


def of(**sampling: Any) -> Session:
    return session().model_copy(update={"sampling": Sampling(**sampling)})


def test_the_user_comes_first_then_the_session_then_the_card() -> None:
    warm = of(temperature=0.8, top_p=0.9, max_tokens=100, seed=3)
    assert sampler_of(warm, CARD, temperature=0.5).parameters() == {"temperature": 0.5}
    assert sampler_of(warm, CARD, temperature=0.5, top_p=0.7).parameters() == {"temperature": 0.5, "top_p": 0.7}
    assert sampler_of(warm, CARD).parameters() == {"temperature": 0.8, "top_p": 0.9}
    found = sampler_of(of(temperature=0.0), CARD)
    assert (found.source, found.parameters()) == ("model", {"temperature": 0.6, "top_k": 20, "top_p": 0.95})
    assert sampler_of(session(), {"temperature": 1}).temperature == 1.0


@pytest.mark.parametrize("card", [None, {}, {"do_sample": False, "temperature": 0.6}, {"temperature": 0}])
def test_where_nothing_says_how_to_sample_the_user_is_asked(card: dict[str, Any] | None) -> None:
    with pytest.raises(InvalidInput, match="says how to sample"):
        sampler_of(of(temperature=0.0), card)


@pytest.mark.parametrize("card", [{"temperature": 0.6, "top_p": 1.5}, {"temperature": 0.6, "repetition_penalty": -1}])
def test_a_sampler_that_no_engine_takes_is_named(card: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"top_p|repetition_penalty"):
        sampler_of(session(), card)
