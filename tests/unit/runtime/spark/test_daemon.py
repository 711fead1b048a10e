"""After each task, workers collect the garbage of the task, and not what they have kept for long."""

from __future__ import annotations

import gc
import weakref

from tidegate.runtime.spark.daemon import YoungGarbage


class Node:
    """An object that refers to itself, so that only the collector removes it."""

    def __init__(self) -> None:
        self.me = self


def test_only_young_garbage_is_collected():
    gc.collect()
    old = Node()
    gc.collect()  # moves what is in use to the oldest generation
    young = Node()
    gone_old, gone_young = weakref.ref(old), weakref.ref(young)
    del old, young
    YoungGarbage.collect()
    assert gone_young() is None
    assert gone_old() is not None
    gc.collect()
    assert gone_old() is None
