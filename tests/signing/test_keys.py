import stat
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from suite.errors import InvalidInput, MissingPrerequisite, VerificationFailed
from suite.files import sha256_bytes
from suite.signing.keys import (
    _SMALL_ORDER_Y,
    _SPKI_PREFIX,
    VerifyKey,
    load_signing_key,
    load_verify_key,
    new_key,
    strict_base64,
)

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, FIELD - 2, FIELD) % FIELD


def test_a_new_key_is_the_owners_alone_and_named_by_its_hash(tmp_path):
    made = new_key(tmp_path / "keys" / "mine")
    assert stat.S_IMODE((tmp_path / "keys" / "mine").stat().st_mode) == 0o600
    assert load_signing_key(tmp_path / "keys" / "mine").key_id == made.key_id
    public = load_verify_key(tmp_path / "keys" / "mine.pub")
    assert public == made.verify_key
    assert public.key_id == f"ed25519:{sha256_bytes(public.der)}"
    assert sorted(p.name for p in (tmp_path / "keys").iterdir()) == ["mine", "mine.pub"]


def test_the_secret_shows_in_no_text_of_the_object(tmp_path):
    made = new_key(tmp_path / "k")
    assert repr(made) == "SigningKey()"


@pytest.mark.parametrize("existing", ["k", "k.pub"])
def test_nothing_is_written_over(tmp_path, existing):
    (tmp_path / existing).write_text("precious")
    with pytest.raises(InvalidInput, match="such a file already"):
        new_key(tmp_path / "k")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["precious"]


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path):
    (tmp_path / "k").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="such a file already"):
        new_key(tmp_path / "k")
    assert not (tmp_path / "elsewhere").exists()


def test_a_passphrase_is_needed_and_must_be_right(tmp_path):
    made = new_key(tmp_path / "k", passphrase="correct horse")
    assert b"ENCRYPTED" in (tmp_path / "k").read_bytes()
    assert load_signing_key(tmp_path / "k", passphrase=lambda: "correct horse").key_id == made.key_id
    with pytest.raises(InvalidInput, match="passphrase is not that of the key"):
        load_signing_key(tmp_path / "k", passphrase=lambda: "battery staple")
    with pytest.raises(MissingPrerequisite, match="needs its passphrase"):
        load_signing_key(tmp_path / "k")


def test_a_public_key_is_told_apart_from_a_private_one_that_others_may_read(tmp_path):
    new_key(tmp_path / "k")
    with pytest.raises(InvalidInput, match="a public key signs nothing"):
        load_signing_key(tmp_path / "k.pub")
    (tmp_path / "k").chmod(0o644)
    with pytest.raises(InvalidInput, match="others may read"):
        load_signing_key(tmp_path / "k")
    with pytest.raises(InvalidInput, match="`suite key new PATH` makes a key"):
        load_signing_key(tmp_path / "none")


def test_an_empty_passphrase_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="protects nothing"):
        new_key(tmp_path / "k", passphrase="")
    assert not list(tmp_path.iterdir())


def test_a_private_key_that_others_may_read_is_refused(tmp_path):
    new_key(tmp_path / "k")
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(InvalidInput, match="others may read"):
        load_signing_key(tmp_path / "k")


def test_files_that_are_no_such_key_are_refused(tmp_path):
    elliptic = generate_private_key(SECP256R1())
    (tmp_path / "ec").write_bytes(elliptic.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "ec.pub").write_bytes(
        elliptic.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "text").write_text("no key")
    (tmp_path / "large").write_bytes(bytes(1 << 17))
    for path in tmp_path.iterdir():
        path.chmod(0o600)
    for name, message in (("ec", "not an Ed25519"), ("text", "not a private key"), ("large", "too large")):
        with pytest.raises(InvalidInput, match=message):
            load_signing_key(tmp_path / name)
    for name, message in (("ec.pub", "not an Ed25519"), ("text", "not a public key"), ("none", "cannot be read")):
        with pytest.raises(InvalidInput, match=message):
            load_verify_key(tmp_path / name)


def test_openssl_reads_what_is_written(tmp_path):
    """The files are the format's, not only this program's."""
    new_key(tmp_path / "k")
    (tmp_path / "text").write_text("signed")
    command = ["openssl", "pkeyutl", "-rawin", "-in", tmp_path / "text"]
    subprocess.run([*command, "-sign", "-inkey", tmp_path / "k", "-out", tmp_path / "s"], check=True)
    assert load_verify_key(tmp_path / "k.pub").verifies((tmp_path / "s").read_bytes(), b"signed")
    mine = load_signing_key(tmp_path / "k").sign(b"signed")
    assert mine == (tmp_path / "s").read_bytes()


def _double(point):
    x, y = point
    k = D * x * x * y * y % FIELD
    inverse = pow(1 + k, FIELD - 2, FIELD), pow(1 - k, FIELD - 2, FIELD)
    return 2 * x * y * inverse[0] % FIELD, (y * y + x * x) * inverse[1] % FIELD


def _point(y):
    square = (y * y - 1) * pow(D * y * y + 1, FIELD - 2, FIELD) % FIELD
    x = pow(square, (FIELD + 3) // 8, FIELD)
    if (x * x - square) % FIELD:
        x = x * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
    assert (x * x - square) % FIELD == 0, "on no curve"
    return x, y


@pytest.mark.parametrize("y", sorted(_SMALL_ORDER_Y))
@pytest.mark.parametrize("sign", [0, 1])
def test_keys_of_small_order_are_refused(y, sign):
    point = _point(y)
    for _ in range(3):
        point = _double(point)
    assert point == (0, 1), "eight times it is the neutral point"
    der = _SPKI_PREFIX + (y | sign << 255).to_bytes(32, "little")
    with pytest.raises(VerificationFailed, match="small order"):
        VerifyKey.of_der(der, where="k")


@pytest.mark.parametrize("y", [FIELD, FIELD + 1, 2**255 - 1])
def test_keys_that_are_not_written_canonically_are_refused(y):
    with pytest.raises(VerificationFailed, match="canonically"):
        VerifyKey.of_der(_SPKI_PREFIX + y.to_bytes(32, "little"), where="k")


@pytest.mark.parametrize(
    "change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b"\x30\x2b" + d[2:], lambda d: b""]
)
def test_other_der_is_refused(key, change):
    with pytest.raises(VerificationFailed, match="not an Ed25519 public key"):
        VerifyKey.of_der(change(key.verify_key.der), where="k")


def test_a_signature_has_one_form(key):
    """S + L gives the same equation; RFC 8032 wants S below L."""
    signature = key.sign(b"text")
    s = int.from_bytes(signature[32:], "little")
    assert key.verify_key.verifies(signature, b"text")
    assert not key.verify_key.verifies(signature[:32] + (s + ORDER).to_bytes(32, "little"), b"text")
    assert not key.verify_key.verifies(signature, b"other")
    assert not key.verify_key.verifies(signature[:63], b"text")


@pytest.mark.parametrize("text", ["AA", "AB==", "AA==\n", " AA==", "A-__", "AA=A", "é"])
def test_base64_in_another_form_is_refused(text):
    with pytest.raises(VerificationFailed, match="base64"):
        strict_base64(text, where="x")
    assert strict_base64("AA==", where="x") == b"\0"


def test_importing_the_package_needs_no_extra():
    code = "import sys, suite.signing; assert not {'sigstore', 'securesystemslib', 'vllm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
