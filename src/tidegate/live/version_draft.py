"""The next version of a live program under construction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tidegate.catalog.catalog import AlterQuery, OptimizeQuery, PauseQuery, Program, Query, QueryChange, ResumeQuery
from tidegate.errors import QueryError
from tidegate.expressions.parse.times import instant_text
from tidegate.live.answers import Answer
from tidegate.live.exactness import Exactness, stream_exact_from, streams_read
from tidegate.live.prepared import Prepared, find_query
from tidegate.live.program import PAUSED, RUNNING, LiveQuery, Phase, ProgramText, ProgramVersion, QueryDefinition
from tidegate.live.state import LiveProgram
from tidegate.optimizer.advice import NO_ADVICE
from tidegate.runtime.bucket_step import reach_of_query, reach_of_stage
from tidegate.runtime.compile import source_stream_of
from tidegate.runtime.live_run import RunMoment
from tidegate.time import BEGINNING, EARLIEST, FOREVER


def running_exactness(live: LiveProgram, program: Program, streams: Iterable[str], moment: RunMoment) -> Exactness:
    """Return what is exact for new readers of streams and of the operators that run."""
    known = {}
    for stream in streams:
        source = source_stream_of(program.catalog, stream)
        is_read = stream in moment.read and live.catalog.find(stream) is source
        known[stream] = stream_exact_from(source, moment.watermarks.get(stream, BEGINNING), is_read=is_read)
    exact = live.version.exact_stages
    operators = {
        part: max(exact[number], moment.reaches.get(reach_of_stage(number), BEGINNING))
        for part, number in live.running_operators().items()
    }
    return Exactness(known, operators)


@dataclass(slots=True)
class VersionDraft:
    """The next version under construction."""

    live: LiveProgram
    prepared: Prepared
    moment: RunMoment
    queries: list[LiveQuery] = field(init=False)
    phases: list[Phase] = field(init=False)
    answers: list[Answer] = field(default_factory=list)
    exactness: Exactness = field(init=False)
    stages: dict[object, int] = field(init=False)
    exact_stages: dict[int, int] = field(init=False)
    next_stage: int = field(init=False)

    def __post_init__(self) -> None:
        version = self.live.version
        self.queries, self.phases = list(version.queries), list(version.phases)
        streams = {s for each in self.prepared.compiled.values() for s in streams_read(each.physical)}
        self.exactness = running_exactness(self.live, self.prepared.program, streams, self.moment)
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
        begin = self.replace_phase(self.prepared.of_definition[position], query.name, changed.definition)
        self.replace_query(replace(changed, exact_from=begin))
        self.answer_running(query.name, begin)

    def optimize(self, query: LiveQuery) -> None:
        number = self.prepared.of_optimized.get(query.name)
        if query.state == PAUSED:
            self.answers.append(Answer(f"query {query.name} is paused", query.name))
        elif number is None or self.is_running(number, query.name):
            self.answers.append(Answer(f"query {query.name} has the best plan that is known", query.name))
        else:
            begin = self.replace_phase(number, query.name, query.definition)
            when = "at once" if begin <= EARLIEST else f"at {instant_text(begin)}"
            self.answers.append(Answer(f"query {query.name} moves to a better plan {when}", query.name))

    def is_running(self, number: int, name: str) -> bool:
        """Return whether a query already runs the plan of a phase."""
        plan = self.prepared.compiled[number].physical
        return any(self.live.compiled[p.number].physical == plan for p in self.open_phases(name))

    def open_phases(self, name: str) -> list[Phase]:
        return [p for p in self.phases if p.query == name and not p.is_over and p.end == FOREVER]

    def replace_phase(self, number: int, name: str, definition: QueryDefinition) -> int:
        """Add a phase of a query that begins when it is exact, and end the one before; return the instant."""
        old = self.open_phases(name)
        begin = max(self.exact_instant(name, number), self.results_end(name), *(p.begin for p in old))
        self.phases = [replace(p, end=begin) if p in old else p for p in self.phases]
        self.add_phase(number, name, definition, begin)
        return begin

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
            if key not in self.stages:
                self.stages[key] = self.next_stage
                self.next_stage += 1
        for part in compiled.parts:
            self.exact_stages.setdefault(self.stages[part, -1], self.exactness.exact_from(part))
        stages = tuple(self.stages[key] for key in compiled.keys)
        phase = Phase(number, query, definition, begin, stages, compiled.identity, self.moment.step)
        self.phases.append(replace(phase, advice=self.prepared.advice.get(number, NO_ADVICE)))

    def answer_running(self, name: str, begin: int) -> None:
        exact = None if begin <= EARLIEST else begin
        since = "from the beginning" if exact is None else f"from {instant_text(exact)}"
        self.answers.append(Answer(f"query {name} runs; exact {since}", name, exact))

    def finish(self) -> LiveProgram:
        live, prepared, old = self.live, self.prepared, self.live.version
        makes_catalog = prepared.program.catalog != live.catalog
        running = tuple(query.name for query in old.queries)
        text = ProgramText(old.next_text, prepared.text, running, makes_catalog)
        version = ProgramVersion(
            old.version + 1,
            self.moment.step,
            (*old.texts, text),
            tuple(self.queries),
            self._all_phases(),
            self.exact_stages,
            {**old.forgotten, **dict.fromkeys(prepared.dropped_streams, self.moment.step)},
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
