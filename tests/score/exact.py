"""The metrics again, in 60-digit decimals and straight from their definitions: an oracle that shares no code."""

from decimal import Decimal, localcontext

import numpy as np

MANTISSA_BITS = {"bfloat16": 7, "float16": 10, "float32": 23}


def softmax(logits) -> list[Decimal]:
    exact = [Decimal(float(z)) for z in logits]
    powers = [(z - max(exact)).exp() for z in exact]
    return [power / sum(powers) for power in powers]


def kl(p: list[Decimal], q: list[Decimal]) -> Decimal:
    return sum((a * (a / b).ln() for a, b in zip(p, q, strict=True)), Decimal(0))


def exact_scores(reference, candidate, target: int, dtype: str = "float32") -> dict[str, float]:
    """Scores of one pair of rows of plain numbers, both of which are representable in `dtype`."""
    with localcontext() as context:
        context.prec = 60
        p, q = softmax(reference), softmax(candidate)
        middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        spacing = [
            [Decimal(2) ** (int(np.floor(np.log2(abs(z)))) - MANTISSA_BITS[dtype]) for z in side]
            for side in (reference, candidate)
        ]
        variance = [sum(a * (1 - a) * u * u / 12 for a, u in zip(p, side, strict=True)) for side in spacing]
        ours, theirs = list(reference).index(max(reference)), list(candidate).index(max(candidate))
        first, second = sorted(reference, reverse=True)[:2]
        order = sorted(range(len(candidate)), key=lambda i: (-candidate[i], i))
        scores = {
            "ref_top1": ours,
            "cand_top1": theirs,
            "flip": ours != theirs,
            "ref_p_ref_top1": p[ours],
            "ref_p_cand_top1": p[theirs],
            "cand_p_ref_top1": q[ours],
            "cand_p_cand_top1": q[theirs],
            "ref_margin_nats": first - second,
            "ref_margin_ulps": Decimal(float(first - second)) / spacing[0][ours],
            "cand_margin_nats": np.subtract(*sorted(candidate, reverse=True)[:2]),
            "rank_ref_top1_in_cand": 1 + order.index(ours),
            "kl_ref_cand": kl(p, q),
            "kl_cand_ref": kl(q, p),
            "jsd": (kl(p, middle) + kl(q, middle)) / 2,
            "total_variation": sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2,
            "entropy_ref": -sum(a * a.ln() for a in p),
            "entropy_cand": -sum(b * b.ln() for b in q),
            "nll_ref": -p[target].ln(),
            "nll_cand": -q[target].ln(),
            "rounding_kl": sum(variance) / 2,
        }
        return {name: float(value) for name, value in scores.items()}
