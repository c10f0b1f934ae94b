"""What is looked for in a card's statements, one pattern for each thing that may be said."""

from __future__ import annotations

import re

from suite.card.words import POSITIONS

HEX = r"[0-9a-f]"
COMMIT = re.compile(rf"(?<![\w:]){HEX}{{40}}(?!\w)")
SHA256 = re.compile(rf"(?<!\w){HEX}{{64}}(?!\w)")
SHORT = re.compile(rf"(?:@|\b(?:revision|commit|rev|tree|blob)\b[^\w]{{0,4}})((?=[0-9a-f]*\d){HEX}{{7,39}})(?!\w)")
ANY_HASH = re.compile(rf"(?<!\w)(?:(?:sha256|md5|sha1|blake3|xxh64)[:= ]*)?({HEX}{{64}}|{HEX}{{40}}|{HEX}{{32}})(?!\w)")
SHORT_HASH = re.compile(rf"\b(?:sha-?256|md5|sha1|blake3)[:=` ]+({HEX}{{6,}})", re.IGNORECASE)
IMAGE = re.compile(r"\bimages?\b|docker|container|podman|vllm-openai|ghcr\.io|Abbild|conteneur|镜像", re.IGNORECASE)
DIGEST = re.compile(rf"sha256:({HEX}{{64}})(?!\w)")
CUT_DIGEST = re.compile(rf"sha256:({HEX}{{6,63}})(?!\w)")
TAG = re.compile(r"\b([\w.-]+/[\w./-]*vllm[\w./-]*|vllm/[\w.-]+):([\w][\w.-]*)", re.IGNORECASE)
NO_IMAGE = re.compile(
    r"\b(?:no|without an?|not in an?) (?:container|docker)?\s?(?:image|container)|\bbare metal\b"
    r"|\boutside (?:of )?(?:a )?containers?\b",
    re.IGNORECASE,
)
REPOSITORY = re.compile(r"(?<![\w/.@])([A-Za-z0-9][\w.-]{1,60}/[A-Za-z0-9][\w.-]{1,95})(?![\w/])")
DTYPE = re.compile(
    r"(?<![A-Za-z0-9])(BF16|bfloat16|FP16|F16|float16|half[- ]precision|FP32|F32|float32|FP8(?:[-_]?E[45]M[23])?"
    r"|INT8|Q8_0|Q\d_\w+)"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE,
)
DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "f16": "fp16",
    "half-precision": "fp16",
    "half precision": "fp16",
    "float32": "fp32",
    "f32": "fp32",
}
AGAINST = re.compile(
    r"(?:\bvs\.?|\bversus|\bagainst(?: the)?|\bcompared (?:to|with)(?: the)?|\brelative to(?: the)?|\bover the"
    r"|\bfrom the|\bgegen(?:über)?"
    r"(?: dem| der)?|\bpar rapport (?:au|à)|\bfrente a|\brespecto a|相对(?:于)?|对比|与)"
    rf"\s*(?:original |full |unquanti[sz]ed )?[\w/.-]{{0,60}}?\s*({DTYPE.pattern})",
    re.IGNORECASE,
)
WEIGHTS = re.compile(
    r"(?<![A-Za-z0-9])(AWQ|GPTQ|NVFP4|MXFP4|W4A16|W8A8|W8A16|W4A4|W4A8|INT4|EXL[23]|AutoRound|HQQ|(?:I?Q"
    r"|TQ)\d_\w+|GGUF)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
BACKEND = re.compile(
    r"\b(TRITON_ATTN|FLASH_?ATTN(?:_VLLM_V1)?|FLASHINFER|FLEX_ATTENTION|XFORMERS|TORCH_SDPA|SDPA|CPU_ATTN"
    r"|ROCM_\w*ATTN|\w*FLASHMLA|CUTLASS_MLA"
    r"|Flash[- ]?Attention(?:[- ]?\d)?|FlexAttention|FlashInfer|FA[234]|Triton attention|eager attention)\b",
    re.IGNORECASE,
)
BACKEND_LABEL = re.compile(
    r"attention(?:[ -]?(?:backend|kernel|implementation))|\bbackend\b|注意力(?:后端)?|Attention-Backend", re.IGNORECASE
)
KV_WORD = r"KV(?:[- ]?cache)?(?:[- ]?d?types?)?"
KV_VALUE = (
    r"(BF16|bfloat16|FP16|F16|float16|FP8(?:[-_ ]?\(?E[45]M[23]\)?)?|INT8(?:[-_ ]per[-_ ]token[-_ ]head)?"
    r"|INT4(?:[-_ ]per[-_ ]token[-_ ]head)?"
    r"|NVFP4|Q[458]_[01]|TURBOQUANT\w*|auto)(?![A-Za-z0-9])"
)
KV_AFTER = re.compile(
    rf"\b{KV_WORD}\W{{0,4}}(?:(?:is|was|in|at|of|type|dtype|stays|kept|effective|also|as"
    rf"|:)\W{{1,2}}){{0,3}}{KV_VALUE}",
    re.IGNORECASE,
)
KV_BEFORE = re.compile(rf"(?<![A-Za-z0-9]){KV_VALUE}[- ]{KV_WORD}", re.IGNORECASE)
KV_LABEL = re.compile(
    r"\bKV\b|\bkv[ _-]?cache|--kv-cache-dtype|-ctk\b|--cache-type-k|KV-?(?:缓存|キャッシュ)", re.IGNORECASE
)
KV_FLAG = re.compile(rf"(?:--kv-cache-dtype|-ctk|--cache-type-k)[= ]+{KV_VALUE}", re.IGNORECASE)
TP = re.compile(
    r"(?:\bTP|\btensor[- _]parallel(?:ism)?(?:[- _]size)?|-tp)(?:\s?(?:[=:]|of|size)?\s?)(\d{1,3})\b", re.IGNORECASE
)
TP_LABEL = re.compile(r"^(?:.*\b)?(?:TP|tensor[- _]parallel\w*)\b", re.IGNORECASE)
ONE_GPU = re.compile(
    r"\b(?:single|one|1)[- ](?:GPU|card)\b|\bno tensor parallelism\b|\beine[rn]? GPU\b|\bun seul GPU\b|单卡",
    re.IGNORECASE,
)
REF_WORD = (
    r"(?:P|ref(?:erence)?|base(?:line)?|bf16|fp16|orig(?:inal)?|teacher|full|target|Referenz|référence|p_?ref|参考)"
)
CAND_WORD = r"(?:Q|cand(?:idate)?|quant(?:i[sz]ed)?|student|model|test|this|Kandidat|candidat|p_?cand|量化)"
BETWEEN = r"\s*(?:\|\||‖|∥|\\\|\||\||→|->|;|,)\s*"
FORWARD = re.compile(
    rf"\(\s*{REF_WORD}(?:[ _][\w.-]+)?{BETWEEN}{CAND_WORD}\b|\bforward KL|ref(?:erence)?\s*(?:\|\||‖|∥)\s*cand",
    re.IGNORECASE,
)
BACKWARD = re.compile(
    rf"\(\s*{CAND_WORD}(?:[ _][\w.-]+)?{BETWEEN}{REF_WORD}\b|\breverse KL|cand(?:idate)?\s*(?:\|\||‖|∥)\s*ref",
    re.IGNORECASE,
)
LETTERS = re.compile(r"\(\s*[PQ]\s*(?:\|\||‖|∥|\|)\s*[PQ]", re.IGNORECASE)
DIRECTION_WORDS = re.compile(
    r"\bfrom (?:the )?(?:reference|BF16|base\w*|original)[\w ]{0,20} to (?:the )?(?:candidate|quant\w*)"
    r"|expectation under (?:the )?reference",
    re.IGNORECASE,
)
TEXT = re.compile(
    r"\btext\b|\bcorpus\b|\bdata ?set\b|\bprompts?\b|\btokens?\b|\bworkload\b|\bsession\b|\btranscript\b|wiki\."
    r"|wikitext|\bc4\b|\bTexte?\b"
    r"|Datensatz|corpus|jeu de données|texto|数据集|文本",
    re.IGNORECASE,
)
TEXT_NAME = re.compile(
    r"wiki[-. ]?text[-\w]*|wiki\.\w+\.raw|\bC4\b|\bPile\b|ultrachat|red ?pajama|fineweb", re.IGNORECASE
)
NOT_TEXT = re.compile(
    r"tokeni[sz]er|template|image|weight|model file|checkpoint|gguf|sampler|Tokenisierer", re.IGNORECASE
)
STRIDE = (
    re.compile(r"\bstrid(?:e|ed)\b\W{0,3}(?:of |is |was |= ?|: ?)?(\d+)", re.IGNORECASE),
    re.compile(
        rf"\b(?:every|each|jede[rsnm]?|chaque|cada)\s+(\d+)(?:st|nd|rd|th|\.|e|º)?\s+(?:\w+[ -]){{0,2}}?{POSITIONS}",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?:per|every|tous les|alle|each)\s+(\d+)\s+(?:\w+[ -]){{0,2}}?{POSITIONS}", re.IGNORECASE),
    re.compile(r"每\s?(?:隔\s?)?(\d+)\s?个?"),
)
EVERY = re.compile(
    rf"\b(?:every|each|all|jede[rsnm]?|alle|chaque|tous les|toutes les|cada"
    rf"|todas las)\s+(?:single\s+)?(?:[A-Za-z]+[ -])?{POSITIONS}\b"
    r"|100 ?% (?:capture|of (?:the )?positions)|逐(?:个)?\s?(?:token|词元)|所有(?:位置|token)",
    re.IGNORECASE,
)
SPANS = re.compile(
    r"\b(?:prompt|assistant|generated|completion|output|response|tool[- ](?:call|result)s?|user"
    r"|system) (?:\w+ )?(?:tokens?|outputs?|turns?|positions?|text|spans?)"
    r"|\bassistant outputs?\b|\btool calls?\b|\b(?:whole|entire|full) (?:recorded )?(?:session|prompt|text"
    r"|sequence|document)"
    r"|\b(?:second|last|first) half\b|\bspans?\b\W+\w|\branges?\b\W+\w|\bwindows? of\b"
    r"|\bpositions? \d[\d,.]*\s?(?:-|–|to)\s?\d"
    r"|\bof the (?:prompt|session|text)\b|\bdes Prompts\b|\bder Sitzung\b|Ausgaben? des Assistenten"
    r"|ganze[rn]? (?:Sitzung|Text|Prompt)|sortie de l'assistant"
    r"|salida del asistente|整个|助手(?:输出)?",
    re.IGNORECASE,
)
SPANS_LABEL = re.compile(r"\bspans?\b|\branges?\b|\bpositions? (?:kind|from)|\bpopulation\b", re.IGNORECASE)
CONTEXT = (
    re.compile(
        r"(?:\bcontexts?\b(?:[- ](?:length|window|size))?|\bn_ctx|\bctx(?:[-_ ]?size)?|--ctx-size|-c"
        r"|\bmax[-_ ]model[-_ ]len|--max-model-len"
        r"|\bseq(?:uence)?[-_ ]len(?:gth)?|Kontext(?:länge)?|longueur de contexte|contexte|contexto|上下文(?:长度)?)"
        r"\W{0,4}(?:of |is |was |von |de |: ?|= ?)?(?=\d)",
        re.IGNORECASE,
    ),
    re.compile(
        r"\d[\d,. ]{0,14}[kK]?[- ]?(?:tokens?|Token|jetons)?(?:[- ]long)?[- ](?:of )?(?:context|ctx|prompt"
        r"|session|sequence|Kontext|contexte|chunks?)\b",
        re.IGNORECASE,
    ),
)
CONTEXT_LABEL = re.compile(
    r"\bcontext|\bn ctx\b|\bctx\b|max model len|sequence length|prompt length|Kontext|contexte|上下文", re.IGNORECASE
)
VOCABULARY = (
    re.compile(
        r"(?:\bvocab(?:ulary)?(?:[-_ ]?size)?|\bn_vocab|\bV|Vokabular|vocabulaire|vocabulario"
        r"|词表(?:大小)?)\W{0,4}(?:of |is |with |von |de |size |: ?|= ?)?(?=\d)"
    ),
    re.compile(r"\d[\d,. ]{0,14}[- ](?:entry|entries|token|word|logits?|Einträge)?[- ]?(?:of )?vocab", re.IGNORECASE),
)
VOCABULARY_LABEL = re.compile(r"\bvocab|\bVokabular|vocabulaire|词表", re.IGNORECASE)
TRUNCATION = re.compile(
    r"\b(?:full|whole|entire|complete)[- ]vocab|\btruncat|\buntruncated|\bpadding (?:is |was )?(?:cut|removed"
    r"|excluded|masked)|\btop[- ]?\d{1,5} (?:logits|logprobs|log[- ]probs)"
    r"|\btop[- _]?k\W{0,3}\d+ (?:logits|logprobs)|(?:volle[sn]?|ganze[sn]?|gesamte[sn]?) Vokabular"
    r"|vocabulaire (?:complet|entier)|vocabulario completo|全词表|完整词表",
    re.IGNORECASE,
)
AGGREGATION = re.compile(
    r"\b(?:averaged?|mean|median|summed|aggregat\w+|pooled|token[- ]weighted)\b[^.]{0,40}\b(?:over|across|of"
    r"|per)\b|\baggregation\b|gemittelt|Mittel(?:wert)? über|moyenne sur"
    r"|promedio (?:sobre|de)|平均",
    re.IGNORECASE,
)
EXCLUDED = re.compile(
    r"\bexclud\w+|\bdropped\b|\bdiscard\w*|\bskipped\b|\bNaN\b|\bnon[- ]finite\b|\binvalid[ _]rows?\b"
    r"|\bno (?:rows?|positions?) (?:was |were )?(?:removed|left out)"
    r"|\bleft out\b|ausgeschlossen|\bexclue?s?\b|excluid\w+|剔除|排除",
    re.IGNORECASE,
)
CALIBRATION = re.compile(
    r"calibrat\w*|kalibri\w*|étalonn\w*|calibrad\w*|校准|\bdata[- ]free\b|round[- ]to[- ]nearest|\bRTN\b|\bimatrix\b",
    re.IGNORECASE,
)
FLOOR = re.compile(
    r"\b(?:repeat|noise|self)[- ]?floor|\brepeatab\w+|\brun[- ]to[- ]run|\bagainst itself|\bbit[- ](?:identical"
    r"|exact)|\bbit[- ]for[- ]bit|\bfresh (?:starts?|containers?|processes)"
    r"|\bdeterminis\w+|\bnumerical band|\breference vs\.? reference|Wiederhol\w+|Rauschboden|répétab\w+"
    r"|bruit de fond|噪声(?:基线|下限)|重复",
    re.IGNORECASE,
)
STORED = re.compile(
    r"\b(?:logits?|rows?|log-?prob\w*|base file|hidden states?|Logits)\b|\bstor(?:ed|age)|\bcaptur\w+"
    r"|gespeichert|stocké",
    re.IGNORECASE,
)
PRECISION = re.compile(
    r"\b(?:BF16|bfloat16|FP16|float16|FP32|float32|FP64|float64|uint16|(?:8|16|32|64)[- ]bit)\b", re.IGNORECASE
)
TEMPLATE = re.compile(r"\btemplate|Vorlage|chat[-_ ]format|模板|gabarit|plantilla", re.IGNORECASE)
NO_TEMPLATE = re.compile(
    r"\b(?:no|without (?:an?y? )?)\s?(?:chat )?template|\braw text\b|template\W{1,4}(?:none|not used|n/a|keine"
    r"|aucun)|ohne (?:Chat-)?(?:Template|Vorlage)",
    re.IGNORECASE,
)
TOKENIZER = re.compile(r"\btokeni[sz]er|Tokenisierer|tokeniseur|分词器", re.IGNORECASE)
SAMPLER = re.compile(
    r"\bgreedy\b|\bteacher[- ]forc\w+|\b(?:token )?history forced|\bforced (?:tokens?|history|decod\w+)"
    r"|\bno sampl(?:ing|er)|\btemperature\W{0,4}\d[\d.]*|\bsampler\b[^.]{0,40}\b[0-9a-f]{12,}"
    r"|\bnothing is sampled|\bT ?= ?0\b|贪心|贪婪",
    re.IGNORECASE,
)
MTP = re.compile(
    r"\bMTP\b|\bspeculati\w+|\bspec[- ]?dec\w*|\bdraft (?:model|tokens?)|\bEAGLE\b|\bspekulati\w+|\bspéculati\w+|投机",
    re.IGNORECASE,
)
PREFIX = re.compile(r"\bprefix[-_ ]?cach\w*|\bAPC\b|Präfix-?Cache|cache de préfixe|前缀缓存", re.IGNORECASE)
GRAPHS = re.compile(
    r"\bcuda[-_ ]?graphs?\b|\bcudagraph\w*|\beager\b(?! attention)|\benforce[-_]eager|\bgraph(?:s)? (?:capture"
    r"|off|on|replay)|CUDA ?图",
    re.IGNORECASE,
)
