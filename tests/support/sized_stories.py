"""Stories of live queries whose windows change: a hook decides sizes, and the rows on quality say which."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from reference.members import Elements, Sizes
from reference.semantics import relations_of
from reference.size_columns import with_sizes_in_force

from support.live import Row, SteppedSession
from support.stories import DELAY, FAR, Interval, Story
from tidegate.algebra.adaptable import Adaptable, is_adaptable
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.size_columns import SizeColumn
from tidegate.language.bind.program import bind
from tidegate.optimizer.quality import SizeBounds
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adapt, Adaptation, AdjustedWindow
from tidegate.runtime.quality import QUALITY
from tidegate.time import BEGINNING

QUERIES = (
    "SELECT k, v FROM a WINDOW(RANGE MIN 2, MAX 9)",
    "SELECT k, v FROM a WINDOW(ROWS MIN 1, MAX 3)",
    """SELECT x.k AS k, y.v AS v FROM a WINDOW(RANGE MIN 3, MAX 8) AS x, b WINDOW(RANGE MIN 1, MAX 6) AS y
       WHERE x.k = y.k""",
    """SELECT k, CAST(COUNT(*) AS INT) AS v FROM a WINDOW(RANGE MIN 3, MAX 8) GRANULARITY(COARSEST 6, FINEST 2)
       GROUP BY k""",
    "SELECT k, CAST(COUNT(*) AS INT) AS v FROM b WINDOW(RANGE MIN 1, MAX 6 SLIDE 3) GROUP BY k",
    """SELECT k, CAST(ROUND(COUNT(*)) AS INT) AS v FROM b WINDOW(RANGE MIN 2, MAX 6) GROUP BY k
       WITH (shedding = sample, approximate = yes)""",
    "SELECT a.k, c.w AS v FROM a WINDOW(RANGE MIN 2, MAX 9), c WHERE a.k = c.k",
)

QUERIES_LATER = tuple(text for text in QUERIES if "ROWS" not in text)
"""Those that can begin when rows were read: how long rows of a count window stay is not known."""


def random_adapt(seed: int) -> Adapt:
    """A hook that now and then gives each window another size. It forgets what it has decided before."""
    dice = random.Random(seed)

    def adapt(adaptation: Adaptation) -> Mapping[str, SizeHistory]:
        chosen = {}
        for key, window in adaptation.windows.items():
            bounds = window.bounds
            allowed = bounds.chain or range(bounds.worst, bounds.best + 1)
            if dice.random() < 0.6:
                chosen[key] = adaptation.change(key, dice.choice(allowed), "by chance")
        return chosen

    return adapt


def open_sized(seed: int) -> Callable[[Path, dict[str, list[Row]], int], SteppedSession]:
    return lambda folder, results, buckets: SteppedSession(folder, results, buckets, random_adapt(seed))


class QualityRow(NamedTuple):
    """A row on quality."""

    query: str
    window: str
    valid_from: int | None
    size: int
    best: int
    worst: int
    reason: str


@dataclass
class SizedStory(Story):
    """A story in which the sizes of each query are those that the rows on quality say."""

    def sizes_of(self, name: str, plan: Plan) -> Sizes:
        """The sizes of the windows of a query; at each instant the row counts that was published last."""
        found: dict[Plan, Sequence[tuple[int, int]]] = {}
        for node in walk(plan):
            if is_adaptable(node):
                assert isinstance(node, Adaptable)
                text = AdjustedWindow(node, SizeBounds(0, 0, "range"), ()).text
                rows = [(row.query, _begin_of(row), row.size) for row in self.quality if row.window == text]
                own = min((begin for query, begin, _ in rows if query == name), default=BEGINNING)
                # A query that came later shares the elements of before, whose sizes were published for others.
                changes = [(begin, size) for query, begin, size in rows if query == name or begin < own]
                found[node] = last_published(changes)
        return found

    def finish(self) -> None:
        # A count window reports an element when as many have come after it.
        self.arrive("a", [(FAR, 9, 9), *[(DELAY + 1, 9, 9)] * 4])
        super().finish()

    def check_rows(self) -> None:
        """Each change was published once, to each of its queries."""
        rows = self.quality
        assert len(rows) == len(set(rows))
        assert all(min(r.best, r.worst) <= r.size <= max(r.best, r.worst) for r in rows)

    @property
    def changes(self) -> int:
        return sum(row.reason == "by chance" for row in self.quality)

    @property
    def quality(self) -> list[QualityRow]:
        rows = cast("list[tuple[Any, ...]]", self.results.get(QUALITY, []))
        return [QualityRow(*row) for row in rows]


@dataclass
class SizeColumnsStory(SizedStory):
    """A sized story whose results have columns with the sizes in force."""

    columns: dict[Plan, tuple[SizeColumn, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.session.execute("SET quality_columns = on")

    def plan_of(self, text: str) -> Plan:
        (query,) = bind(text, self.session._live.catalog).queries
        self.columns[query.plan] = query.sizes
        return query.plan

    def relations_in(
        self, name: str, interval: Interval, instants: list[int], given: Elements
    ) -> Mapping[int, Counter[Any]]:
        plan, sizes = interval.plan, self.sizes_of(name, interval.plan)
        windows: list[tuple[int, Sizes]] = [(each.best, {each.node: sizes[each.node]}) for each in self.columns[plan]]
        return with_sizes_in_force(relations_of(plan, given, instants, sizes), windows)


def _begin_of(row: QualityRow) -> int:
    return BEGINNING if row.valid_from is None else row.valid_from


def last_published(changes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The changes of one window, without those that a later row replaces: one that begins no later."""
    kept: list[tuple[int, int]] = []
    for instant, size in changes:
        kept = [each for each in kept if each[0] < instant]
        kept.append((instant, size))
    return kept
