"""A Sigstore of one's own on loopback: certificate authority, its log, and a transparency log of one entry a time.

The package's own client asks it for a certificate and an entry, and its own verifier checks what comes out.
"""

import base64
import hashlib
import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

import jwt
import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from sigstore.models import ClientTrustConfig, TrustedRoot

from tests.loopback import serving

ISSUER = "https://accounts.example.org"
IDENTITY = "someone@example.org"
_SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")


def _spki(key):
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _sign(key, data):
    return key.sign(data, ec.ECDSA(SHA256()))


def token(identity: str = IDENTITY, *, seconds: int = 600, audience: str = "sigstore") -> str:
    """An identity token; Sigstore's client reads it, and only the authority checks who signed it."""
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": identity, "aud": audience, "iat": now - 10, "nbf": now - 10, "exp": now + seconds}
    return jwt.encode(claims, "0123456789abcdef" * 4, algorithm="HS256")


@dataclass
class World:
    url: str = ""
    refuse: str = ""
    """Path that is answered with 400."""
    asked: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.root_key, self.ct_key, self.log_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
        now = datetime.now(UTC)
        self.root = (
            x509.CertificateBuilder(name, name, self.root_key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.root_key.public_key()), critical=False)
            .sign(self.root_key, SHA256())
        )

    def certificate(self, public_key, identity):
        """A leaf for ten minutes, with the proof that it was logged."""
        now = datetime.now(UTC)
        authority = x509.AuthorityKeyIdentifier(hashlib.sha1(_point(self.root_key)).digest(), None, None)
        issuer = ISSUER.encode()
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.root.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(authority, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER, bytes([0x0C, len(issuer)]) + issuer), critical=False)
        )
        before = builder.sign(self.root_key, SHA256()).tbs_certificate_bytes
        entry = hashlib.sha256(_spki(self.root_key)).digest() + len(before).to_bytes(3, "big") + before
        stamp = int(time.time() * 1000)
        signature = _sign(self.ct_key, struct.pack("!BBQH", 0, 0, stamp, 1) + entry + struct.pack("!H", 0))
        log_id = hashlib.sha256(_spki(self.ct_key)).digest()
        sct = b"\0" + log_id + struct.pack("!QHBBH", stamp, 0, 4, 3, len(signature)) + signature
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        octets = bytes([0x04, 0x81, len(listed)] if len(listed) > 127 else [0x04, len(listed)]) + listed
        return builder.add_extension(x509.UnrecognizedExtension(_SCT_LIST, octets), critical=False).sign(
            self.root_key, SHA256()
        )

    def entry(self, proposed):
        """The proposed envelope as the first and only entry of a log."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        body = rfc8785.dumps(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": _hash(content["envelope"].encode()),
                    "payloadHash": _hash(payload),
                    "signatures": [
                        {"signature": one["sig"], "verifier": content["verifiers"][0]} for one in envelope["signatures"]
                    ],
                },
            }
        )
        root = hashlib.sha256(b"\0" + body).digest()
        log_id = hashlib.sha256(_spki(self.log_key)).digest()
        note = f"log of a test\n1\n{base64.b64encode(root).decode()}\n"
        signed = base64.b64encode(log_id[:4] + _sign(self.log_key, note.encode())).decode()
        integrated = int(time.time())
        promise = {
            "body": base64.b64encode(body).decode(),
            "integratedTime": integrated,
            "logID": log_id.hex(),
            "logIndex": 0,
        }
        proof = {
            "checkpoint": f"{note}\n\u2014 test {signed}\n",
            "hashes": [],
            "logIndex": 0,
            "rootHash": root.hex(),
            "treeSize": 1,
        }
        stamp = base64.b64encode(_sign(self.log_key, rfc8785.dumps(promise))).decode()
        return {"0": promise | {"verification": {"inclusionProof": proof, "signedEntryTimestamp": stamp}}}

    def trust(self) -> ClientTrustConfig:
        """What a client of this Sigstore trusts and asks."""
        valid = {"start": (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def service(path):
            return {"url": self.url + path, "majorApiVersion": 1, "validFor": valid, "operator": "test"}

        def log(key):
            return {
                "baseUrl": self.url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": base64.b64encode(_spki(key)).decode(),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": valid,
                },
                "logId": {"keyId": base64.b64encode(hashlib.sha256(_spki(key)).digest()).decode()},
            }

        root = base64.b64encode(self.root.public_bytes(Encoding.DER)).decode()
        value = {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self.log_key)],
                "ctlogs": [log(self.ct_key)],
                "certificateAuthorities": [
                    {
                        "subject": {"organization": "test", "commonName": "test"},
                        "uri": self.url,
                        "certChain": {"certificates": [{"rawBytes": root}]},
                        "validFor": valid,
                    }
                ],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service("")],
                "oidcUrls": [service("/oidc")],
                "rekorTlogUrls": [service("/rekor")],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [],
                "tsaConfig": {"selector": "ANY"},
            },
        }
        return ClientTrustConfig.from_json(json.dumps(value))

    def trusted_root(self) -> TrustedRoot:
        """What a verifier trusts."""
        return self.trust().trusted_root


def _hash(data):
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _point(key):
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _usage(**on):
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: on.get(name, False) for name in names})


@contextmanager
def sigstore() -> Iterator[World]:
    world = World()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            world.asked.append(self.path)
            value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if world.refuse and world.refuse in self.path:
                self.send_error(400)
                return
            if self.path.endswith("/signingCert"):
                claims = jwt.decode(
                    self.headers["Authorization"].removeprefix("Bearer "), options={"verify_signature": False}
                )
                request = x509.load_pem_x509_csr(base64.b64decode(value["certificateSigningRequest"]))
                chain = [world.certificate(request.public_key(), claims["sub"]), world.root]
                pems = [one.public_bytes(Encoding.PEM).decode() for one in chain]
                answer = {"signedCertificateEmbeddedSct": {"chain": {"certificates": pems}}}
            else:
                answer = world.entry(value)
            data = json.dumps(answer).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as address:
        world.url = address
        yield world
