"""A labelled set: secrets that a seeded generator makes up, planted into the places where agents meet them.

No value is real, and none stands in this file, so that no scanner of repositories mistakes it for a leak. Every value is
planted once in its text; part of the texts is then encoded, as tool arguments and results often are.
"""

# ruff: noqa: E501  one kind a line
from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

SEED = 20_260
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


@dataclass(frozen=True)
class Plant:
    """One secret in one text."""

    kind: str
    value: str
    """What must not be found in the scrubbed text, in any reading of it."""
    text: str
    form: str
    """How it was written: `plain`, `json`, `json2`, `base64`, `url`."""


def _some(random_: random.Random, alphabet: str, length: int) -> str:
    return "".join(random_.choice(alphabet) for _ in range(length))


def _mixed(r: random.Random, length: int) -> str:
    """Letters and digits with at least one of each, as key generators give them."""
    return (
        r.choice(string.ascii_lowercase)
        + r.choice(string.digits)
        + _some(r, ALNUM, length - 3)
        + r.choice(string.ascii_uppercase)
    )


def _password(r: random.Random) -> str:
    word = "".join(r.choice("bdfgklmnprstvz") + r.choice("aeiou") for _ in range(3)).capitalize()
    return f"{word}{r.choice('-_.#%+')}{r.randrange(100, 9999)}{r.choice(['', '!', 'x', 'Q'])}"


def _name(r: random.Random) -> str:
    return "".join(r.choice("bdfgjklmnprstvwz") + r.choice("aeiou") for _ in range(r.choice([3, 4])))


def _host(r: random.Random) -> str:
    return f"{_name(r)}-{r.choice(['fw', 'sw', 'srv', 'esx', 'nas'])}{r.randrange(1, 99):02}"


def _domain(r: random.Random) -> str:
    return f"{_name(r)}{_name(r)}.{r.choice(['com', 'net', 'de', 'org', 'local', 'internal', 'corp', 'co.uk'])}"


def _b64(r: random.Random, length: int) -> str:
    return base64.b64encode(r.randbytes(length)).decode()


