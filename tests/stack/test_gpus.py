import pytest

from suite.stack.gpus import GPUS, find_gpu, names


def test_names_find_their_gpu() -> None:
    assert [find_gpu(name) for name in names()] == list(GPUS)
    assert find_gpu("RTX 9090") is None


@pytest.mark.parametrize(
    ("name", "sm", "mib"),
    [("RTX 5090", "SM120", 32_153), ("H200 SXM", "SM90", 143_771), ("B200 SXM", "SM100", 184_320)],
)
def test_facts(name: str, sm: str, mib: int) -> None:
    gpu = find_gpu(name)
    assert gpu is not None
    assert (gpu.sm, gpu.memory_mib) == (sm, mib)
