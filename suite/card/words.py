"""The words by which cards speak of divergences, in the languages in which most cards are written."""

from __future__ import annotations

import re
from typing import Literal

Metric = Literal["kl", "jsd", "total variation", "flips", "top-1 agreement", "perplexity change", "probability change"]
Statistic = Literal["mean", "median", "quantile", "max", "sum", "count", "unstated"]
Side = Literal["reference", "candidate"]


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)


METRICS: tuple[tuple[Metric, re.Pattern[str]], ...] = (
    (
        "kl",
        _any(
            r"\bD?_?\(?KL\)?[- _]?div(?:ergence|ergenz|ergencia)?\b",
            r"\b(?:divergence|divergencia|dist(?:ance)?)[ _-](?:de )?(?:KL|Kullback)",
            r"\b[mM]?KLDs?\b",
            r"(?<![A-Za-z])(?:D[_ ]?)?KL(?![A-Za-z])",
            r"Kullback[-– ]?Leibler",
            r"\bkl_[a-z_]+",
            r"KL\s?(?:散度|ダイバージェンス|발산)",
            r"相对熵",
        ),
    ),
    ("jsd", _any(r"Jensen[-– ]?Shannon", r"\bJSD\b", r"\bJS[- ]div")),
    ("total variation", _any(r"\btotal[ _-]variation", r"\bTV distance", r"Totalvariation")),
    (
        "flips",
        _any(
            r"\b(?:token[ -])?flips?(?:[ _-]?rate)?\b",
            r"\bflipped\b",
            r"\btop[- _]?1[- _](?:token )?(?:changes?|disagree\w*|mismatch\w*|differences?|Abweichung\w*)",
            r"\b(?:token|argmax)[ -](?:mismatch\w*|disagree\w*|changes)",
            r"翻转",
        ),
    ),
    (
        "top-1 agreement",
        _any(
            r"\bsame[ _-]top(?:[ _-]?1|[ _-]?p|[ _-]token)?\b",
            r"\btop[- _]?1[- _](?:token[- _])?(?:agree\w*|match\w*|same|identical|consisten\w*|Übereinstimmung"
            r"|accord)",
            r"\b(?:token|argmax|greedy)[- _](?:token[- _])?(?:agree\w*|match(?:es|ing)?(?: rate)?)\b",
            r"\bagreement\b",
            r"Übereinstimmung",
            r"top-?1\s?(?:一致率|一致)",
        ),
    ),
    (
        "perplexity change",
        _any(
            r"(?:Δ|\bdelta[ _-]?|\bd)(?:ln\()?PPL\b",
            r"\bPPL\(Q\)\s?[/-]\s?PPL\(base\)",
            r"\b(?:PPL|perplexity)[ _-](?:ratio|delta|diff(?:erence)?|increase|change|loss|degradation)\b",
        ),
    ),
    ("probability change", _any(r"(?:\bmean |\bRMS |\bmax(?:imum)? )?Δ\s?p\b", r"\bdelta[ _-]p\b")),
)

STATISTICS: tuple[tuple[Statistic, re.Pattern[str]], ...] = (
    ("median", _any(r"\bmedian\w*", r"\bp50\b", r"中位数", r"médiane", r"\bmediana\b")),
    (
        "quantile",
        _any(
            r"\bp_?9\d(?:[._]?9+)?\b",
            r"\b(?:90|99(?:[.,]9+|\.0)?)\s?(?:th\b|%)",
            r"\bq9\d",
            r"quantil\w*|percentil\w*|分位",
        ),
    ),
    ("max", _any(r"\bmax(?:imum|imal\w*)?\b", r"最大", r"\bmáximo\b", r"\bworst\b")),
    (
        "mean",
        _any(
            r"\b(?:arithmetic )?mean\b",
            r"\bmKLD\b",
            r"\bavg\b",
            r"\baverag\w+",
            r"\bmittel\w*|\bmittler\w*",
            r"\bmoyenn\w*",
            r"\bmedia\b|\bpromedio\b",
            r"平均",
            r"_mean\b",
            "Ø",
        ),
    ),
    ("sum", _any(r"\bsum(?:med)?\b", r"\btotal KL")),
)

POSITIONS = (
    r"(?:next-token )?(?:positions?|tokens?|probes?|samples?|predictions?|rows?|logit rows?|Positionen|Tokens?"
    r"|Vorhersagen|jetons|posiciones|muestras|个?(?:位置|词元|token)|トークン)"
)
REFERENCE = _any(
    r"\breferences?\b",
    r"\bref\b",
    r"\bbase(?:line)?(?:[ _]model)?\b",
    r"\boriginal\b",
    r"\b(?:un|non-)quanti[sz]ed\b",
    r"\bfull[- ]precision\b",
    r"\bReferenz\w*",
    r"\bréférence\b",
    r"\breferencia\b",
    r"参考|基准|基線|参照",
    r"\bteacher\b",
)
CANDIDATE = _any(
    r"\bcandidates?\b",
    r"\bcand\b",
    r"\bquant(?:i[sz]ed)?(?:[ _]model)?s?\b",
    r"\bthis (?:model|repo(?:sitory)?|checkpoint|quant)\b",
    r"\bKandidat\w*",
    r"\bquantisiert\w*",
    r"\bquantifié\w*",
    r"\bcandidat\w*",
    r"量化",
    r"\bstudent\b",
)
MEASURING = _any(
    r"\bKLD?\b|diverg|fidelity|flips?\b|agreement|perplex",
    r"\bmethod|\beval|\bmeasur|\bbench|\bresult|\bquality\b|\baccuracy\b|\bsetup\b|\bstack\b|\breproduc|\bprovenance",
    r"\bconfig|\benvironment|\bdetails?\b|\bcompar|\btest",
    r"Method|Messung|Auswert|Ergebnis|Vergleich|Mess|méthode|mesure|évaluation|résultat|evaluaci|resultado|medici",
    r"评[测估]|方法|结果|測定|評価|測試",
)
USING = _any(
    r"\busage\b|\buse\b|\bhow to (?:use|run)|\bquick ?start|\blaunch|\bserv(?:e|ing)\b|\bdeploy|\brun(?:ning)?\b",
    r"\binstall",
    r"Verwendung|Nutzung|utilisation|\buso\b|使用|部署|利用",
)


def side_before(text: str, position: int) -> Side | None:
    """The side that is named last before `position`; None where none is."""
    ends: dict[Side, int] = {}
    patterns: tuple[tuple[Side, re.Pattern[str]], ...] = (("reference", REFERENCE), ("candidate", CANDIDATE))
    for side, pattern in patterns:
        for match in pattern.finditer(text, 0, position):
            ends[side] = match.end()
    return max(ends.items(), key=lambda item: item[1])[0] if ends else None


def statistic_of(text: str) -> Statistic:
    """The statistic that a text names last; `unstated` where it names none."""
    best: tuple[int, Statistic] = (-1, "unstated")
    for statistic, pattern in STATISTICS:
        for match in pattern.finditer(text):
            best = max(best, (match.start(), statistic))
    return best[1]
