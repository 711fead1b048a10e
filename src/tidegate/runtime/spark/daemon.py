"""Spark's Python daemon, which has imported what workers need before it forks them.

Spark starts it with ``python -m`` (`spark.python.daemon.module`). Without it each worker would import for seconds.
"""

import gc

from pyspark.daemon import manager

import tidegate.physical.common.kernels.numba_dispatch
import tidegate.runtime.spark.tasks  # noqa: F401 - imported for the workers

if __name__ == "__main__":
    # PySpark collects garbage after each task. What was imported is none, so it need not be looked at each time.
    gc.collect()
    gc.freeze()
    manager()
