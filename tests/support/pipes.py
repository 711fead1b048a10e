"""The example queries of PIPES as they are printed, and small auctions to ask them about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reference.semantics import Elements

REGISTERED = """CREATE STREAM OpenAuction(itemID INT, sellerID INT,
                           start_price REAL, timestamp TIMESTAMP)
  SOURCE establishConnection('port34100', 'converter')
  ORDERED BY timestamp;
"""

CLOSING_PRICE = """CREATE STREAM CurrentPrice AS
    SELECT P.itemID, P.price, O.sellerID AS sellerID
    FROM ((SELECT itemID, bid_price AS price
            FROM Bid WINDOW(RANGE 2 DAYS))
          UNION ALL
        (SELECT itemID, start_price AS price
            FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
              ClosedAuction C,
              OpenAuction O WINDOW(RANGE 2 DAYS)
    WHERE P.itemID = C.itemID AND C.itemID = O.itemID;

CREATE STREAM ClosingPriceStream AS
    SELECT itemID, sellerID, MAX(P.price) AS price
    FROM CurrentPrice P,
    GROUP BY P.itemID, P.sellerID;
"""

QUERIES = {
    "QL-02 currency conversion": """SELECT itemID, DolToEuro(bid_price), bidderID
FROM Bid;""",
    "QL-03 selection": """SELECT Bid.*
FROM Bid
WHERE itemID = 1007 OR itemID = 1020
      OR itemID = 2001 OR itemID = 2019
      OR itemID = 1087;""",
    "QL-04 short auctions": """SELECT OpenAuction.*
FROM OpenAuction O WINDOW(RANGE 5 HOURS),
      ClosedAuction C
WHERE O.itemID = C.itemID;""",
    "QL-05 derived stream": """CREATE STREAM HighBid AS
    SELECT itemID, bid_price FROM Bid WHERE bid_price > 40;""",
    "QL-06 closing price": CLOSING_PRICE,
    "QL-07 highest bid": """SELECT itemID, bid_price
FROM   Bid WINDOW(RANGE 10 MINUTES),
WHERE  bid_price = (SELECT MAX(bid_price)
                    FROM BID WINDOW(RANGE 10 MINUTES));""",
    "QL-08 hot items": """SELECT itemID
FROM  (SELECT    B1.itemID AS itemID, COUNT(*) AS num
       FROM      Bid [RANGE 60 MINUTES] B1
       GROUP BY B1.itemID)
WHERE num >= ALL(SELECT COUNT(*)
                  FROM Bid [RANGE 60 MINUTES] B2
                  GROUP BY B2.itemID);""",
    "QL-09 average selling price by seller": f"""{CLOSING_PRICE}
SELECT sellerID, AVG(price)
FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 10)
GROUP BY sellerID;""",
    "QL-10 highest bid of tumbling windows": """SELECT itemID, bid_price
  FROM Bid WINDOW(RANGE 10 MINUTES
                  SLIDE 10 MINUTES)
 WHERE bid_price = (SELECT MAX(bid_price)
                      FROM Bid WINDOW(RANGE 10 MINUTES
                                      SLIDE 10 MINUTES));""",
    "QL-11 new users": """CREATE STREAM NewPersonStream AS
    SELECT P.id, P.name
    FROM   Istream(Person) P;

    SELECT DISTINCT(P.id, P.name)
    FROM   SELECT P.id, P.name
           FROM   NewPersonStream WINDOW(RANGE 12 HOURS) P, OpenAuction O
           WHERE  P.id = O.sellerID;""",
    "QL-12 granularity": """SELECT AVG(temperature)
  FROM sensor WINDOW(RANGE 1 HOUR) GRANULARITY(1 MINUTE);""",
    "QL-13 ranges of quality": """SELECT AVG(temperature)
  FROM sensor WINDOW(RANGE MIN 12 HOURS, MAX 24 HOURS)
        GRANULARITY(COARSEST 2 HOURS, FINEST 10 SECONDS);""",
    "QL-14 ranges of rows": "SELECT COUNT(*) AS n FROM Bid WINDOW(ROWS MIN 50, MAX 200);",
    "QL-14 rows with a slide": "SELECT AVG(bid_price) AS price FROM Bid WINDOW(ROWS 7 SLIDE 3);",
    "QL-14 Istream": "SELECT name FROM Istream(Person);",
    "QL-14 Dstream": "SELECT name FROM Dstream(Person);",
    "QL-14 Rstream": "SELECT name FROM Rstream(Person);",
    "QL-15 Istream of all": "SELECT Istream(itemID, bidderID) FROM Bid [Range Unbounded] WHERE bid_price > 20",
    "QL-15 Rstream of now": "SELECT Rstream(itemID, bidderID) FROM Bid [Now] WHERE bid_price > 20",
}

CHRONONS = {
    "2 DAYS": 20,
    "24 HOURS": 24,
    "12 HOURS": 12,
    "5 HOURS": 5,
    "2 HOURS": 6,
    "1 HOUR": 20,
    "60 MINUTES": 12,
    "10 MINUTES": 10,
    "1 MINUTE": 5,
    "10 SECONDS": 3,
}


def scaled(text: str) -> str:
    """The query with a few microseconds for each of its durations.

    The reference looks at instants one by one, so the hours of the printed queries would take it
    for ever. Their texts are unchanged otherwise, and so are the proportions that matter.
    """
    for duration, chronons in CHRONONS.items():
        text = text.replace(duration, f"{chronons} MICROSECONDS")
    return text


ITEMS = (1007, 1020, 2001, 2019, 1087, *range(1, 12))
ENDURING = 9
"""An auction that lasts for as long as the windows of two days: at its end nothing of it is valid any more."""
Rows = Sequence[Mapping[str, Any]]


def _auctions() -> dict[str, Rows]:
    """Auctions that open every third instant, last for two to eight but for one, and have up to three bids."""
    begins = {item: 3 * place for place, item in enumerate(ITEMS)}
    lasts = {item: 20 if item == ENDURING else 2 + place % 7 for place, item in enumerate(ITEMS)}
    bids = [
        {"itemID": item, "bid_price": 10.1 + 17 * place % 50, "bidderID": number, "timestamp": begins[item] + delay}
        for place, item in enumerate(ITEMS)
        for number, delay in enumerate([1, 1, lasts[item]][: place % 4])
    ]
    opened = [
        {"itemID": item, "sellerID": 7 if place % 6 else 8, "start_price": 5.5 + place, "timestamp": begins[item]}
        for place, item in enumerate(ITEMS)
    ]
    closed = [{"itemID": item, "timestamp": begins[item] + lasts[item]} for item in ITEMS]
    last_of_ten = {"itemID": 2001, "bid_price": 55.5, "bidderID": 9, "timestamp": 19}
    return {"Bid": [*bids, last_of_ten], "OpenAuction": opened, "ClosedAuction": closed}


DATA: dict[str, Rows] = {
    **_auctions(),
    "Person": [
        {"id": 7, "name": "Ada", "registered": 0, "gone": 30},
        {"id": 7, "name": "Ada", "registered": 30, "gone": 60},
        {"id": 9, "name": "Kurt", "registered": 2, "gone": 25},
        {"id": 8, "name": "Grace", "registered": 20, "gone": 45},
        {"id": 8, "name": "Grace", "registered": 40, "gone": 50},
    ],
    "sensor": [{"temperature": 18.5 + 7 * t % 11, "timestamp": t} for t in (0, 1, 1, 4, 6, 13, 15, 30, 31, 58)],
}

STREAMS = {
    "Bid": "itemID INT, bid_price REAL, bidderID INT, timestamp BIGINT) FROM '{}' ORDERED BY timestamp",
    "OpenAuction": "itemID INT, sellerID INT, start_price REAL, timestamp BIGINT) FROM '{}' ORDERED BY timestamp",
    "ClosedAuction": "itemID INT, timestamp BIGINT) FROM '{}' ORDERED BY timestamp",
    "Person": "id INT, name STRING, registered BIGINT, gone BIGINT) FROM '{}' VALID FROM registered TO gone",
    "sensor": "temperature REAL, timestamp BIGINT) FROM '{}' ORDERED BY timestamp",
}


def in_order(name: str) -> Rows:
    return sorted(DATA[name], key=lambda row: row["registered" if name == "Person" else "timestamp"])


def declared(folder: Path) -> str:
    """Statements for all streams, whose rows are written to files of JSON lines."""
    for name in DATA:
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in in_order(name)))
    return "".join(
        f"CREATE STREAM {name} ({rest.format(folder / f'{name}.jsonl')};\n" for name, rest in STREAMS.items()
    )


def elements() -> Elements:
    """The rows with their validities, as the reference takes them."""
    instants = {n: [(r["timestamp"], r["timestamp"] + 1, r) for r in rows] for n, rows in DATA.items() if n != "Person"}
    return {**instants, "Person": [(row["registered"], row["gone"], row) for row in DATA["Person"]]}