def _jwt(r: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    signature = base64.urlsafe_b64encode(r.randbytes(32)).decode().rstrip("=")
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': _name(r), 'iat': r.randrange(10**9)})}.{signature}"


def _key_block(r: random.Random, name: str) -> str:
    lines = [_b64(r, 48) for _ in range(r.choice([3, 12]))]
    return "\n".join([f"-----BEGIN {name}PRIVATE KEY-----", *lines, _b64(r, 20), f"-----END {name}PRIVATE KEY-----"])


def _ipv4(r: random.Random) -> str:
    while True:
        first = r.choice([10, 172, 192, r.randrange(11, 223)])
        second = {172: r.randrange(16, 32), 192: 168}.get(first, r.randrange(0, 256))
        if first not in (100, 127, 169, 198, 203):
            return f"{first}.{second}.{r.randrange(1, 255)}.{r.randrange(1, 255)}"


def _ipv6(r: random.Random) -> str:
    groups = [f"{r.randrange(4096, 65536):x}" for _ in range(7)]
    return r.choice(
        [
            f"2a0{r.randrange(1, 9)}:" + ":".join(groups),
            f"fe80::{':'.join(groups[:4])}",
            f"2001:{groups[0]}:{groups[1]}::{groups[2]}",
            f"fd{groups[0][:2]}:{groups[1]}:{groups[2]}::1{groups[3][:2]}",
        ]
    )


def _mac(r: random.Random) -> str:
    digits = "02" + _some(r, HEX, 10)
    pairs = [digits[i : i + 2] for i in range(0, 12, 2)]
    return r.choice([":".join(pairs), "-".join(pairs).upper(), ".".join(digits[i : i + 4] for i in (0, 4, 8))])


def _card(r: random.Random) -> str:
    digits = [4, *(r.randrange(10) for _ in range(14))]
    doubled = [d if i % 2 else (2 * d - 9 if d > 4 else 2 * d) for i, d in enumerate(digits)]
    digits.append(-sum(doubled) % 10)
    text = "".join(map(str, digits))
    return r.choice([text, " ".join(text[i : i + 4] for i in (0, 4, 8, 12))])


def _phone(r: random.Random) -> str:
    d = [r.randrange(2, 10) for _ in range(12)]
    s = "".join(map(str, d))
    return r.choice(
        [
            f"+49 {s[:3]} {s[3:10]}",
            f"+1 ({s[:3]}) {s[3:6]}-{s[6:10]}",
            f"({s[:3]}) {s[3:6]}-{s[6:10]}",
            f"+44{s[:10]}",
            f"{s[:3]}-{s[3:6]}-{s[6:10]}",
        ]
    )


def _serial(r: random.Random) -> str:
    return r.choice(
        [
            _some(r, string.ascii_uppercase, 3)
            + str(r.randrange(1000, 9999))
            + _some(r, string.ascii_uppercase + string.digits, 4),
            _some(r, string.ascii_uppercase + string.digits, 6) + str(r.randrange(10)),
            f"CZ{r.randrange(10**7, 10**8)}",
        ]
    )


Maker = Callable[[random.Random], str]

KINDS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "OpenAI key": (lambda r: "sk-proj-" + _mixed(r, 48), ("export OPENAI_API_KEY={}", 'client = OpenAI(api_key="{}")', "key {} works")),
    "Anthropic key": (lambda r: "sk-ant-api03-" + _mixed(r, 60), ("ANTHROPIC_API_KEY: {}", "using {} now")),
    "Hugging Face token": (lambda r: "hf_" + _mixed(r, 34), ("hf auth login --token {}", "HF_TOKEN={}", "found {} in the cache")),
    "GitHub token": (lambda r: r.choice(["ghp_", "gho_", "ghs_"]) + _mixed(r, 36), ("git clone https://{}@github.com/acme/x.git", "token {}", "GH_TOKEN={}")),
    "GitLab token": (lambda r: "glpat-" + _mixed(r, 20), ("PRIVATE-TOKEN: {}", "glab auth login -t {}")),
    "Slack token": (lambda r: f"xoxb-{r.randrange(10**11, 10**12)}-{_mixed(r, 24)}", ("SLACK_BOT_TOKEN={}", "posting with {}")),
    "AWS access key": (lambda r: "AKIA" + _some(r, string.ascii_uppercase + string.digits, 16), ("aws_access_key_id = {}", "Credential={}/20260101/eu-west-1/s3")),
    "AWS secret key": (lambda r: _mixed(r, 40), ("aws_secret_access_key = {}", '"SecretAccessKey": "{}"', "AWS_SECRET_ACCESS_KEY={}")),
    "Google key": (lambda r: "AIza" + _mixed(r, 35), ("maps?key={}&v=3", "GOOGLE_API_KEY={}")),
    "NVIDIA key": (lambda r: "nvapi-" + _mixed(r, 60), ("NGC_API_KEY={}", "docker login nvcr.io -u '$oauthtoken' -p {}")),
    "Stripe key": (lambda r: "sk_live_" + _mixed(r, 24), ("stripe.api_key = '{}'", "STRIPE={}")),
    "npm token": (lambda r: "npm_" + _mixed(r, 36), ("//registry/:_authToken={}", "NPM_TOKEN={}")),
    "Telegram bot token": (lambda r: f"{r.randrange(10**8, 10**9)}:AA{_mixed(r, 33)}", ("https://api.telegram.org/bot{}/getMe", "bot token {}")),
    "JSON web token": (_jwt, ("Authorization: Bearer {}", "id_token={}", "kubeconfig token: {}")),
    "private key": (lambda r: _key_block(r, r.choice(["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "])), ("cat id_rsa\n{}\n", "tls.key: |\n{}")),
    "SSH public key": (lambda r: "AAAAC3NzaC1lZDI1NTE5AAAAI" + _mixed(r, 43), ("ssh-ed25519 {} laptop", "authorized_keys: ssh-ed25519 {}")),
    "WireGuard key": (lambda r: _b64(r, 32), ("[Interface]\nPrivateKey = {}\n", "PresharedKey={}")),
    "password hash": (lambda r: f"$6${_some(r, ALNUM, 12)}${_some(r, ALNUM + './', 86)}", ("deploy:{}:19700:0:99999:7:::", "hash is {}")),
    "bearer": (lambda r: _mixed(r, 40), ("curl -H 'Authorization: Bearer {}' http://localhost/", "authorization: Bearer {}")),
    "basic": (lambda r: _password(r), ()),
    "cookie": (lambda r: _mixed(r, 32), ("Cookie: theme=dark; sessionid={}; lang=en", "Set-Cookie: SID={}; Path=/; HttpOnly", "curl -b 'JSESSIONID={}' http://localhost:8080/")),
    "password": (_password, ("password={}", "DB_PASSWORD: '{}'", 'ansible_ssh_pass="{}"', "mysql -u app -p{} shop", "sshpass -p '{}' ssh -o StrictHostKeyChecking=no box", "The password is {}", "ALTER ROLE app PASSWORD '{}';", "CREATE USER app IDENTIFIED BY '{}'", "machine x login y password {}", "<password>{}</password>", "--password {}", "PGPASSWORD={} psql")),
    "URL password": (_password, ("postgres://app:{}@localhost:5432/shop", "https://deploy:{}@localhost/x.git", "amqp://svc:{}@127.0.0.1/")),
    "API secret": (lambda r: _mixed(r, 32), ("client_secret={}", '"api_key": "{}"', "X-Api-Key: {}", "secret_key: {}", "ACCESS_TOKEN={}", "apikey={}&q=1")),
    "device secret": (lambda r: _mixed(r, 12), ("snmp-server community {} RO", "enable secret 5 {}", "tacacs-server key {}", " neighbor 192.0.2.1 password {}", "snmpwalk -v2c -c {} 192.0.2.9 sysDescr", "username admin privilege 15 secret 9 {}", "key-string 7 {}")),
    "email address": (lambda r: f"{_name(r)}.{_name(r)}@{_domain(r)}", ("mail {} about it", "Author: X <{}>", '"email": "{}"', "assigned to {}.")),
    "telephone number": (_phone, ("phone: {}", "call {} after hours", '"mobile": "{}"')),
    "IPv4 address": (_ipv4, ("ping {} -c 3", " ip address {} 255.255.255.0", "{}:22 open", "inet {}/24 brd", "server={};")),
    "IPv6 address": (_ipv6, ("inet6 {}/64 scope global", "ping6 {}", "[{}]:443")),
    "MAC address": (_mac, ("link/ether {} brd ff:ff:ff:ff:ff:ff", "1    {}    DYNAMIC  Gi1/0/1", "hwaddr={}")),
    "host name": (lambda r: f"{_host(r)}.{_domain(r)}", ("ssh {}", "https://{}/login", "PING {} (192.0.2.1)", "server_name {};")),
    "short host name": (_host, ("hostname {}\n", "root@{}:~# uptime", "Linux {} 6.1.0-18-amd64 #1 SMP", "Nov 29 22:33:10 {} sshd[812]: Server listening", "{}#show version", '"hostname": "{}"')),
    "user name": (_name, ("/home/{}/work", "uid=1001({}) gid=1001", "-rw-r--r-- 1 {} staff 812 Nov 29 a.txt", "Accepted publickey for {} from 192.0.2.4", '"username": "{}"', "sudo -u {} id", "C:\\Users\\{}\\x", "{}:x:1002:1002::/srv:/bin/sh", "ssh {}@192.0.2.7")),
    "serial number": (_serial, ("Serial Number: {}", "S/N {}", "Processor board ID {}", '"serial": "{}"', "System Serial Number : {}", "Service Tag: {}")),
    "private URL": (lambda r: f"https://{_name(r)}.{_name(r)}.internal/{_name(r)}/{_name(r)}-{r.randrange(10, 99)}", ("see {} for the runbook", "GET {} 200", '"url": "{}"')),
    "webhook": (lambda r: f"T{_some(r, string.ascii_uppercase, 8)}/B{_some(r, string.ascii_uppercase, 8)}/{_mixed(r, 24)}", ("curl https://hooks.slack.com/services/{}",)),
    "payment card": (_card, ("card {}", "pan={}")),
}  # fmt: skip

