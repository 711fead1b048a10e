"""Programs that join streams along keys, with rows for them: any graph, any constraints, any order within a delay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import pyarrow as pa
from reference.adherence import (
    Arrival,
    Unit,
    clustering_distances,
    exact_k,
    join_distances,
    scrambling_distances,
)
from reference.semantics import Elements

from tidegate.schema import Type

NAMES = ("a", "b", "c", "d")
LENGTHS = (2, 4, 8, 12, 30)
NUMBERS = (Type.INT, Type.BIGINT, Type.DOUBLE)
Values = Mapping[str, object]
Columns = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]
Distances = Callable[[Sequence[Arrival], Unit], list[int]]


@dataclass(frozen=True)
class Row:
    """A row of a stream; it arrives behind those before it."""

    stream: str
    time: int
    end: int
    values: Values


@dataclass(frozen=True)
class Stream:
    """What is declared of a stream but for constraints; where it is `lasting`, rows say when they end."""

    name: str
    type: Type
    key: Columns
    lasting: bool

    def text(self, constraints: Sequence[str], delay: int, options: str) -> str:
        name = self.type.name
        valid = "VALID FROM at TO till" if self.lasting else "TIMESTAMP BY at"
        key = f" KEY ({', '.join(self.key)})" if self.key else ""
        columns = f"k {name}, j {name}, v INT, at BIGINT, till BIGINT"
        said = f"{valid} DELAY {delay} MICROSECONDS{key} {' '.join(constraints)}{options}"
        return f"CREATE STREAM {self.name} ({columns}) FROM '{{folder}}/{self.name}' {said};\n"

    def table(self, rows: Sequence[Row]) -> pa.Table:
        columns = {c: pa.array([row.values[c] for row in rows], self.type.arrow) for c in "kj"}
        columns["v"] = pa.array([row.values["v"] for row in rows], pa.int32())
        times = {"at": [row.time for row in rows], "till": [row.end for row in rows]}
        return pa.table(columns | {name: pa.array(each, pa.int64()) for name, each in times.items()})


@dataclass(frozen=True)
class Equality:
    """Columns of two places of the query that must be equal, pair by pair."""

    one: int
    other: int
    pairs: Pairs


@dataclass(frozen=True)
class World:
    """Streams, a query that joins them, and rows that keep the keys, in the order of their arrival."""

    random: Random
    streams: Mapping[str, Stream]
    places: tuple[str, ...]
    equalities: tuple[Equality, ...]
    query: str
    rows: tuple[Row, ...]
    delay: int
    last: int
    """No row has a later time."""

    @cached_property
    def elements(self) -> Elements:
        found: dict[str, list[tuple[int, int, Values]]] = {name: [] for name in self.streams}
        for row in self.rows:
            end = row.end if self.streams[row.stream].lasting else row.time + 1
            found[row.stream].append((row.time, end, {**row.values, "at": row.time, "till": row.end}))
        return found

    @property
    def keeping_keys(self) -> World:
        """Without all rows that have the key of another one."""
        keys = Counter((row.stream, self._key(row)) for row in self.rows)
        return replace(self, rows=tuple(row for row in self.rows if keys[row.stream, self._key(row)] == 1))

    def _key(self, row: Row) -> object:
        """The key of a row; where there is none, and where it has a NULL, rows are never equal."""
        values = tuple(row.values[column] for column in self.streams[row.stream].key)
        return values if values and None not in values else id(row)

    def declared(self, more: int, share: float, options: str = "") -> str:
        """Statements that create the streams, with constraints that hold if `more` is not less than 0."""
        said: dict[str, list[str]] = {name: [] for name in self.streams}
        for stream, text in self._constraints(more):
            if self.random.random() < share and text not in said[stream]:
                said[stream].append(text)
        return "".join(each.text(said[name], self.delay, options) for name, each in self.streams.items())

    def _constraints(self, more: int) -> list[tuple[str, str]]:
        """All that can be said along the equalities, each in rows or in time."""
        found: dict[tuple[str, str], str] = {}
        for each in self.equalities:
            pairs = each.pairs
            for parent, child, columns in (
                (self.places[each.one], self.places[each.other], pairs),
                (self.places[each.other], self.places[each.one], tuple((b, a) for a, b in pairs)),
            ):
                for text, distances in self._said(parent, child, columns):
                    found[parent, text] = self._within(distances, more)
        return [(stream, f"{text} {within}") for (stream, text), within in found.items()]

    def _said(self, parent: str, child: str, pairs: Pairs) -> Iterator[tuple[str, dict[Unit, int]]]:
        """Constraints of the parents' stream, and the least reaches for which they hold."""
        own, theirs = (tuple(pair[side] for pair in pairs) for side in (0, 1))
        columns = ", ".join(own)
        yield (
            f"CONSTRAINT ({columns}) REFERENCES {child} ({', '.join(theirs)})",
            self._least(join_distances, lambda rows: _both(rows, parent, own, child, theirs)),
        )
        yield f"CLUSTERED BY ({columns})", self._least(clustering_distances, lambda rows: _coded(rows, parent, own))
        if len(own) == 1 and self.streams[parent].type is not Type.STRING:
            order = self._least(scrambling_distances, lambda rows: _ordered(rows, parent, own[0]))
            yield f"ORDERED BY {columns}", order

    def _least(self, distances: Distances, sequence: Callable[[Sequence[Row]], list[Arrival]]) -> dict[Unit, int]:
        in_time = sorted(self.rows, key=lambda row: row.time)  # there the order of arrival does not matter
        return {
            "rows": exact_k(distances(sequence(self.rows), "rows")),
            "time": exact_k(distances(sequence(in_time), "time")),
        }

    def _within(self, least: Mapping[Unit, int], more: int) -> str:
        unit: Unit = self.random.choice(["rows", "time"])
        reach = max(least[unit] + more, 0)
        return f"WITHIN {reach} {'ROWS' if unit == 'rows' else 'MICROSECONDS'}"


