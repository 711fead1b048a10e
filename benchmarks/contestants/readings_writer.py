"""Append readings to a file at the moments when they are due, until it is ended.

Arguments: the file, rows per second, and the time of the first row, in seconds since 1970. Rows of ten milliseconds
are written together. The same readings come again every ten seconds, with later times.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.support.live_queries import readings

FLUSH = 0.01
PREPARED = 1_000
"""Number of chunks that are prepared."""


def main() -> None:
    path, rows_per_s, begin = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    rows = round(rows_per_s * FLUSH)
    columns = [column.to_numpy() for column in readings(rows * PREPARED, 0, rows_per_s, 7).columns]
    first, rest = columns[0], columns[1:]
    texts = [",".join(map(str, fields)) for fields in zip(*(each.tolist() for each in rest), strict=True)]
    with path.open("ab", 0) as file:
        number = 0
        while True:
            time.sleep(max(0.0, begin + (number + 1) * FLUSH - time.time()))
            chosen = slice(number % PREPARED * rows, (number % PREPARED + 1) * rows)
            since = round(begin * 1_000_000) + number // PREPARED * round(PREPARED * FLUSH * 1_000_000)
            times = (first[chosen] + np.int64(since)).tolist()
            pairs = zip(times, texts[chosen], strict=True)
            file.write("".join(f"{at},{text}\n" for at, text in pairs).encode())
            number += 1


if __name__ == "__main__":
    main()
