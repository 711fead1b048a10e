"""Water collects on machines whose surface is colder than the dew point of the air: the alert, on Spark.

Run `condensation.sql`, and show its alarms and how few readings were kept.

    python examples/condensation/demo.py [--runtime spark|embedded] [--picture FILE.svg]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.catalog.catalog import SourceStream
from tidegate.cli.table import align_table
from tidegate.cli.warnings import Warnings
from tidegate.cli.watch import summary, watch
from tidegate.connectors.generator import Recipe, generate
from tidegate.language.bind.program import bind
from tidegate.session import Session

PROGRAM = Path(__file__).with_name("condensation.sql")
DISTANCE = 10_000_000
"""How far apart readings may be, in microseconds: as in the program."""
SHOWN = 12
WIDTH, HEIGHT, MARGIN = 8.4, 19, 18
"""Size of a character and the margin of the picture, in pixels."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=["spark", "embedded"], default="spark", help="where to run")
    parser.add_argument("--picture", metavar="FILE.svg", type=Path, help="also draw what is printed")
    given, text = parser.parse_args(), PROGRAM.read_text(encoding="utf-8")
    with Session(runtime=given.runtime) as session:
        print("Two hundred machines: does water collect on one of them?", file=sys.stderr)
        running = session.sql(text, once=True)
        assert running is not None
        watch(running, Warnings(), quiet=False, enough=lambda: False)
        progress, alarms, omitted = running.progress(), running.results(), running.metadata().omissions
    print(summary(progress, None), file=sys.stderr)
    shown = (
        f"{described(alarms)}\n\n"
        f"omitted: {', '.join(map(omission_text, omitted.to_pylist()))}\n"
        f"kept at most {progress.peak_state_rows:,} of {progress.rows_in:,} tuples at a time; "
        f"Spark's own join would have kept {kept_by_spark(text):,}"
    )
    print(shown)
    if given.picture is not None:
        given.picture.write_text(
            to_svg([f"$ ./dev demo --runtime {given.runtime}", *shown.splitlines()]), encoding="utf-8"
        )


def described(alarms: pa.Table) -> str:
    """Return a text with the first alarm of each incident, and the numbers of alarms and incidents."""
    first = alarms.filter(pc.equal(alarms["alarm"], 1)).sort_by("valid_from")
    dew_point = pc.add(first["s_value"], first["value"])
    table = pa.table(
        {
            "when": pc.strftime(first["incident"].cast(pa.timestamp("s", "UTC"), safe=False), "%H:%M:%S"),
            "machine": first["machine"],
            "humidity %": _rounded(first["h_value"], 1),
            "air °C": _rounded(first["a_value"], 2),
            "dew point °C": _rounded(dew_point, 3),
            "surface °C": _rounded(first["s_value"], 3),
        }
    )
    more = f"… and {table.num_rows - SHOWN} more incidents\n" if table.num_rows > SHOWN else ""
    machines = len(pc.unique(first["machine"]))
    counted = f"{alarms.num_rows:,} alarms of {table.num_rows:,} incidents on {machines:,} machines"
    return f"{align_table(table.slice(0, SHOWN))}{more}{counted}"


def omission_text(row: Mapping[str, Any]) -> str:
    """Return what the alert omitted of a stream.

    Examples
    --------
    >>> omission_text({"stream": "air", "rows": 400, "omitted": 300, "share": 0.75})
    'air 300 (75.0 %)'
    """
    return f"{row['stream']} {row['omitted']:,} ({100 * row['share']:.1f} %)"


def _rounded(column: pa.ChunkedArray, digits: int) -> pa.ChunkedArray:
    return pc.round(column, digits)


def kept_by_spark(text: str) -> int:
    """Return the most readings that a join must keep after any micro-batch if it cannot know which matter.

    These are the readings that are not older than the watermark minus the distance. Spark's own join keeps
    at least these: it joins two streams at a time, so it also keeps pairs of readings.
    """
    catalog = bind(text).catalog
    streams = [stream for stream in catalog if isinstance(stream, SourceStream)]
    recipes = [Recipe.of(stream) for stream in streams]
    times = [_times(stream, recipe.rows) for stream, recipe in zip(streams, recipes, strict=True)]
    most = 0
    for end in range(recipes[0].batch, recipes[0].rows + 1, recipes[0].batch):
        seen = [each[:end] for each in times]
        watermark = min(int(each.max()) - stream.delay for each, stream in zip(seen, streams, strict=True))
        most = max(most, sum(int(np.count_nonzero(each >= watermark - DISTANCE)) for each in seen))
    return most


def _times(stream: SourceStream, rows: int) -> np.ndarray:
    table = generate(stream, 0, rows, columns=frozenset())
    times: np.ndarray = table.column(stream.time_column).cast(pa.int64()).to_numpy()
    return times


def to_svg(lines: list[str]) -> str:
    """Return an SVG with one line of text below the other, in a font of fixed width.

    Examples
    --------
    >>> to_svg(["a < b"]).splitlines()[3]
    '<text x="18" y="33" xml:space="preserve">a &lt; b</text>'
    """
    width = round(2 * MARGIN + WIDTH * max(map(len, lines)))
    height = 2 * MARGIN + HEIGHT * len(lines)
    texts = [
        f'<text x="{MARGIN}" y="{MARGIN + HEIGHT * number - 4}" xml:space="preserve">{escape(line, quote=False)}</text>'
        for number, line in enumerate(lines, 1)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">',
            f'<rect width="{width}" height="{height}" rx="8" fill="#14212b"/>',
            '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#d7e3ea">',
            *texts,
            "</g>",
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    main()
