"""Machine code on disk is compiled again after a change of any source that may be compiled into it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numba
from support.paths import ROOT

from benchmarks.baselines import tracking_heaps
from tidegate.connectors import quoted_lines
from tidegate.physical.join.kernels import search


def stamped(function) -> set[Path]:
    return {Path(path) for path, _, _ in function.machine_code._cache._cache_file._source_stamp}


def test_a_kernel_depends_on_the_sources_of_all_kernels():
    kernels = set((ROOT / "src/tidegate/physical").glob("*/kernels/*.py"))
    assert len(kernels) > 80
    assert stamped(search._search) == kernels


def test_a_kernel_of_another_folder_depends_on_those_next_to_it_as_well():
    for function in (quoted_lines.record_starts, tracking_heaps.change_key):
        own = Path(function.__wrapped__.__code__.co_filename)
        assert stamped(function) == stamped(search._search) | set(own.parent.glob("*.py"))


def test_an_index_that_names_a_class_that_has_gone_is_out_of_date_and_no_error(tmp_path, monkeypatch):
    kernel: Any = search._search
    index = kernel.machine_code._cache._cache_file
    monkeypatch.setattr(index, "_index_path", str(tmp_path / "old.nbi"))
    gone = b"cdatetime\nnever_was\n."  # a pickle of a class that does not exist
    (tmp_path / "old.nbi").write_bytes(pickle.dumps(f"{numba.__version__} of another tree", protocol=-1) + gone)
    assert index._load_index() == {}
