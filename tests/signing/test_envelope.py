"""Envelopes and statements: what an honest one is, and one test for each way in which a hostile one differs."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.signer import Key as OtherKey

from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json, pretty_json
from suite.signing import envelope as envelope_module
from suite.signing import statement as statement_module
from suite.signing import verify_envelope
from suite.signing.envelope import PAYLOAD_TYPE, SIGNATURE_LIMIT, pre_authentication_encoding, seal
from suite.signing.keys import SigningKey
from suite.signing.statement import add_signature, name_refusal, parse_statement, sign_subjects

HASH = "a" * 64


def value_of(key, **changes):
    """The statement's value as signed by `key`, with top-level keys replaced."""
    data = sign_subjects({"a.json": HASH}, key, kind="result", about={"n": 1})
    return json.loads(base64.b64decode(json.loads(data)["payload"])) | changes


def sealed(value, key):
    payload = value if isinstance(value, bytes) else canonical_json(value)
    return seal(payload, key).to_bytes()


def outer(key, **changes):
    return json.loads(sign_subjects({"a.json": HASH}, key, kind="result")) | changes


def test_what_was_signed_comes_back(key, other):
    data = sign_subjects({"b": HASH, "a/c": HASH}, key, kind="submission", about={"bundle_id": "x/y"})
    signed = verify_envelope(data, where="s")
    assert signed.key_ids == (key.key_id,)
    assert signed.statement.kind == "submission"
    assert signed.statement.signer == key.key_id
    assert list(signed.statement.subjects) == ["a/c", "b"]
    assert signed.statement.about == {"bundle_id": "x/y"}
    both = verify_envelope(add_signature(signed, other), where="s")
    assert both.key_ids == tuple(sorted([key.key_id, other.key_id]))
    assert both.statement == signed.statement
    assert add_signature(both, other) == both.to_bytes(), "signing twice changes nothing"


