import gc
import subprocess
import sys

import pytest

from suite.agent.lifetime import uncollected
from tests.agent_stack import ROOT


def test_nothing_is_collected_meanwhile_and_what_was_made_is_not_looked_through_again():
    before = gc.get_freeze_count()
    try:
        with uncollected():
            assert not gc.isenabled()
            made = [[n] for n in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(made)
        with pytest.raises(ImportError), uncollected():
            raise ImportError
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_an_end_runs_exit_functions_and_loses_no_output():
    code = """
import atexit, sys, threading, time
from suite.agent.lifetime import leave
atexit.register(print, "last words")
threading.Thread(target=time.sleep, args=(600,)).start()
sys.stdout.write("x" * 100_000 + "\\n")
sys.stderr.write("warned")
leave(7)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert done.returncode == 7
    assert done.stdout == "x" * 100_000 + "\nlast words\n"
    assert done.stderr == "warned"