def _both(rows: Sequence[Row], parent: str, own: Columns, child: str, theirs: Columns) -> list[Arrival]:
    """Parents and children as they arrive; a row may be both, and be its own child."""
    code, found = _Codes(), []
    for row in rows:
        if row.stream == child:
            found.append(Arrival("C", code(row, theirs), row.time))
        if row.stream == parent:
            found.append(Arrival("P", code(row, own), row.time))
    return found


def _coded(rows: Sequence[Row], stream: str, columns: Columns) -> list[Arrival]:
    code = _Codes()
    return [Arrival("S", code(row, columns), row.time) for row in rows if row.stream == stream]


def _ordered(rows: Sequence[Row], stream: str, column: str) -> list[Arrival]:
    """NULL is neither less nor more than others: it stands for the greatest before it."""
    found, greatest = [], -100
    for row in rows:
        if row.stream == stream:
            value = row.values[column]
            number = greatest if value is None else int(float(str(value)))
            greatest = max(greatest, number)
            found.append(Arrival("S", number, row.time))
    return found


class _Codes:
    """Numbers for keys; NULL equals nothing."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}

    def __call__(self, row: Row, columns: Columns) -> int:
        key: object = tuple(row.values[column] for column in columns)
        if any(row.values[column] is None for column in columns):
            key = object()
        return self.known.setdefault(key, len(self.known))


# ---- drawing


def world_of(
    random: Random, *, most: int = 4, last: int = 24, repeats: int = 0, prefix: str = "", unbounded: float = 0.0
) -> World:
    """A connected graph over two to so many streams; a stream may be read at several places.

    A number of rows are repeated at another time, so keys do not hold. A share of the windows is unbounded.
    """
    words = random.random() < 0.3
    names = [f"{prefix}{name}" for name in NAMES[: min(random.choice([2, 2, 3, 3, 4]), most)]]
    streams = {name: _stream(random, name, words=words) for name in names}
    places = [*streams, *random.choices(list(streams), k=max(random.choice([0, 0, 0, 1]) + 2 - len(streams), 0))]
    equalities = _equalities(random, len(places), common=random.random() < 0.4)
    delay = random.choice([0, 0, 1, 3])
    rows = [row for each in streams.values() for row in _rows(random, each, last)]
    rows += [_again(row, random.randint(row.time, last)) for row in random.choices(rows, k=repeats)]
    rows.sort(key=lambda row: row.time + random.randint(0, delay))
    query = _query(random, places, streams, equalities, unbounded)
    return World(random, streams, tuple(places), tuple(equalities), query, tuple(rows), delay, last)


def _again(row: Row, time: int) -> Row:
    return replace(row, time=time, end=row.end + time - row.time)


def _stream(random: Random, name: str, *, words: bool) -> Stream:
    key = random.choice([("k",)] * 5 + [("j",), ("k", "j"), ()])
    return Stream(name, Type.STRING if words else random.choice(NUMBERS), key, random.random() < 0.2)


def _equalities(random: Random, places: int, *, common: bool) -> list[Equality]:
    """All are connected; there may be more, so that there are several ways, and cycles."""
    pairs = [(random.randrange(place), place) for place in range(1, places)]
    pairs += [(random.randrange(places), random.randrange(places)) for _ in range(random.choice([0, 0, 2, 3]))]
    found = []
    for one, other in dict.fromkeys((one, other) for one, other in pairs if one < other):
        columns: list[tuple[str, str]] = [("k", "k")]
        if not common:
            columns = [random.choice([("k", "k"), ("j", "k"), ("k", "j"), ("j", "k"), ("j", "j")])]
        if random.random() < 0.2:
            columns = [("k", "k"), ("j", "j")]
        found.append(Equality(one, other, tuple(columns)))
    return found


def _rows(random: Random, stream: Stream, last: int) -> list[Row]:
    """Rows no two of which agree in the key; most keys rise with time."""
    found: list[Row] = []
    seen: set[tuple[object, ...]] = set()
    for _ in range(last * random.choice([1, 2, 3]) // 4):
        time = random.randint(0, last)
        tries = [{c: _value(random, stream.type, time, last) for c in "kj"} for _ in range(4)]
        for values in tries:
            key = tuple(values[c] for c in stream.key)
            if not stream.key or key not in seen or None in key:
                seen.add(key)
                more = {"v": random.choice([0, 1, 2, None])}
                found.append(Row(stream.name, time, time + random.choice(LENGTHS), {**values, **more}))
                break
    return found


def _value(random: Random, type_: Type, time: int, last: int) -> object:
    if random.random() < 0.02:
        return None
    number = max(time // 3 + random.randint(-1, 1), 0) if random.random() < 0.9 else random.randint(0, last // 3)
    match type_:
        case Type.STRING:
            return f"{number}."
        case Type.DOUBLE:
            return float(number)
    return number


def _query(
    random: Random,
    places: Sequence[str],
    streams: Mapping[str, Stream],
    equalities: Sequence[Equality],
    unbounded: float,
) -> str:
    read, terms = [], []
    for at, name in enumerate(places):
        window = " WINDOW(RANGE UNBOUNDED)" if unbounded and random.random() < unbounded else _window(random)
        read.append(f"{name} p{at}{'' if streams[name].lasting else window}")
        if random.random() < 0.2:
            terms.append(f"p{at}.v {random.choice(['<', '<>'])} 2")
    for each in equalities:
        terms += [f"p{each.one}.{a} = p{each.other}.{b}" for a, b in each.pairs]
    if random.random() < 0.1:
        terms.append("p0.v <> p1.v")
    chosen = [f"p{at}.{column} AS {column}{at}" for at in range(len(places)) for column in ("k", "j", "v", "at")]
    if random.random() < 0.5:
        chosen = random.sample(chosen, random.randint(1, len(chosen)))
    return f"SELECT {', '.join(chosen)} FROM {', '.join(read)} WHERE {' AND '.join(terms)}"


def _window(random: Random) -> str:
    if random.random() < 0.3:
        return f" WINDOW(ROWS {random.choice([1, 1, 2, 3, 5, 20])})"
    if random.random() < 0.15:
        return " WINDOW(RANGE 1000)"
    slide = " SLIDE 2" if random.random() < 0.15 else ""
    return f" WINDOW(RANGE {random.choice(LENGTHS)}{slide})"


def cuts_of(random: Random, world: World, most: int | None = None) -> list[dict[str, list[Row]]]:
    """The rows of each step, by stream; at most so many in a step."""
    steps, begin = [], 0
    size = most or random.choice([2, 3, 8, 100])
    while begin < len(world.rows):
        end = begin + random.randint(1, size)
        some = world.rows[begin:end]
        steps.append({name: [row for row in some if row.stream == name] for name in world.streams})
        begin = end
    return steps