def test_another_library_reads_the_envelope_and_agrees(key):
    data = sign_subjects({"a": HASH}, key, kind="result")
    theirs = OtherEnvelope.from_dict(json.loads(data))
    assert theirs.pae() == pre_authentication_encoding(theirs.payload)
    public = OtherKey.from_dict(
        key.key_id,
        {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": key.verify_key.der[-32:].hex()}},
    )
    assert list(theirs.verify([public], 1)) == [key.key_id]


def test_lengths_keep_type_and_payload_apart():
    assert pre_authentication_encoding(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


HOSTILE = {}


def hostile(message):
    def keep(make):
        HOSTILE[make.__name__] = (make, message)
        return make

    return keep


@hostile("not JSON")
def no_json(key, other):
    return b"{"


@hostile("not UTF-8")
def no_text(key, other):
    return b"\xff{}"


@hostile("not a DSSE envelope")
def not_an_object(key, other):
    return b"[]\n"


@hostile("stands twice")
def duplicate_key(key, other):
    data = sign_subjects({"a": HASH}, key, kind="result")
    return b'{"payloadType":"text/plain",' + data[1:]


@hostile("not a DSSE envelope: payloadType")
def other_payload_type(key, other):
    return canonical_json(outer(key, payloadType="application/json"))


@hostile("not a DSSE envelope: more: Extra inputs")
def unknown_key(key, other):
    return canonical_json(outer(key, more=1))


@hostile("signatures: there is none")
def no_signatures(key, other):
    return canonical_json(outer(key, signatures=[]))


@hostile(f"signatures: more than {SIGNATURE_LIMIT}")
def too_many_signatures(key, other):
    value = outer(key)
    return canonical_json(value | {"signatures": value["signatures"] * (SIGNATURE_LIMIT + 1)})


@hostile("one key signed twice")
def one_signature_twice(key, other):
    value = outer(key)
    return canonical_json(value | {"signatures": value["signatures"] * 2})


@hostile("signed with 'rsa'; only ed25519")
def unknown_algorithm(key, other):
    value = outer(key)
    value["signatures"][0]["keyid"] = "rsa:" + HASH
    return canonical_json(value)


@hostile("signed with ''; only ed25519")
def no_key_id(key, other):
    value = outer(key)
    value["signatures"][0]["keyid"] = ""
    return canonical_json(value)


@hostile("key id is not that of its public key")
def key_id_of_somebody_else(key, other):
    value = outer(key)
    value["signatures"][0]["keyid"] = other.key_id
    return canonical_json(value)


@hostile("signature does not hold")
def key_of_somebody_else(key, other):
    value = outer(key)
    value["signatures"][0] |= {"keyid": other.key_id, "public_key": other.verify_key.public_text}
    return canonical_json(value)


@hostile("signature does not hold")
def one_true_and_one_false_signature(key, other):
    value = outer(key)
    [one] = value["signatures"]
    false = one | {"keyid": other.key_id, "public_key": other.verify_key.public_text}
    return canonical_json(value | {"signatures": sorted([one, false], key=lambda s: s["keyid"])})


@hostile("small order")
def neutral_key(key, other):
    """With the neutral point as key, R = neutral and S = 0 verify over any text."""
    from suite.signing.keys import _SPKI_PREFIX

    der = _SPKI_PREFIX + (1).to_bytes(32, "little")
    from suite.files import sha256_bytes

    value = outer(key)
    value["signatures"] = [
        {
            "keyid": f"ed25519:{sha256_bytes(der)}",
            "public_key": base64.b64encode(der).decode(),
            "sig": base64.b64encode((1).to_bytes(32, "little") + bytes(32)).decode(),
        }
    ]
    return canonical_json(value)


@hostile("signature does not hold")
def changed_payload(key, other):
    value = outer(key)
    statement = json.loads(base64.b64decode(value["payload"]))
    statement["subject"][0]["digest"]["sha256"] = "b" * 64
    return canonical_json(value | {"payload": base64.b64encode(canonical_json(statement)).decode()})


@hostile("signature does not hold")
def signed_without_the_type(key, other):
    value = outer(key)
    value["signatures"][0]["sig"] = base64.b64encode(key.sign(base64.b64decode(value["payload"]))).decode()
    return canonical_json(value)


@hostile("signature does not hold")
def malleable_signature(key, other):
    value = outer(key)
    raw = base64.b64decode(value["signatures"][0]["sig"])
    order = 2**252 + 27742317777372353535851937790883648493
    raw = raw[:32] + (int.from_bytes(raw[32:], "little") + order).to_bytes(32, "little")
    value["signatures"][0]["sig"] = base64.b64encode(raw).decode()
    return canonical_json(value)


@hostile("a signature of 65 bytes")
def long_signature(key, other):
    value = outer(key)
    raw = base64.b64decode(value["signatures"][0]["sig"]) + b"\0"
    value["signatures"][0]["sig"] = base64.b64encode(raw).decode()
    return canonical_json(value)


@hostile("a signature of 0 bytes")
def empty_signature(key, other):
    value = outer(key)
    value["signatures"][0]["sig"] = ""
    return canonical_json(value)


@hostile("base64 that is not written canonically")
def lax_base64(key, other):
    """The last character of 64 bytes' base64 has four bits that no decoder uses."""
    value = outer(key)
    text = value["signatures"][0]["sig"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet[alphabet.index(text[-3]) | 1]
    value["signatures"][0]["sig"] = text[:-3] + last + "=="
    return canonical_json(value)


@hostile("not base64")
def url_safe_base64(key, other):
    value = outer(key)
    return canonical_json(value | {"payload": "-" + value["payload"][1:]})


@hostile("not base64")
def base64_with_line_ends(key, other):
    value = outer(key)
    return canonical_json(value | {"payload": value["payload"][:4] + "\n" + value["payload"][4:]})


@hostile("not written in canonical form")
def other_white_space(key, other):
    return pretty_json(outer(key))


@hostile("not written in canonical form")
def bytes_at_the_end(key, other):
    return sign_subjects({"a": HASH}, key, kind="result") + b"\n"


@hostile("not written in canonical form")
def signatures_out_of_order(key, other):
    signed = verify_envelope(sign_subjects({"a": HASH}, key, kind="result"), where="s")
    value = json.loads(add_signature(signed, other))
    return canonical_json(value | {"signatures": value["signatures"][::-1]})


@hostile("the statement is not written in canonical form")
def payload_in_other_form(key, other):
    return sealed(pretty_json(value_of(key)), key)


@hostile("stands twice")
def duplicate_key_in_the_payload(key, other):
    return sealed(canonical_json(value_of(key)).replace(b'{"_type"', b'{"_type":"x","_type"', 1), key)


@hostile("not a number that JSON allows")
def nan_in_the_payload(key, other):
    return sealed(canonical_json(value_of(key)).replace(b'"n":1', b'"n":NaN', 1), key)


@hostile("_type: Input should be")
def other_statement_type(key, other):
    return sealed(value_of(key, _type="https://in-toto.io/Statement/v0.1"), key)


@hostile("predicateType: Input should be")
def other_predicate_type(key, other):
    return sealed(value_of(key, predicateType="https://slsa.dev/provenance/v1"), key)


@hostile("predicate.kind: Input should be")
def other_kind(key, other):
    value = value_of(key)
    value["predicate"]["kind"] = "trusted"
    return sealed(value, key)


@hostile("subject.0.digest.sha256")
def other_digest(key, other):
    return sealed(value_of(key, subject=[{"name": "a", "digest": {"sha512": HASH}}]), key)


@hostile("a statement over 0 files")
def no_subject(key, other):
    return sealed(value_of(key, subject=[]), key)


@hostile("not sorted, each once")
def subject_twice(key, other):
    one = {"name": "a", "digest": {"sha256": HASH}}
    return sealed(value_of(key, subject=[one, one | {"digest": {"sha256": "b" * 64}}]), key)


@hostile("leads out of the folder")
def subject_outside(key, other):
    return sealed(value_of(key, subject=[{"name": "../a", "digest": {"sha256": HASH}}]), key)


@hostile("not printable ASCII")
def subject_with_a_direction_mark(key, other):
    return sealed(value_of(key, subject=[{"name": "a\u202egpj.exe", "digest": {"sha256": HASH}}]), key)


@hostile("the signer that it names did not sign it")
def statement_of_somebody_else(key, other):
    """Taking another's words under one's own signature alone."""
    return sealed(value_of(key), other)


@hostile("the signer that it names did not sign it")
def statement_of_nobody(key, other):
    value = value_of(key)
    value["predicate"]["signer"] = None
    return sealed(value, key)


@hostile("signer's key id is not that of its public key")
def signer_with_two_keys(key, other):
    value = value_of(key)
    value["predicate"]["signer"]["public_key"] = other.verify_key.public_text
    return sealed(value, key)


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_envelope_is_refused_with_its_own_message(name, key, other):
    make, message = HOSTILE[name]
    with pytest.raises(VerificationFailed) as caught:
        verify_envelope(make(key, other), where="statement.dsse.json")
    assert message in caught.value.message
    assert caught.value.exit_code == 5


def test_sizes_are_limited(key, monkeypatch):
    data = sign_subjects({"a": HASH}, key, kind="result")
    with monkeypatch.context() as patch:
        patch.setattr(envelope_module, "ENVELOPE_LIMIT_BYTES", len(data) - 1)
        with pytest.raises(VerificationFailed, match="more than"):
            verify_envelope(data, where="s")
    monkeypatch.setattr(statement_module, "PAYLOAD_LIMIT_BYTES", 100)
    with pytest.raises(VerificationFailed, match="a statement of more than 100 bytes"):
        verify_envelope(data, where="s")
    with pytest.raises(InvalidInput, match="at most"):
        sign_subjects({"a": HASH}, key, kind="result")


def test_too_many_signers_are_refused(key, monkeypatch):
    monkeypatch.setattr(envelope_module, "SIGNATURE_LIMIT", 1)
    signed = verify_envelope(sign_subjects({"a": HASH}, key, kind="result"), where="s")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    with pytest.raises(InvalidInput, match="at most 1 signatures"):
        add_signature(signed, SigningKey(private=Ed25519PrivateKey.generate()))


@pytest.mark.parametrize("name", ["", "/a", "a//b", "./a", "a/..", "a\\b", "C:x", "a\n", "é", "a/", "x" * 501])
def test_names_that_may_not_be_signed(name, key):
    assert name_refusal(name)
    with pytest.raises(InvalidInput):
        sign_subjects({name: HASH}, key, kind="result")


def test_nothing_and_unknown_kinds_are_not_signed(key):
    with pytest.raises(InvalidInput, match="nothing to sign"):
        sign_subjects({}, key, kind="result")
    with pytest.raises(InvalidInput, match="no kind"):
        sign_subjects({"a": HASH}, key, kind="praise")


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_way(data):
    with pytest.raises(VerificationFailed):
        verify_envelope(data, where="s")
    with pytest.raises(VerificationFailed):
        parse_statement(data, where="s")


def test_any_one_flipped_bit_is_noticed(key):
    data = sign_subjects({"a": HASH}, key, kind="result")
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        with pytest.raises(VerificationFailed):
            verify_envelope(bytes(changed), where="s")


def test_the_payload_type_is_that_of_in_toto(key):
    assert json.loads(sign_subjects({"a": HASH}, key, kind="result"))["payloadType"] == PAYLOAD_TYPE
