"""Spark's Python daemon, which has imported what workers need before it forks them.

Spark starts it with ``python -m`` (`spark.python.daemon.module`). Without it each worker would import for seconds.
"""

import gc

from pyspark import daemon

import tidegate.physical.common.kernels.numba_dispatch
import tidegate.runtime.spark.tasks  # noqa: F401 - imported for the workers
from tidegate.runtime.freed_memory import keep_freed_memory


class YoungGarbage:
    """Collects the garbage of a task, for PySpark, which collects all garbage after each task.

    A worker keeps plans, compiled kernels and states: to look at all of them takes as long as a small step. Python
    still collects old garbage from time to time.
    """

    @staticmethod
    def collect() -> int:
        return gc.collect(1)


if __name__ == "__main__":
    # What was imported is no garbage, so it need not be looked at.
    gc.collect()
    gc.freeze()
    keep_freed_memory()
    daemon.gc = YoungGarbage  # type: ignore[assignment]
    daemon.manager()
