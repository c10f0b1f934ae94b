"""Access tokens that their issuers mark with a prefix, key blocks, and hashes of passwords."""

# ruff: noqa: E501  one rule a line, and lists of words as words
from __future__ import annotations

from suite.workload.scrub.interface import Detector, pattern

_B = r"(?<![A-Za-z0-9_-])"
_E = r"(?![A-Za-z0-9_-])"

# kind, fixed beginning, what follows it
_ISSUED = (
    ("Anthropic key", r"sk-ant-[a-z0-9]{2,8}-", r"[A-Za-z0-9_-]{20,120}"),
    ("OpenAI key", r"sk-(?:proj-|svcacct-|admin-|or-v1-|None-)?", r"(?!ant-)[A-Za-z0-9_-]{16,200}"),
    ("Hugging Face token", r"(?:hf|api_org)_", r"[A-Za-z0-9]{16,60}"),
    ("GitHub token", r"gh[pousr]_", r"[A-Za-z0-9]{20,255}"),
    ("GitHub token", r"github_pat_", r"[A-Za-z0-9_]{20,255}"),
    ("GitLab token", r"gl(?:pat|ptt|dt|rt|cbt|soat)-", r"[A-Za-z0-9_-]{16,80}"),
    ("Slack token", r"xox[abeoprs]-", r"[A-Za-z0-9-]{10,200}"),
    ("Slack token", r"xapp-\d-", r"[A-Za-z0-9-]{10,200}"),
    ("AWS access key", r"(?:AKIA|ASIA|AROA|AIDA)", r"[A-Z0-9]{16}"),
    ("Google key", r"AIza", r"[A-Za-z0-9_-]{30,45}"),
    ("Google OAuth token", r"ya29\.", r"[A-Za-z0-9_-]{20,400}"),
    ("Google OAuth token", r"GOCSPX-", r"[A-Za-z0-9_-]{20,40}"),
    ("NVIDIA key", r"nvapi-", r"[A-Za-z0-9_-]{16,100}"),
    ("npm token", r"npm_", r"[A-Za-z0-9]{30,60}"),
    ("package index token", r"pypi-", r"[A-Za-z0-9_-]{30,300}"),
    ("Stripe key", r"(?:sk|rk|pk)_(?:live|test)_", r"[A-Za-z0-9]{16,120}"),
    ("Stripe key", r"whsec_", r"[A-Za-z0-9+/=]{16,60}"),
    ("SendGrid key", r"SG\.", r"[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}"),
    ("DigitalOcean token", r"do[opr]_v1_", r"[a-f0-9]{32,80}"),
    ("Databricks token", r"dapi", r"[a-f0-9]{32}(?:-\d)?"),
    ("Vault token", r"hv[sbr]\.", r"[A-Za-z0-9_-]{20,200}"),
    ("Grafana token", r"glsa_", r"[A-Za-z0-9]{20,40}_[a-f0-9]{8}"),
    ("model provider key", r"(?:gsk_|r8_|xai-|pplx-|fw_|tgp_v1_|csk-)", r"[A-Za-z0-9_-]{20,120}"),
    ("Shopify token", r"shp(?:at|ca|pa|ss)_", r"[a-fA-F0-9]{24,64}"),
    ("Twilio key", r"(?:SK|AC)", r"[a-f0-9]{32}"),
    ("Linear key", r"lin_api_", r"[A-Za-z0-9]{30,60}"),
    ("Notion token", r"(?:ntn_|secret_)", r"[A-Za-z0-9]{40,60}"),
    ("Telegram bot token", r"", r"\d{8,10}:AA[A-Za-z0-9_-]{32,35}"),
    ("age key", r"AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    ("Mailgun key", r"key-", r"[a-f0-9]{32}"),
)

ISSUED: tuple[Detector, ...] = tuple(
    pattern(kind, rf"{_B}{begin}(?P<v>{rest}){_E}", "hex" if rest.startswith("[a-f0-9]") else "text")
    for kind, begin, rest in _ISSUED
)

_BLOCK_LINES = r"(?P<v>[A-Za-z0-9+/=\s,:.-]{16,20000}?)"

OTHERS: tuple[Detector, ...] = (
    pattern("JSON web token", rf"{_B}eyJ(?P<v>[A-Za-z0-9_-]{{8,4000}}\.[A-Za-z0-9_-]{{4,8000}}(?:\.[A-Za-z0-9_-]{{0,2000}})?)"),
    pattern("private key", rf"-----BEGIN (?:[A-Z0-9]{{1,20}} ){{0,3}}PRIVATE KEY(?: BLOCK)?-----{_BLOCK_LINES}(?=-----|\Z)"),
    pattern("private key", r"PuTTY-User-Key-File-\d[^\n]{0,80}\n(?:[^\n]{0,200}\n){0,6}Private-Lines: \d{1,4}\n(?P<v>[A-Za-z0-9+/=\s]{16,20000})"),
    pattern("SSH public key", r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}) AAAA(?P<v>[A-Za-z0-9+/]{24,1200}={0,2})"),
    pattern("WireGuard key", r"(?i)\b(?:PrivateKey|PresharedKey|PublicKey|private-key|preshared-key)\s?[=:]\s?(?P<v>[A-Za-z0-9+/]{42,43}=)"),
    pattern("password hash", r"(?<![A-Za-z0-9])\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:i|d|id)|8|9|14)\$(?P<v>[A-Za-z0-9./+,=$]{12,200})"),
    pattern("password hash", r"\bpbkdf2_sha\d{1,3}\$\d{1,8}\$(?P<v>[A-Za-z0-9./+=$]{16,200})"),
    pattern("webhook", r"https://hooks\.slack\.com/(?:services|workflows)/(?P<v>[A-Za-z0-9/_-]{20,120})"),
    pattern("webhook", r"https://(?:[a-z]{1,10}\.)?discord(?:app)?\.com/api/webhooks/(?P<v>\d{10,25}/[A-Za-z0-9_-]{20,100})"),
    pattern("webhook", r"https://[a-z0-9-]{1,60}\.webhook\.office\.com/(?P<v>[A-Za-z0-9/@_-]{20,300})"),
)  # fmt: skip

DETECTORS: tuple[Detector, ...] = (*ISSUED, *OTHERS)