FORMS = ("plain", "plain", "plain", "json", "json2", "base64", "url")


def plants(per_kind: int = 12) -> Iterator[Plant]:
    """At least `per_kind` plants of every kind, each context and form several times."""
    r = random.Random(SEED)
    for kind, (make, contexts) in KINDS.items():
        for number in range(max(per_kind, 2 * len(contexts))):
            value = make(r)
            if kind == "basic":
                text = f"Authorization: Basic {base64.b64encode(f'svc:{value}'.encode()).decode()}"
            else:
                text = contexts[number % len(contexts)].replace("{}", value)
            form = FORMS[(number // max(1, len(contexts))) % len(FORMS)] if number >= len(contexts) else "plain"
            yield Plant(kind=kind, value=value, text=written(text, form), form=form)


def written(text: str, form: str) -> str:
    """The text in one of the forms that tools and clients give it."""
    if form == "json":
        return json.dumps({"output": text, "code": 0})
    if form == "json2":
        return json.dumps({"arguments": json.dumps({"command": text})})
    if form == "base64":
        return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d"
    if form == "url":
        return f"GET /search?q={quote(text, safe='')}"
    return text


CLEAN = (
    "git log --oneline: 3f2a9c1 Fix the parser; 88d0e4b7c6a5f4e3d2c1b0a998877665544332211 is the full hash",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 of the wheel",
    "import os.path; from collections.abc import Iterator; self.config.name = threading.local()",
    "numpy==2.1.3, torch 2.13.0, kernel 6.1.0-18, version 1.2.3.4 of the firmware, v10.2.0.1",
    "interface GigabitEthernet0/0/1.201 up, VLAN 201, mtu 9000, 15 packets dropped",
    "127.0.0.1:8000, 0.0.0.0, ::1, 255.255.255.0, 192.0.2.10, 2001:db8::1, 8.8.8.8",
    "max_tokens=512, total_tokens: 7178, token_ids [1, 2, 3], tokenizer_config.json, pad_token='<pad>'",
    "password: required, token: str, secret = None, api_key=os.environ['KEY'], PASSWORD=${DB_PASSWORD}",
    "Enter your password:", "passwd: password updated successfully", "The token count is 4096 per request",
    "https://github.com/vllm-project/vllm/issues/15622 and https://docs.python.org/3/library/json.html",
    "user@example.com, git@github.com:acme/x.git, npm i @types/node@20.11.5, support@example.org",
    "Nov 29 22:33:10, 2026-11-29T22:33:10Z, 12:30:45, 1,234,567 rows in 3.25 s, 99.9 %",
    "ls -l /etc/nginx/nginx.conf; cat /var/log/syslog | head -20; cd /usr/local/lib",
    "-rw-r--r-- 1 root root 812 Nov 29 a.txt", "uid=0(root) gid=0(root)", "sudo -u postgres psql",
    "uuid 123e4567-e89b-12d3-a456-426614174000 build 20260101", "std::vector<int> a; foo::bar(); dead::beef",
    "def handler(event, context): return {'statusCode': 200}", "for (int i = 0; i < 10; i++) { sum += i; }",
    "<div class=\"row\" id=\"main\">hello</div>", "SELECT id, name FROM users WHERE active = true LIMIT 10;",
    "RFC 9110 section 7.6.1, ISO 8601, UTF-8, port 5432, exit code 137, HTTP/1.1 404 Not Found",
    "index.html app.js style.css README.md main.py config.yaml data.json setup.cfg",
    "The quick brown fox jumps over the lazy dog. Please check the switch port first.",
    "key: value, sort_key=name, primary key (id), foreign key, keyboard, monkey-patch, tokenizer",
    "ff:ff:ff:ff:ff:ff broadcast, 01:00:5e:00:00:fb multicast, 00:00:00:00:00:00",
    "feat(api): add pagination (#1234); bump lodash from 4.17.20 to 4.17.21", "chmod 0644 file; umask 077",
    "lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor",
    "ssh-keygen -t ed25519; openssl rand -hex 32; head -c 16 /dev/urandom | base64",
    "Basic usage: pass the bearer token in the header, see Authorization", "bearer of bad news; basic research",
    "x = a.b.c(d).e; asyncio.run(main()); df.info(); obj.name; this.id", "3.14159, 1e-5, 0xdeadbeef, 0b1010",
)  # fmt: skip
"""Lines in which nothing is private: addresses of documentation and loopback, hashes, versions, code, prose."""
