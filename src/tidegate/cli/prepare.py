"""Compile what queries need before they need it, with a line for each part."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from time import perf_counter

from tidegate.runtime.prepare import SAMPLES, prepare_kernels


def prepare_environment() -> None:
    """Compile the kernels, and make Java's class archive; say what is done on standard error."""
    began = perf_counter()
    for number, feature in enumerate(prepare_kernels(), 1):
        _say(f"compiled {number} of {len(SAMPLES)}: {feature}")
    if find_spec("pyspark") is not None:
        _prepare_java()
    _say(f"ready, after {perf_counter() - began:.0f} seconds")


def _prepare_java() -> None:
    from tidegate.runtime.spark.class_archive import archive_path
    from tidegate.runtime.spark.java import ensure_java
    from tidegate.runtime.spark.store_classes import store_classes

    if not archive_path(ensure_java()).is_file():
        _say("storing the classes of Spark's Java process")
        store_classes()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
