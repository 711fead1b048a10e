"""Append readings to the files of two streams at the moments when they are due.

Arguments: folder, rows per second of both streams together, seconds, and the time of the first row, in seconds
since 1970. A row's time is when it is due. Rows of five milliseconds are written together, after the last of
them is due: a row waits for at most that long, and that counts as latency.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

FLUSH = 0.005
KEYS = 100


def chunks(rows_per_s: int, seconds: float, begin: float) -> list[tuple[float, bytes, bytes]]:
    """When to write, and what to write to each file; rows of the two streams alternate."""
    generator = random.Random(5)
    found, written = [], 0
    for number in range(1, round(seconds / FLUSH) + 1):
        end = round(number * FLUSH * rows_per_s)
        lines: tuple[list[str], list[str]] = ([], [])
        for row in range(written, end):
            at = round((begin + row / rows_per_s) * 1_000_000)
            lines[row % 2].append(f"{row // 2},{generator.randrange(KEYS)},{generator.random():.9f},{at}\n")
        written = end
        a, b = ("".join(some).encode() for some in lines)
        found.append((begin + number * FLUSH, a, b))
    return found


def main() -> None:
    folder, rows_per_s, seconds, begin = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    prepared = chunks(rows_per_s, seconds, begin)
    late = 0.0
    with (folder / "a" / "all.csv").open("ab", 0) as a, (folder / "b" / "all.csv").open("ab", 0) as b:
        for due, to_a, to_b in prepared:
            time.sleep(max(0.0, due - time.time()))
            a.write(to_a)
            b.write(to_b)
            late = max(late, time.time() - due)
    print(late)


if __name__ == "__main__":
    main()
