import pytest

from suite.errors import VerificationFailed
from suite.signing import SIGSTORE_NAME, sign_folder, who_signed
from suite.signing import sigstore as module
from suite.signing.sigstore import sign_folder_with_sigstore
from tests.signing.sigstore_world import IDENTITY, ISSUER, sigstore, token


@pytest.fixture
def world(monkeypatch):
    """A Sigstore that the verifier takes for the public one."""
    from sigstore.verify import Verifier

    with sigstore() as found:
        production = classmethod(lambda cls, *, offline: cls(trusted_root=found.trusted_root()))
        monkeypatch.setattr(Verifier, "production", production)
        yield found


def test_nobody(folder):
    assert who_signed(folder, kind="result") is None


def test_keys_and_an_identity(folder, key, other, world):
    sign_folder(folder, key, kind="result")
    assert who_signed(folder, kind="result").told() == f"signed by {key.key_id}"
    sign_folder(folder, other, kind="result")
    sign_folder_with_sigstore(folder, kind="result", token=token(), trust=world.trust())
    found = who_signed(folder, kind="result")
    assert found.key_ids == tuple(sorted([key.key_id, other.key_id]))
    assert found.sigstore.identity == IDENTITY
    assert found.told() == f"signed by {', '.join(found.key_ids)}, {IDENTITY} (Sigstore, vouched for by {ISSUER})"


def test_an_identity_alone(folder, world):
    sign_folder_with_sigstore(folder, kind="result", token=token(), trust=world.trust())
    found = who_signed(folder, kind="result")
    assert found.key_ids == ()
    assert found.told().startswith(f"signed by {IDENTITY}")
    with pytest.raises(VerificationFailed, match="over a result, not over a submission"):
        who_signed(folder, kind="submission")


def test_without_the_extra_an_identity_is_not_checked_and_it_says_so(folder, key, world, monkeypatch):
    sign_folder(folder, key, kind="result")
    sign_folder_with_sigstore(folder, kind="result", token=token(), trust=world.trust())

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(module.importlib, "import_module", absent)
    found = who_signed(folder, kind="result")
    assert found.key_ids == (key.key_id,)
    assert found.sigstore is None
    assert "was not checked: the package sigstore is not installed" in found.told()


def test_what_does_not_hold_is_an_error_and_not_an_absence(folder, key):
    (folder / SIGSTORE_NAME).write_text("{}")
    with pytest.raises(VerificationFailed):
        who_signed(folder, kind="result")
    (folder / SIGSTORE_NAME).unlink()
    sign_folder(folder, key, kind="submission")
    with pytest.raises(VerificationFailed, match="over a submission, not over a result"):
        who_signed(folder, kind="result")
