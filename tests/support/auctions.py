"""Auctions for fault tests: small files, rows that cannot take part, and queries that use all of it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

FILES = 10
BIDS_PER_FILE = 40
AUCTIONS_PER_FILE = 8
TICKS_PER_FILE = 100
DELAY = 20

STREAMS = """
CREATE STREAM bid (auction INT, bidder INT, price DOUBLE, at BIGINT)
  FROM '{folder}/bid' TIMESTAMP BY at UNIT MICROSECONDS DELAY {delay} WITH (files_per_batch = 1);
CREATE STREAM auction (id INT, seller INT, reserve DOUBLE, at BIGINT)
  FROM '{folder}/auction' TIMESTAMP BY at UNIT MICROSECONDS DELAY {delay} WITH (files_per_batch = 1);
"""

QUERIES = """
CREATE STREAM offer AS
  SELECT a.seller, b.price, b.price / a.reserve AS ratio
  FROM bid WINDOW(RANGE 200) b JOIN auction WINDOW(RANGE 500) a ON b.auction = a.id;
SELECT seller, COUNT(*) AS offers, SUM(price) AS total, MAX(ratio) AS best FROM offer GROUP BY seller;
SELECT bidder, AVG(price) AS average FROM bid WINDOW(RANGE 300) GROUP BY bidder;
SELECT auction, price FROM bid WHERE price > 90;
"""
"""A join and a group by another key (two exchanges), a group by (one), and a filter (none)."""


def program(folder: Path) -> str:
    return STREAMS.format(folder=folder, delay=DELAY) + QUERIES


def write_auctions(folder: Path, *, first: int = 0, last: int = FILES, late: bool = True) -> None:
    """Files of both streams; the same file has the same rows, whenever it is written."""
    for number in range(first, last):
        dice = random.Random(number)
        _write(folder / "bid" / f"{number:03d}.csv", number, "auction,bidder,price,at\n", _bids(dice, number, late))
        _write(folder / "auction" / f"{number:03d}.jsonl", number, "", _auctions(dice, number, late))


def _write(path: Path, number: int, head: str, rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text(head + "".join(f"{row}\n" for row in rows))
    # Spark takes files in the order of their times.
    os.utime(draft, (1_700_000_000 + number, 1_700_000_000 + number))
    draft.rename(path)


def _bids(dice: random.Random, number: int, late: bool) -> list[str]:
    rows = [
        f"{dice.randrange(24)},{dice.randrange(5)},{dice.randrange(400) / 4},{time}"
        for time in _times(dice, number, BIDS_PER_FILE)
    ]
    rows.insert(9, f"1,cheap,{number},x")
    return rows + [f"1,2,{number}.5,{_long_ago(number)}"] * late


def _auctions(dice: random.Random, number: int, late: bool) -> list[str]:
    rows = [
        json.dumps({"id": dice.randrange(24), "seller": dice.randrange(4), "reserve": 1 + dice.randrange(64), "at": t})
        for t in _times(dice, number, AUCTIONS_PER_FILE)
    ]
    rows.insert(2, json.dumps({"id": number, "seller": 0, "reserve": 0, "at": number * TICKS_PER_FILE + 50}))
    rows.insert(5, '{"id": 1,')
    return rows + [json.dumps({"id": 1, "seller": 0, "reserve": 1, "at": _long_ago(number)})] * late


def _times(dice: random.Random, number: int, count: int) -> list[int]:
    """Times of a file, in disorder that stays within the delay."""
    begin = number * TICKS_PER_FILE
    step = TICKS_PER_FILE / count
    return [begin + int(i * step) + dice.randrange(DELAY // 2) for i in range(count)]


def _long_ago(number: int) -> int:
    """A time that is late in every file but the first."""
    return number * TICKS_PER_FILE - 3 * TICKS_PER_FILE
