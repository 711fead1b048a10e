"""The program of a live graph in memory: a version, what its texts mean, and its compiled phases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import Plan, Scan, walk
from tidegate.catalog.catalog import AlterQuery, Catalog, Program, Query
from tidegate.connectors.ranges import Source
from tidegate.connectors.sinks import FileSink, open_sink
from tidegate.errors import TidegateWarning
from tidegate.language.bind.program import bind
from tidegate.live.exactness import (
    Exactness,
    operators_with_state,
    settling_margin,
    stream_exact_from,
    streams_read,
)
from tidegate.live.program import PAUSED, RUNNING, Phase, ProgramText, ProgramVersion
from tidegate.live.pruning import unneeded_texts
from tidegate.optimizer.advice import NO_ADVICE, PlanAdvice
from tidegate.optimizer.sharing import SubplanTable
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.relation.view import ViewOperator
from tidegate.physical.stateless.validities import ClipOperator
from tidegate.runtime.adaptation import Adapt, adjusted_windows
from tidegate.runtime.bucket_step import reach_of_stage
from tidegate.runtime.compile import compile_phase, query_identity, report_changes, source_stream_of
from tidegate.runtime.cut_stages import StageKey
from tidegate.runtime.ending_phase import EndingPhase
from tidegate.runtime.job import Job
from tidegate.runtime.live_run import RunMoment
from tidegate.runtime.live_stages import LivePlan, cut_live_stages, stage_keys
from tidegate.runtime.moved_states import HeldElements, write_states
from tidegate.runtime.program_differences import describe_differences
from tidegate.runtime.state import StateStore
from tidegate.schema import Schema
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

IDENTITY: Mapping[str, object] = {"live": True}
"""What the checkpoint of a live graph knows of its program. The program itself has versions."""


@value
class CompiledPhase:
    """The plan of a phase before it is clipped, and the phases that it has names from."""

    query: Query
    optimized: Plan
    given: Plan
    """The plan before it was made of known subplans."""
    physical: PhysicalPlan
    identity: str
    used: frozenset[int]
    keys: tuple[StageKey, ...]
    """Keys of its stages, in the order in which they are closed."""
    parts: tuple[Apply, ...]
    """Parts of the plan that end with an operator with state."""
    streams: frozenset[str]
    """Streams and tables that it reads."""
    is_adaptable: bool = False
    """Whether the size of any of its windows may change."""


@value
class LiveProgram:
    """A version of the program with all that follows from it."""

    version: ProgramVersion = field(default_factory=ProgramVersion)
    catalog: Catalog = field(default_factory=Catalog)
    bound: Mapping[int, Program] = field(default_factory=dict)
    """The meaning of the texts, by number."""
    compiled: Mapping[int, CompiledPhase] = field(default_factory=dict)
    """The compiled phases, by number."""
    _numbers: dict[StageKey, int] = field(init=False, default_factory=dict, compare=False, repr=False)
    """The numbers of the stages that run, once they are known: a change needs them several times."""

    def query(self, name: str) -> Query:
        """Return the bound query of a name."""
        known = self.version.query(name)
        found = defined_queries(self.bound[known.definition.text])[known.definition.position]
        return replace(found, name=name, into=known.into)

    def queries(self) -> tuple[Query, ...]:
        defined = {number: defined_queries(program) for number, program in self.bound.items()}
        places = ((query, query.definition) for query in self.version.queries)
        return tuple(replace(defined[at.text][at.position], name=q.name, into=q.into) for q, at in places)

    def running_phases(self) -> Iterator[Phase]:
        return (phase for phase in self.version.phases if not phase.is_over)

    def live_plan(self, phase: Phase) -> LivePlan:
        compiled = self.compiled[phase.number]
        return clipped_plan(
            phase.number, compiled.physical, phase.begin, phase.end, replace(compiled.query, name=phase.query)
        )

    def stage_numbers(self) -> dict[StageKey, int]:
        """Return the numbers of the stages that run."""
        if not self._numbers:
            for phase in self.running_phases():
                self._numbers.update(zip(self.compiled[phase.number].keys, phase.stages, strict=True))
        return self._numbers

    def running_operators(self) -> dict[PhysicalPlan, int]:
        """Return the parts of plans that end with an operator with state, and run, with the numbers of their stages."""
        numbers = self.stage_numbers()
        running = (self.compiled[phase.number] for phase in self.running_phases())
        return {part: numbers[part, -1] for each in running for part in each.parts}

    def exactness(self, catalog: Catalog, streams: Iterable[str], moment: RunMoment) -> Exactness:
        """Return what is exact for new readers of streams, which are those of a catalog, and of operators that run."""
        known = {}
        for stream in streams:
            source = source_stream_of(catalog, stream)
            is_read = stream in moment.read and self.catalog.find(stream) is source
            known[stream] = stream_exact_from(source, moment.watermarks.get(stream, BEGINNING), is_read=is_read)
        exact = self.version.exact_stages
        operators = {
            part: max(exact[number], moment.reaches.get(reach_of_stage(number), BEGINNING))
            for part, number in self.running_operators().items()
        }
        return Exactness(known, operators)

    def without_unused(self) -> LiveProgram:
        """Return the program without texts and phases that nothing needs any more."""
        kept = {phase.number for phase in self.running_phases()}
        waiting = list(kept)
        while waiting:
            new = self.compiled[waiting.pop()].used - kept
            kept |= new
            waiting += new
        phases = tuple(phase for phase in self.version.phases if phase.number in kept)
        used = {phase.definition.text for phase in phases}
        used |= {query.definition.text for query in self.version.queries}
        unneeded = unneeded_texts(self.version.texts, used)
        texts = tuple(text for text in self.version.texts if text.number not in unneeded)
        numbers = {number for phase in phases if not phase.is_over for number in phase.stages}
        exact = {number: each for number, each in self.version.exact_stages.items() if number in numbers}
        return replace(
            self,
            version=replace(self.version, phases=phases, texts=texts, exact_stages=exact),
            bound={text.number: self.bound[text.number] for text in texts},
            compiled={number: self.compiled[number] for number in sorted(kept)},
        )

    def make_job(self, sources: Mapping[str, Source], buckets: int, adapt: Adapt | None = None) -> Job:
        """Return the job that runs all phases."""
        numbers, plans = self.stage_numbers(), {p.number: self.live_plan(p) for p in self.running_phases()}
        streams = frozenset(s for phase in plans for s in self.compiled[phase].streams)
        declared = {s: frozenset(source_stream_of(self.catalog, s).schema.names) for s in streams}
        graph = cut_live_stages(list(plans.values()), numbers, declared)
        endings = {
            phase.number: EndingPhase(
                cut_live_stages([plans[phase.number]], numbers, declared),
                self._settled_at(plans[phase.number].physical, phase.end),
            )
            for phase in self.running_phases()
            if phase.end < FOREVER
        }
        opened = {stream: sources[stream] for stream in graph.streams}
        phases = ((phase.query, self.compiled[phase.number]) for phase in self.running_phases())
        known = [(query, compiled) for query, compiled in phases if compiled.is_adaptable]
        adjusted = adjusted_windows([(q, c.optimized) for q, c in known], [(q, c.given) for q, c in known])
        job = Job(graph, opened, self.sinks(), buckets, IDENTITY, is_live=True, endings=endings)
        return replace(job, adjusted=adjusted, adapt=adapt, limits=self.catalog.limits)

    def with_states(self, store: StateStore, job: Job, held: HeldElements) -> LiveProgram:
        """Write the states of new stages that hold elements from their beginning; return the program that has them."""
        moved, step = self.version.moved, self.version.after_step
        # A later statement of the same text may have ended the query.
        needed = {number: inputs for number, inputs in held.items() if number in job.graph.numbers}
        if needed:
            moved = moved.plus(write_states(store, step, job.graph, needed, job.buckets))
        return replace(self, version=replace(self.version, moved=moved.in_graph(job.graph)))

    def _settled_at(self, plan: PhysicalPlan, end: int) -> dict[str, int]:
        streams = (stream for stream in streams_read(plan) if not source_stream_of(self.catalog, stream).is_table)
        return dict.fromkeys(streams, end + settling_margin(plan))

    def sinks(self) -> dict[str, FileSink]:
        """Return the sinks of the queries that run."""
        running = {query.name for query in self.version.queries if query.state == RUNNING}
        return {q.name: open_sink(q.into) for q in self.version.queries if q.into is not None and q.name in running}


def clipped_plan(number: int, physical: PhysicalPlan, begin: int, end: int, query: Query) -> LivePlan:
    """Return the plan of a phase, clipped to its interval, with what keeps or reports its rows on top.

    A view need not be clipped: it answers for the instants of its phase only. So equal views share what they keep.
    """
    if query.history is not None:
        top = Apply(ViewOperator(physical.schema, query.history), (physical,))
        return LivePlan(f"phase {number}", query.name, top)
    clipped = Apply(ClipOperator(physical.schema, begin, end), (physical,))
    return LivePlan(f"phase {number}", query.name, report_changes(query, clipped, end))


def defined_queries(program: Program) -> tuple[Query, ...]:
    """Return the queries that a text defines: those that run, and those that others become."""
    altered = (command.query for command in program.commands if isinstance(command, AlterQuery))
    # A derived stream runs only when a query reads it; an alert and a view run at once.
    asked = (q for q in program.queries if q.is_derived or program.catalog.find(q.name) is None)
    return (*asked, *altered)


def compile_live(
    program: Program, query: Query, table: SubplanTable, number: int, advice: PlanAdvice = NO_ADVICE
) -> CompiledPhase:
    """Compile a query as a phase with a number."""
    compiled, used = compile_phase(program, query, table, number, advice)
    plan = clipped_plan(number, compiled.physical, BEGINNING, FOREVER, query)
    parts = tuple(operators_with_state(compiled.physical))
    identity, keys = query_identity(compiled), stage_keys(plan)
    streams = streams_read(compiled.physical)
    plans = compiled.optimized, compiled.own_plan, compiled.physical
    may_change = any(is_adaptable(node) for node in walk(compiled.optimized))
    return CompiledPhase(query, *plans, identity, used, keys, parts, streams, may_change)


def recover_program(version: ProgramVersion, table: SubplanTable) -> tuple[LiveProgram, tuple[TidegateWarning, ...]]:
    """Return the program of a version: bind its texts in order, and compile its phases.

    A query whose plan is not the one that its state belongs to, for example after an upgrade, is paused: a warning says
    so. All others go on.
    """
    catalog, bound = Catalog(), dict[int, Program]()
    for text in version.texts:
        bound[text.number] = bind(text.text, catalog, _placeholders(text, catalog, bound, version), live=True)
        catalog = bound[text.number].catalog
    compiled: dict[int, CompiledPhase] = {}
    for phase in version.phases:
        own = bound[phase.definition.text]
        query = replace(defined_queries(own)[phase.definition.position], name=phase.query)
        compiled[phase.number] = compile_live(own, query, table, phase.number, phase.advice)
    changed = {
        phase.query: _another_plan_warning(phase, compiled[phase.number])
        for phase in version.phases
        if not phase.is_over and compiled[phase.number].identity != phase.identity
    }
    program = LiveProgram(_pause_queries(version, changed), catalog, bound, compiled)
    return program, tuple(changed.values())


def _placeholders(
    text: ProgramText, catalog: Catalog, bound: Mapping[int, Program], version: ProgramVersion
) -> Iterable[Query]:
    """Return the queries that a text refers to; of those that are gone, only the names are known."""
    if not text.running:
        return ()
    known = {query.name: query for each in bound.values() for query in defined_queries(each)}
    # A name that was generated depends on the queries of that time.
    places = ((query.name, query.definition) for query in version.queries if query.definition.text in bound)
    known |= {name: defined_queries(bound[at.text])[at.position] for name, at in places}
    return [
        known.get(name, Query(name, Scan(name, Schema(())), is_alert=catalog.find(name) is not None))
        for name in text.running
    ]


def _pause_queries(version: ProgramVersion, names: Collection[str]) -> ProgramVersion:
    return replace(
        version,
        queries=tuple(replace(q, state=PAUSED) if q.name in names else q for q in version.queries),
        phases=tuple(replace(p, is_over=p.is_over or p.query in names) for p in version.phases),
    )


def _another_plan_warning(phase: Phase, compiled: CompiledPhase) -> TidegateWarning:
    old, new = ({"queries": {phase.query: identity}} for identity in (phase.identity, compiled.identity))
    told = f"query '{phase.query}' is paused: it is compiled to another plan than before, which its state does not fit"
    shown = "\n   ".join([told, *describe_differences(old, new)[1:]])
    # Who keeps a copy of a view or a changelog needs it from its beginning.
    is_kept_elsewhere = compiled.query.is_view or compiled.query.is_changelog
    what = "drop it, and create it again" if is_kept_elsewhere else f"RESUME QUERY {phase.query} continues it"
    hint = f"{what}, exact from a new instant; to miss nothing, go on with the version of Tidegate that ran it before"
    return TidegateWarning("W320", shown, hint=hint)
