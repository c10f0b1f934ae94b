"""The kinds of processors, from texts as the kernel writes them."""

import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.agent import processor
from suite.agent.processor import ISAS, Processor, at_least, isa_words, loaded_extension, parse_processor
from suite.agent.settings import effective_settings, mismatches
from tests.agent.test_settings import rank

COMMON = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge cmov mmx fxsr sse sse2 ssse3 fma cx16 sse4_1 sse4_2 avx f16c"
)
AVX2 = COMMON + " bmi1 avx2 smep bmi2 rdseed adx clflushopt sha_ni"
AVX512 = AVX2 + " avx512f avx512dq avx512cd avx512bw avx512vl avx512_vnni"


def cpuinfo(name: str, flags: str, *, count: int = 2) -> str:
    """Of an x86-64 machine with `count` equal processors."""
    return "\n".join(
        f"processor\t: {n}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: {name}\n"
        f"stepping\t: 1\ncpu MHz\t\t: 2445.404\nflags\t\t: {flags}\nvmx flags\t: vnmi avx512f amx_tile\n"
        f"bugs\t\t: sysret_ss_attrs\nbogomips\t: 4890.80\n"
        for n in range(count)
    )


ARM = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp sve bf16 i8mm
CPU implementer\t: 0x41
CPU architecture: 8
"""

MACHINES = [
    ("AMD EPYC 7763 64-Core Processor", AVX2, "avx2", "_C_AVX2"),
    ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", AVX512, "avx512", "_C_AVX512"),
    ("AMD EPYC 9R14", AVX512 + " avx512_bf16 avx512vbmi", "avx512_bf16", "_C"),
    ("Intel(R) Xeon(R) Platinum 8488C", AVX512 + " avx512_bf16 amx_bf16 amx_tile amx_int8", "amx", "_C"),
    ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", COMMON, None, None),
    # AVX2 without FMA, and AVX-512 of which a part is missing: torch computes as on the kind before.
    ("of no seller", COMMON.replace(" fma", "") + " avx2", None, None),
    ("of no seller", AVX2 + " avx512f avx512cd", "avx2", "_C_AVX2"),
    # A machine that is hidden from half of itself.
    ("of no seller", AVX2 + " avx512_bf16 amx_tile amx_bf16", "avx2", "_C_AVX2"),
]


@pytest.mark.parametrize(("name", "flags", "isa", "extension"), MACHINES)
def test_machines_and_the_extension_that_computes_there(name, flags, isa, extension):
    found = parse_processor(cpuinfo(name, flags), architecture="x86_64")
    assert found == Processor(architecture="x86_64", name=name, isa=isa)
    assert found.extension == extension


def test_a_machine_in_words():
    told = [str(parse_processor(cpuinfo("A", flags), architecture="x86_64")) for flags in (AVX2, AVX512, COMMON)]
    assert told == ["A (AVX2 only)", "A (AVX-512 without BF16 instructions)", "A (x86_64)"]
    assert [isa_words(isa) for isa in ("avx512_bf16", "amx")] == ["AVX-512 with BF16 instructions", "AMX"]


def test_an_arm_machine_has_no_kind(monkeypatch):
    monkeypatch.setattr(processor.platform, "processor", lambda: "")
    found = parse_processor(ARM, architecture="aarch64")
    assert found == Processor(architecture="aarch64", name="aarch64", isa=None)
    assert found.extension is None
    assert str(found) == "aarch64 (aarch64)"


@pytest.mark.parametrize("text", ["", "\n\n", "flags", "flags\t\t:", "model name\t:  \nflags: avx2", ": :\nmodel name"])
def test_a_file_that_says_nothing_of_use(text, monkeypatch):
    monkeypatch.setattr(processor.platform, "processor", lambda: "x86_64")
    assert parse_processor(text, architecture="x86_64") == Processor(architecture="x86_64", name="x86_64", isa=None)


@given(st.text())
def test_any_text_is_a_processor(text):
    assert parse_processor(text, architecture="x86_64").isa in (None, *ISAS)


def test_a_machine_without_the_file(monkeypatch):
    def absent(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    assert processor.this_processor().isa is None


def test_each_kind_does_what_those_before_it_do():
    order = [[at_least(isa, needed) for needed in ISAS] for isa in ISAS]
    assert order == [[j <= i for j in range(len(ISAS))] for i in range(len(ISAS))]


LIBRARY = "7f3c5d400000-7f3c5d9b0000 r-xp 00000000 08:01 1442 /v/lib/python3.12/site-packages/vllm/{}.abi3.so\n"
OTHERS = (
    "7f3c5c000000-7f3c5c021000 rw-p 00000000 00:00 0 \n"
    "7f3c5e000000-7f3c5e100000 r-xp 00000000 08:01 9 /v/lib/python3.12/site-packages/torch/_C.cpython-312.so\n"
    "7f3c5e200000-7f3c5e300000 r-xp 00000000 08:01 9 /v/lib/python3.12/site-packages/vllm/_C_AVX2.txt\n"
)


@pytest.mark.parametrize("name", ["_C", "_C_AVX2", "_C_AVX512"])
def test_the_extension_that_a_process_has_loaded(name):
    assert loaded_extension(OTHERS + LIBRARY.format(name) + OTHERS) == name


@pytest.mark.parametrize("maps", ["", OTHERS, OTHERS + LIBRARY.format("_moe_C"), OTHERS + LIBRARY.format("_C_NEWER")])
def test_a_process_without_one(maps):
    assert loaded_extension(maps) is None


def test_a_receipt_names_the_processor_and_the_extension(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    from suite.agent import receipt

    found = Processor(architecture="x86_64", name="A", isa="avx2")
    monkeypatch.setattr(receipt, "this_processor", lambda: found)
    monkeypatch.setattr(receipt, "loaded_extension", lambda maps: "_C_AVX2" if "[stack]" in maps else None)
    assert receipt._cpu() == {
        "kind": "cpu",
        "name": "A",
        "architecture": "x86_64",
        "isa": "avx2",
        "extension": "_C_AVX2",
    }


def test_the_kind_is_an_effective_setting_and_another_one_is_named():
    seen = effective_settings([rank(device={"kind": "cpu", "architecture": "x86_64", "isa": "avx2"})])
    assert seen["isa"] == "avx2"
    assert mismatches({"isa": "avx2"}, seen) == []
    assert mismatches({"isa": "amx"}, seen) == ["isa: requested 'amx', effective 'avx2'"]
    # A lock of before the kind was recorded, or of another architecture, asks for none.
    assert mismatches({"isa": None}, seen) == []
    assert effective_settings([rank()])["isa"] is None
