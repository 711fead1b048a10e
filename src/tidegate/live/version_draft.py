"""The next version of a live program under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.catalog.catalog import AlterQuery, OptimizeQuery, PauseQuery, Query, QueryChange, ResumeQuery
from tidegate.errors import QueryError
from tidegate.expressions.parse.times import instant_text
from tidegate.live.answers import Answer
from tidegate.live.exactness import Exactness
from tidegate.live.moving import CannotMove, Move, StateMover, begin_of_move, check_movable
from tidegate.live.prepared import Prepared, find_query
from tidegate.live.program import PAUSED, RUNNING, LiveQuery, Phase, ProgramText, ProgramVersion, QueryDefinition
from tidegate.live.pruning import catalog_change
from tidegate.live.state import CompiledPhase, LiveProgram
from tidegate.optimizer.advice import NO_ADVICE
from tidegate.optimizer.join_meaning import is_same_join
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import Chunks
from tidegate.runtime.bucket_step import reach_of_query
from tidegate.runtime.cut_stages import StageKey
from tidegate.runtime.live_run import RunMoment
from tidegate.time import BEGINNING, EARLIEST, FOREVER
from tidegate.values import value

StatesOfStage = Callable[[int], Sequence[Chunks]]
"""Function that returns the state of a stage in all buckets."""

_MOVED = "its joins take over the rows of the old ones"


@value
class PlanSwitch:
    """The instant from which a new plan of a query counts, and how the query gets there."""

    begin: int
    why_both_run: str | None
    """Why old and new plan run side by side until then; None if the states of the old plan were moved."""


@dataclass(slots=True)
class VersionDraft:
    """The next version under construction."""

    live: LiveProgram
    prepared: Prepared
    moment: RunMoment
    states: StatesOfStage
    queries: list[LiveQuery] = field(init=False)
    phases: list[Phase] = field(init=False)
    answers: list[Answer] = field(default_factory=list)
    exactness: Exactness = field(init=False)
    stages: dict[StageKey, int] = field(init=False)
    exact_stages: dict[int, int] = field(init=False)
    next_stage: int = field(init=False)
    held: dict[int, Sequence[Batch]] = field(default_factory=dict)
    """What new stages hold from their beginning."""

    def __post_init__(self) -> None:
        version = self.live.version
        self.queries, self.phases = list(version.queries), list(version.phases)
        streams = {s for each in self.prepared.compiled.values() for s in each.streams}
        self.exactness = self.live.exactness(self.prepared.program.catalog, streams, self.moment)
        self.stages = dict(self.live.stage_numbers())
        self.exact_stages, self.next_stage = dict(version.exact_stages), version.next_stage

    def find(self, name: str) -> LiveQuery:
        found = find_query(self.queries, name)
        assert found is not None, name
        return found

    def replace_query(self, query: LiveQuery) -> None:
        self.queries = [query if each.name == query.name else each for each in self.queries]

    def drop(self, name: str) -> None:
        query = self.find(name)
        self.end_query(query.name)
        self.queries.remove(query)
        self.answers.append(Answer(f"dropped query {query.name}", query.name))

    def end_query(self, name: str) -> None:
        self.phases = [replace(p, is_over=True) if p.query == name else p for p in self.phases]

    def definition(self, position: int) -> QueryDefinition:
        return QueryDefinition(self.live.version.next_text, position)

    def register(self, position: int, query: Query) -> None:
        number = self.prepared.of_definition[position]
        begin = self.exact_instant(query.name, number)
        self.add_phase(number, query.name, self.definition(position), begin)
        definition = self.definition(position)
        self.queries.append(LiveQuery(query.name, query.text, definition, RUNNING, begin, query.into))
        self.answer_running(query.name, begin)

    def change(self, command: QueryChange) -> None:
        match command:
            case PauseQuery(name=name):
                self.pause(self.find(name))
            case ResumeQuery(name=name):
                self.resume(self.find(name))
            case AlterQuery(query=query):
                self.alter(self.find(query.name), query)
            case OptimizeQuery(name=name):
                self.optimize(self.find(name))

    def pause(self, query: LiveQuery) -> None:
        self.end_query(query.name)
        self.replace_query(replace(query, state=PAUSED))
        self.answers.append(Answer(f"query {query.name} is paused", query.name))

    def resume(self, query: LiveQuery) -> None:
        if query.state == RUNNING:
            self.answer_running(query.name, query.exact_from)
            return
        number = self.prepared.of_resumed.get(query.name)
        if number is None or query.definition.text == self.live.version.next_text:
            number = self.prepared.of_definition[query.definition.position]
        begin = max(self.exact_instant(query.name, number), self.results_end(query.name))
        self.add_phase(number, query.name, query.definition, begin)
        self.replace_query(replace(query, state=RUNNING, exact_from=begin))
        self.answer_running(query.name, begin)

    def alter(self, query: LiveQuery, altered: Query) -> None:
        position = next(i for i, each in enumerate(self.prepared.definitions) if each is altered)
        changed = replace(query, definition=self.definition(position), statement=altered.text)
        if query.state == PAUSED:
            self.replace_query(changed)
            self.answers.append(Answer(f"query {query.name} is altered, and paused", query.name))
            return
        switch = self.replace_phase(self.prepared.of_definition[position], query.name, changed.definition)
        self.replace_query(replace(changed, exact_from=switch.begin))
        self.answer_running(query.name, switch.begin, "" if switch.why_both_run else f"; {_MOVED}")

    def optimize(self, query: LiveQuery) -> None:
        number = self.prepared.of_optimized.get(query.name)
        if query.state == PAUSED:
            self.answers.append(Answer(f"query {query.name} is paused", query.name))
        elif number is None or query.definition.text == self.live.version.next_text:
            # The text that asks for it has also given it its plan.
            self.answers.append(Answer(f"query {query.name} has the best plan that is known", query.name))
        elif self.is_running(number, query.name):
            self.answers.append(Answer(f"query {query.name} has the best plan that is known", query.name))
        else:
            switch = self.replace_phase(number, query.name, query.definition)
            when = "at once" if switch.begin <= EARLIEST else f"at {instant_text(switch.begin)}"
            how = f"until then both plans run: {switch.why_both_run}" if switch.why_both_run else _MOVED
            self.answers.append(Answer(f"query {query.name} moves to a better plan {when}; {how}", query.name))

    def is_running(self, number: int, name: str) -> bool:
        """Return whether a query already runs the plan of a phase."""
        plan = self.prepared.compiled[number].physical
        return any(self.compiled_phase(p).physical == plan for p in self.open_phases(name))

    def compiled_phase(self, phase: Phase) -> CompiledPhase:
        return self.live.compiled.get(phase.number) or self.prepared.compiled[phase.number]

    def open_phases(self, name: str) -> list[Phase]:
        return [p for p in self.phases if p.query == name and not p.is_over and p.end == FOREVER]

    def replace_phase(self, number: int, name: str, definition: QueryDefinition) -> PlanSwitch:
        """Add a phase of a query that begins when it is exact, and end the one before."""
        (old,) = self.open_phases(name)
        switch = self.switch_plan(number, old, definition)
        self.phases = [replace(p, end=switch.begin) if p is old else p for p in self.phases]
        self.add_phase(number, name, definition, switch.begin)
        return switch

    def switch_plan(self, number: int, old: Phase, definition: QueryDefinition) -> PlanSwitch:
        """Decide when a new plan of a query counts: what is earlier, by moving states or with both plans running."""
        error: QueryError | None = None
        try:
            begin = max(self.exact_instant(old.query, number), self.results_end(old.query), old.begin)
        except QueryError as found:
            begin, error = FOREVER, found
        try:
            move = self.move_states(number, old, definition, begin)
        except CannotMove as reason:
            if error is not None:
                raise error from None
            return PlanSwitch(begin, str(reason))
        for part, inputs in move.held.items():
            self.held[self.number_stage((part, -1))] = inputs
        return PlanSwitch(move.begin, None)

    def move_states(self, number: int, old: Phase, definition: QueryDefinition, limit: int) -> Move:
        """Move the states of a phase to another plan that counts before the instant `limit`, or raise `CannotMove`."""
        before, after = self.compiled_phase(old), self.prepared.compiled[number]
        if after.query.is_view or after.query.is_changelog:
            raise CannotMove("views and changelogs keep results")
        if definition != old.definition and not is_same_join(before.optimized, after.optimized):
            raise CannotMove("more than the order of joins is different")
        check_movable(before.physical, after.physical)
        if old.since >= self.moment.step:
            raise CannotMove("no step was run since its last change")
        running = self.live.running_operators()
        new = [part for part in after.parts if part not in running]
        borrowed = [part for part in after.parts if part in running and part not in before.parts]
        if any((part, -1) in self.stages for part in new):
            raise CannotMove("another query of this text has the same joins")
        marks = self.moment.watermarks
        begin = max(begin_of_move(before.physical, after.physical, marks), old.begin)
        begin = max([begin, *(self.exact_stages[running[part]] for part in borrowed)])
        if begin >= limit:
            raise CannotMove("moving states would not be earlier")
        mover = StateMover(before.physical, marks, lambda part: map(_without_number, self.states(running[part])))
        return mover.move(begin, new)

    def exact_instant(self, name: str, number: int) -> int:
        """Return the instant from which a new phase is exact; raise an error if there is none."""
        begin = self.exactness.exact_from(self.prepared.compiled[number].physical)
        if begin < FOREVER:
            return begin
        message = f"query '{name}' cannot become exact: it needs rows that were read before, for how long is not known"
        hint = (
            "a query is exact if its streams were not read yet, or if its windows have a RANGE; "
            "create the streams under other names to read them from their beginning"
        )
        raise QueryError("Q319", message, hint=hint)

    def results_end(self, name: str) -> int:
        """Return the largest end of a result so far: later phases begin there. Results cannot be withdrawn."""
        end = self.moment.reaches.get(reach_of_query(name), BEGINNING)
        if end < FOREVER:
            return end
        message = f"query '{name}' cannot be changed: some of its results are valid for ever"
        raise QueryError("Q319", message, hint=f"write DROP QUERY {name}, then CREATE QUERY with another name")

    def add_phase(self, number: int, query: str, definition: QueryDefinition, begin: int) -> None:
        compiled = self.prepared.compiled[number]
        for key in compiled.keys:
            self.number_stage(key)
        for part in compiled.parts:
            self.exact_stages.setdefault(self.stages[part, -1], self.exactness.exact_from(part))
        stages = tuple(self.stages[key] for key in compiled.keys)
        phase = Phase(number, query, definition, begin, stages, compiled.identity, self.moment.step)
        self.phases.append(replace(phase, advice=self.prepared.advice.get(number, NO_ADVICE)))

    def number_stage(self, key: StageKey) -> int:
        """Return the number of a stage; a new one gets the next number."""
        if key not in self.stages:
            self.stages[key] = self.next_stage
            self.next_stage += 1
        return self.stages[key]

    def answer_running(self, name: str, begin: int, how: str = "") -> None:
        exact = None if begin <= EARLIEST else begin
        since = "from the beginning" if exact is None else f"from {instant_text(exact)}"
        self.answers.append(Answer(f"query {name} runs; exact {since}{how}", name, exact))

    def finish(self) -> LiveProgram:
        live, prepared, old = self.live, self.prepared, self.live.version
        mentioned = prepared.text.lower()
        running = tuple(query.name for query in old.queries if query.name.lower() in mentioned)
        change = catalog_change(live.catalog, prepared.program.catalog)
        text = ProgramText(old.next_text, prepared.text, running, change)
        version = ProgramVersion(
            old.version + 1,
            self.moment.step,
            (*old.texts, text),
            tuple(self.queries),
            self._all_phases(),
            self.exact_stages,
            {**old.forgotten, **dict.fromkeys(prepared.dropped_streams, self.moment.step)},
            old.moved.since(self.moment.step),
            self.next_stage,
            max([old.next_phase, *(number + 1 for number in prepared.compiled)]),
            old.next_text + 1,
        )
        bound = {**live.bound, text.number: prepared.program}
        return LiveProgram(version, prepared.program.catalog, bound, {**live.compiled, **prepared.compiled})

    def _all_phases(self) -> tuple[Phase, ...]:
        """Return the phases by number, with those that were compiled and do not run: others may have their names."""
        known = {phase.number: phase for phase in self.phases}
        places = {n: self.definition(position) for position, n in self.prepared.of_definition.items()}
        known_before = (*self.prepared.of_resumed.items(), *self.prepared.of_optimized.items())
        places |= {number: self.live.version.query(name).definition for name, number in known_before}
        for number, each in self.prepared.compiled.items():
            idle = Phase(number, each.query.name, places[number], BEGINNING, (), each.identity, self.moment.step)
            advice = self.prepared.advice.get(number, NO_ADVICE)
            known.setdefault(number, replace(idle, is_over=True, advice=advice))
        return tuple(known[number] for number in sorted(known))


def _without_number(chunks: Chunks) -> Chunks:
    """Return the state of the only operator with state of a stage."""
    return {name.partition("/")[2]: chunk for name, chunk in chunks.items()}
