"""Writes the shared data of the golden tests: python tests/golden/make_data.py.

Always the same rows. Times have ties, and rows come in disorder, but never later than the delay
that the queries declare. Some values are NULL.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).parent / "data"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
CATEGORIES = ("art", "books", "coins", "toys", "")
CITIES = ("Kiel", "Ulm", "Jena", "Köln", None)
NAMES = ("Ada", "Ben", "Cleo", "Dörte", "Emil", "O'Hara", 'Gus "the bid"', "Hi, Lo", "Ida", "Jo")
ROOMS = ("attic", "cellar", "hall", None)

Row = dict[str, object]


def main() -> None:
    draw = random.Random(20260101)
    opened = open_auctions(draw)
    write_csv("open_auction.csv", opened, delay=1800)
    write_csv("closed_auction.csv", closed_auctions(draw, opened), delay=1800)
    write_csv("bid.csv", bids(draw, opened), delay=300)
    write_json("person.jsonl", people(draw), delay=900)
    write_csv("temperature.csv", temperatures(draw), delay=5)
    write_parquet("humidity.parquet", humidities(draw), delay=5)
    write_csv("meter.csv", meters(draw), delay=0)
    write_csv("pulse.csv", pulses(draw), delay=3, clock=lambda row: float(str(row["at"])))
    write_json("post.jsonl", posts(draw), delay=10)
    for which in ("wet_end", "dry_end"):
        write_csv(f"{which}.csv", thicknesses(draw), delay=2)


def open_auctions(draw: random.Random) -> list[Row]:
    return [
        {
            "item_id": 1000 + number,
            "seller_id": draw.randint(1, 12),
            "start_price": draw.choice((0.5, 1.25, 5.0, 10.0, 19.99)),
            "category": draw.choice(CATEGORIES),
            "at": NEW_YEAR + timedelta(minutes=10 * draw.randint(0, 100)),
        }
        for number in range(60)
    ]


def closed_auctions(draw: random.Random, opened: Sequence[Row]) -> list[Row]:
    """Most auctions end, once, after up to ten hours; without a buyer where nobody would pay."""
    return [
        {
            "item_id": row["item_id"],
            "buyer_id": draw.choice((None, *range(1, 13))),
            "at": time_of(row) + timedelta(minutes=15 * draw.randint(1, 40)),
        }
        for row in opened
        if draw.random() < 0.85
    ]


def bids(draw: random.Random, opened: Sequence[Row]) -> list[Row]:
    def bid() -> Row:
        auction = draw.choice(opened)
        return {
            "item_id": auction["item_id"],
            "bidder_id": draw.randint(1, 12),
            "price": draw.choice((None, *(round(draw.uniform(1, 100), 2) for _ in range(9)))),
            "channel": draw.choice(("app", "web", "web mobile", None)),
            "at": time_of(auction) + timedelta(seconds=30 * draw.randint(0, 400)),
        }

    return [bid() for _ in range(150)]


def people(draw: random.Random) -> list[Row]:
    def person(number: int) -> Row:
        name, city = draw.choice(NAMES), draw.choice(CITIES)
        at = NEW_YEAR + timedelta(minutes=5 * draw.randint(0, 60))
        row: Row = {"person_id": number, "name": name, "city": city, "address": {"street": draw.randint(1, 9)}}
        return {**row, **({"email": f"{name.lower()}@example.org"} if draw.random() < 0.7 else {}), "at": at}

    return [person(number % 14 + 1) for number in range(60)]


def temperatures(draw: random.Random) -> list[Row]:
    return [
        {
            "sensor": draw.randint(1, 5),
            "room": draw.choice(ROOMS),
            "celsius": draw.choice((None, *(round(draw.gauss(20, 4), 1) for _ in range(7)))),
            "at": NEW_YEAR + timedelta(seconds=draw.randint(0, 240)),
        }
        for _ in range(150)
    ]


def humidities(draw: random.Random) -> list[Row]:
    return [
        {
            "sensor": draw.randint(1, 5),
            "percent": draw.choice((None, *(draw.randint(20, 95) for _ in range(7)))),
            "unit": draw.choice(("rel", "abs")),
            "at": NEW_YEAR + timedelta(seconds=draw.randint(0, 240)),
        }
        for _ in range(120)
    ]


def meters(draw: random.Random) -> list[Row]:
    """Numbers and texts with which arithmetic and casts go wrong here and there."""
    return [
        {
            "meter": draw.randint(1, 4),
            "ticks": draw.choice((draw.randint(-1000, 1000), 2**62, -(2**63), 2**63 - 1)),
            "divisor": draw.choice((0, 1, 2, 3, None, -1)),
            "code": draw.choice(("7", " 42 ", "x", "1e3", "", None, "99999999999")),
            "at": NEW_YEAR + timedelta(seconds=draw.randint(0, 100)),
        }
        for _ in range(80)
    ]


def pulses(draw: random.Random) -> list[Row]:
    """Times as numbers of microseconds, around 1970."""
    return [{"kind": draw.choice("abc"), "size": draw.randint(-3, 3), "at": draw.randint(-40, 40)} for _ in range(90)]


def posts(draw: random.Random) -> list[Row]:
    """Texts and numbers in arrays, some of them empty, with repetitions and NULL."""

    def some(values: Sequence[object]) -> list[object] | None:
        return None if draw.random() < 0.1 else [draw.choice(values) for _ in range(draw.randint(0, 5))]

    return [
        {
            "post_id": number,
            "words": some(("tide", "gate", "salt", "sand", "", None)),
            "topics": some((1, 2, 3, 4, 5, None)),
            "at": NEW_YEAR + timedelta(seconds=draw.randint(0, 300)),
        }
        for number in range(120)
    ]


def thicknesses(draw: random.Random) -> list[Row]:
    """What a sensor at one end of a paper machine measures, in hundredths of a millimetre."""
    return [
        {
            "reel": draw.randint(1, 3),
            "thickness": draw.choice((None, *(round(draw.gauss(10, 1.5), 1) for _ in range(9)))),
            "at": NEW_YEAR + timedelta(milliseconds=500 * draw.randint(0, 240)),
        }
        for _ in range(100)
    ]


def time_of(row: Row) -> datetime:
    at = row["at"]
    assert isinstance(at, datetime)
    return at


def disordered(rows: Sequence[Row], delay: float, clock: Callable[[Row], float]) -> list[Row]:
    """Each row waits for up to the delay, so that it comes before all rows later by more than that."""
    draw = random.Random(len(rows))
    waits = {id(row): draw.uniform(0, delay) for row in rows}
    return sorted(rows, key=lambda row: clock(row) + waits[id(row)])


def seconds(row: Row) -> float:
    return (time_of(row) - NEW_YEAR).total_seconds()


def text(value: object) -> object:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def write_csv(name: str, rows: Sequence[Row], *, delay: float, clock: Callable[[Row], float] = seconds) -> None:
    with (DATA / name).open("w", newline="", encoding="utf-8") as file:
        file.write(",".join(rows[0]) + "\n")
        for row in disordered(rows, delay, clock):
            file.write(",".join(field(text(value)) for value in row.values()) + "\n")


def field(value: object) -> str:
    """NULL is empty, an empty text stands in quotes."""
    if value is None:
        return ""
    shown = str(value)
    needs_quotes = not shown or set(shown) & set(',"') or shown != shown.strip()
    return '"' + shown.replace('"', '""') + '"' if needs_quotes else shown


def write_json(name: str, rows: Sequence[Row], *, delay: float) -> None:
    objects = [{k: text(v) for k, v in row.items()} for row in disordered(rows, delay, seconds)]
    lines = [json.dumps(each, ensure_ascii=False) for each in objects]
    (DATA / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_parquet(name: str, rows: Sequence[Row], *, delay: float) -> None:
    types = pa.schema(
        [("sensor", pa.int32()), ("percent", pa.int32()), ("unit", pa.string()), ("at", pa.timestamp("us", "UTC"))]
    )
    pq.write_table(pa.Table.from_pylist(disordered(rows, delay, seconds), types), DATA / name, row_group_size=40)


if __name__ == "__main__":
    main()
