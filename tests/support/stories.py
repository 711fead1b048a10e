"""Stories of a live session: rows arrive, steps run, queries come, go and change, and processes are killed.

A story knows what was written to the streams and which text each query had from which instant on. At the end it
compares the results of every query with the reference, at every instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from reference.instants import snapshots
from reference.members import Elements, Sizes
from reference.semantics import relations_of

from support.live import Row, SteppedSession
from tidegate.algebra.plan import Plan
from tidegate.language.bind.program import bind
from tidegate.live.program import Phase
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.state import StateStore
from tidegate.time import BEGINNING, FOREVER

DELAY = 2
FAR = 1_000
TABLE = [(0, 5), (1, 6), (1, 7)]

STREAMS = """
CREATE STREAM a (t BIGINT, k INT, v INT) FROM '{folder}/a.csv' TIMESTAMP BY t DELAY 2 US;
CREATE STREAM b (t BIGINT, k INT, v INT) FROM '{folder}/b.csv' TIMESTAMP BY t DELAY 2 US;
CREATE TABLE c (k INT, w INT) FROM '{folder}/c.csv';
"""

OpenSession = Callable[[Path, dict[str, list[Row]], int], SteppedSession]


class KilledError(BaseException):
    """The process is gone."""


DURABLE = ((Checkpoint, "_write"), (Checkpoint, "write_program"), (StateStore, "_write"), (StateStore, "keep_stages"))
"""Whatever changes the files of a checkpoint."""


@contextmanager
def killed_at(moment: int) -> Iterator[None]:
    """End the process, in effect, before the durable write of this number; the first is 0."""
    passed = 0

    def pass_moment() -> None:
        nonlocal passed
        passed += 1
        if passed > moment:
            raise KilledError

    def interrupted(write: Callable[..., object]) -> Callable[..., object]:
        def write_or_end(*arguments: object, **more: object) -> object:
            pass_moment()
            return write(*arguments, **more)

        return write_or_end

    patches = [patch.object(kind, name, interrupted(getattr(kind, name))) for kind, name in DURABLE]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


@dataclass
class Interval:
    """In [begin, end) the results of a query are those of a plan; complete, if the query was not ended before."""

    begin: int
    plan: Plan
    end: int = FOREVER
    is_complete: bool = True


@dataclass
class Story:
    """A live session, what was written to its streams, and what its queries must have reported."""

    folder: Path
    buckets: int
    open_session: OpenSession = SteppedSession
    results: dict[str, list[Row]] = field(default_factory=dict)
    elements: dict[str, list[tuple[int, int, dict[str, int | None]]]] = field(
        default_factory=lambda: {"a": [], "b": []}
    )
    intervals: dict[str, list[Interval]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            (self.folder / f"{name}.csv").write_text("t,k,v\n")
        (self.folder / "c.csv").write_text("k,w\n" + "".join(f"{k},{w}\n" for k, w in TABLE))
        self.session = self._open()
        self.session.execute(STREAMS.format(folder=self.folder))

    def _open(self) -> SteppedSession:
        return self.open_session(self.folder / "checkpoint", self.results, self.buckets)

    def restart(self, *, in_step: bool) -> None:
        self.session.abandon(in_step=in_step)
        self.session = self._open()

    # --- rows and steps --------------------------------------------------------------------------------

    def arrive(self, stream: str, rows: list[tuple[int, int, int | None]]) -> None:
        latest = max((start for start, _, _ in self.elements[stream]), default=0)
        with (self.folder / f"{stream}.csv").open("a") as file:
            for ahead, k, v in rows:
                latest, t = max(latest, latest + ahead), latest + ahead
                file.write(f"{t},{k},{'' if v is None else v}\n")
                self.elements[stream].append((t, t + 1, {"t": t, "k": k, "v": v}))

    def step_killed_at(self, moment: int) -> bool:
        """Run a step in which the process is killed; return whether it was."""
        before = {name: list(rows) for name, rows in self.results.items()}
        last = self._last_step()
        try:
            with killed_at(moment):
                self.session.step()
        except KilledError:
            self.session.abandon()
            if self._last_step() == last:
                # A sink forgets what a step without a record has written.
                self.results.clear()
                self.results.update(before)
            self.session = self._open()
            return True
        return False

    def _last_step(self) -> int:
        record = Checkpoint(str(self.folder / "checkpoint")).last_record()
        return 0 if record is None else record.step

    # --- changes ---------------------------------------------------------------------------------------

    def register(self, text: str, *, killed: int | None = None) -> bool:
        return self.change("register", f"q{len(self.intervals)}", text, killed=killed)

    def change(self, what: str, name: str, text: str = "", *, killed: int | None = None) -> bool:
        """Change a query, or register one; return whether the process was killed, at a moment of the change."""
        statement = {"register": f"CREATE QUERY {name} AS {text}", "alter": f"ALTER QUERY {name} AS {text}"}
        phases, before = self._phases_of(name), self.session._live.version.version
        is_killed = self._execute(statement.get(what, f"{what.upper()} QUERY {name}"), killed)
        if self.session._live.version.version > before:
            self._note(what, name, text, len(phases))
        return is_killed

    def _phases_of(self, name: str) -> list[Phase]:
        return [p for p in self.session._live.version.phases if p.query == name and not p.is_over]

    def _execute(self, statement: str, killed: int | None) -> bool:
        if killed is None:
            self.session.execute(statement)
            return False
        try:
            with killed_at(killed):
                self.session.execute(statement)
        except KilledError:
            self.session.abandon()
            self.session = self._open()
            return True
        return False

    def _note(self, what: str, name: str, text: str, phases: int) -> None:
        """Note what must be true of the results from a change on."""
        intervals = self.intervals.setdefault(name, [])
        match what:
            case "register":
                intervals.append(Interval(self._exact_from(name), self.plan_of(text)))
                self.running.add(name)
            case "alter" if name in self.paused:
                intervals.append(Interval(FOREVER, self.plan_of(text), is_complete=False))
            case "alter":
                intervals[-1].end = self._exact_from(name)
                intervals.append(Interval(self._exact_from(name), self.plan_of(text)))
            case "resume":
                begin, last = self._exact_from(name), intervals[-1]
                last.end = min(last.end, begin)
                intervals.append(Interval(begin, last.plan))
                self.paused.discard(name)
                self.running.add(name)
            case "drop" | "pause":
                for interval in intervals[max(0, len(intervals) - phases) :]:
                    interval.is_complete = False
                self.running.discard(name)
                if what == "pause":
                    self.paused.add(name)

    def _exact_from(self, name: str) -> int:
        return self.session._live.version.query(name).exact_from

    def plan_of(self, text: str) -> Plan:
        (query,) = bind(text, self.session._live.catalog).queries
        return query.plan

    # --- the end ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        self.arrive("a", [(FAR, 9, 9)])
        self.arrive("b", [(FAR, 9, 9)])
        while self.session.step():
            pass
        self.session.abandon()

    def sizes_of(self, name: str, plan: Plan) -> Sizes:
        """The sizes of the windows of a query, where they change."""
        del name, plan
        return {}

    def relations_in(
        self, name: str, interval: Interval, instants: list[int], given: Elements
    ) -> Mapping[int, Counter[Any]]:
        """What a query must say at some instants of an interval."""
        return relations_of(interval.plan, given, instants, self.sizes_of(name, interval.plan))

    def check(self) -> None:
        table = [(BEGINNING, FOREVER, {"k": k, "w": w}) for k, w in TABLE]
        instants = list(range(-5, 60))
        for name, intervals in self.intervals.items():
            got = snapshots(self.results.get(name, []), instants)
            for interval in intervals:
                within = [t for t in instants if interval.begin <= t < interval.end]
                expected = self.relations_in(name, interval, within, {**self.elements, "c": table})
                for t in within:
                    if interval.is_complete:
                        assert got[t] == expected[t], (name, t, interval)
                    else:
                        assert got[t] <= expected[t], (name, t, interval)
            first = min(interval.begin for interval in intervals)
            assert all(not got[t] for t in instants if t < first), name


def act(story: Story, what: str, *how: Any) -> None:
    """Do what an action of a story says."""
    match what, how:
        case "rows", (stream, rows):
            story.arrive(stream, rows)
        case "step", ():
            story.session.step()
        case "step", (killed,):
            story.step_killed_at(killed)
        case "restart", (in_step,):
            story.restart(in_step=in_step)
        case "register", (text, *killed):
            story.register(text, killed=killed[0] if killed else None)
        case _, (number, *more):
            known = {"resume": story.paused, "alter": story.running | story.paused}.get(what, story.running)
            if names := sorted(known):
                text = next((each for each in more if isinstance(each, str)), "")
                killed = next((each for each in more if isinstance(each, int)), None)
                story.change(what, names[number % len(names)], text, killed=killed)
