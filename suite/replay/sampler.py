"""The sampler of the sampled answers: given by the user, else the session's own, else the model card's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from suite.errors import InvalidInput
from suite.replay.schema import Sampler
from suite.workload.session import SAMPLER_KEYS, Session

Source = Literal["session", "model", "user"]


def sampler_of(
    session: Session,
    generation_config: Mapping[str, Any] | None,
    *,
    temperature: float | None = None,
    top_p: float | None = None,
) -> Sampler:
    """The sampler for `session`.

    A session that was run greedily has no sampler of its own; then the model's `generation_config.json` counts, which
    is what its card recommends and what vLLM takes by default.

    Args:
        session: Its `sampling` counts where it has a temperature above 0.
        generation_config: Parsed; None where there is none.
        temperature: Given by the user; leaves nothing of the other two in force but what is given beside it.
        top_p: Likewise, only with a temperature.

    Raises:
        InvalidInput: none of the three samples, or one cannot be used.
    """
    if temperature is not None:
        return _sampler("user", {"temperature": temperature, "top_p": top_p}, where="--temperature, --top-p")
    if top_p is not None:
        raise InvalidInput("--top-p needs --temperature", where="--top-p")
    own = session.sampling.model_dump(exclude_none=True)
    if own.get("temperature"):
        return _sampler("session", {key: own[key] for key in SAMPLER_KEYS if key in own}, where=session.name)
    card = generation_config or {}
    if card.get("do_sample", True) and isinstance(card.get("temperature"), int | float) and card["temperature"] > 0:
        found = {key: card[key] for key in SAMPLER_KEYS if isinstance(card.get(key), int | float)}
        for key in found.keys() - {"top_k"}:
            found[key] = float(found[key])
        return _sampler("model", found, where="generation_config.json")
    raise InvalidInput(
        "neither the session nor the model's generation_config.json says how to sample",
        where="--samples",
        hint="give --temperature, or leave --samples out: the greedy answers need no sampler",
    )


def _sampler(source: Source, values: Mapping[str, Any], *, where: str) -> Sampler:
    try:
        return Sampler(source=source, **values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where=where) from error
