"""Memory that a step frees is kept for the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from tidegate.runtime.freed_memory import keep_freed_memory
assert {kept} is keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    np.ones(250_000)
before = faults()
for _ in range(10):
    np.ones(250_000)
print((faults() - before) * resource.getpagesize() // 2_000_000)
"""
"""Prints how many of ten arrays of 2 MB needed new pages."""


def new_arrays(*, kept: bool, **settings: str) -> int:
    environment = {**os.environ, **settings}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(kept=kept)], env=environment, capture_output=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux has mallopt")
def test_pages_of_freed_arrays_are_used_again():
    assert new_arrays(kept=True) == 0


def test_users_decide_by_the_environment():
    assert new_arrays(kept=False, MALLOC_MMAP_THRESHOLD_="1000000", MALLOC_TRIM_THRESHOLD_="1000000") > 5
