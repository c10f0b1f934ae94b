from dataclasses import replace

import pytest

from suite.bundle.packages import check_pins, check_sbom, receipt_packages
from suite.bundle.verify import verify_bundle
from suite.bundle.write import write_bundle
from suite.errors import InvalidInput, VerificationFailed
from suite.files import canonical_json
from suite.score.floor import repeat_floor
from tests.bundle.world import lock, receipt
from tests.score.session import logits


def with_packages(*ranks):
    return {"ranks": [{"packages": packages} for packages in ranks]}


def sbom(**versions):
    components = [
        {"type": "library", "name": n, "version": v, "purl": f"pkg:pypi/{n}@{v}"} for n, v in versions.items()
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": components}


def test_names_are_compared_as_an_index_would():
    assert receipt_packages(with_packages({"Flash_Attn": "2.1"}), where="r") == {"flash-attn": "2.1"}
    assert check_sbom(canonical_json(sbom(flash_attn="2.1")), {"flash-attn": "2.1"}) == (
        "1 of 1 packages of the receipt stand in the SBOM alike",
        [],
    )


@pytest.mark.parametrize("value", [{}, {"ranks": 1}, {"ranks": [1, {}, {"packages": []}]}])
def test_a_receipt_may_name_no_package(value):
    assert receipt_packages(value, where="r") == {}


@pytest.mark.parametrize(
    ("ranks", "told"),
    [(({"torch": "1"}, {"torch": "2"}), "one rank has '1', another '2'"), (({"torch": 2},), "is no text")],
)
def test_ranks_agree(ranks, told):
    with pytest.raises(VerificationFailed, match=told):
        receipt_packages(with_packages(*ranks), where="r")


def test_pins_of_the_lock_hold():
    of = lock("x")
    check_pins(of, {"vllm": "0.32.0"}, where="r")
    check_pins(of, {"vllm": "0.32.0+cpu"}, where="r")
    check_pins(of, {}, where="r")
    with pytest.raises(VerificationFailed, match=r"vllm: the lock pins 0\.32\.0, the receipt names '0\.33\.0'"):
        check_pins(of, {"vllm": "0.33.0"}, where="r")


def test_an_sbom_that_contradicts_is_refused_and_one_that_lacks_is_told():
    with pytest.raises(VerificationFailed, match=r"torch: the receipt names '2\.13\.0', the SBOM '2\.12\.0'"):
        check_sbom(canonical_json(sbom(torch="2.12.0")), {"torch": "2.13.0"})
    assert check_sbom(canonical_json(sbom(numpy="1")), {"torch": "2.13.0"}) == (
        "0 of 1 packages of the receipt stand in the SBOM alike; not in the SBOM: torch",
        ["torch"],
    )
    with pytest.raises(InvalidInput):
        check_sbom(b"{}", {"torch": "2.13.0"})


def bundle_with(world, versions, components):
    parts = world.parts(repeats=1)
    of = receipt("fp8_e4m3") | with_packages(versions)
    values = logits()
    values[2, 5], values[7] = 20, values[7, [5, 0, 1, 2, 3, 4]]
    candidate = world.capture(parts.lock, values, receipt=of)
    return write_bundle(
        replace(parts, candidate=candidate, repeats=repeat_floor([candidate]), sbom=components), results=world.results
    )


def packages_check(folder):
    return next(check for check in verify_bundle(folder).checks if check.name == "packages")


def test_a_bundles_three_places_are_compared(world):
    folder = bundle_with(world, {"vllm": "0.32.0", "torch": "2"}, sbom(vllm="0.32.0", torch="2"))
    assert packages_check(folder).detail == "2 of 2 packages of the receipt stand in the SBOM alike"


def test_another_version_in_the_sbom_fails_the_bundle(world):
    folder = bundle_with(world, {"vllm": "0.32.0"}, sbom(vllm="0.31.0"))
    assert packages_check(folder).outcome == "failed"


def test_without_an_sbom_it_says_so(world):
    check = packages_check(bundle_with(world, {"vllm": "0.32.0"}, None))
    assert (check.outcome, "there is no SBOM" in check.detail) == ("not done", True)
