"""The program of a live graph, as it is recorded: a *version* for each change.

A version has the texts that made the catalog and the queries, the queries, and their phases. A *phase* is a plan and
the interval in which its results count. A phase that is over is kept as long as another phase has names from it: the
plan of a phase must be the same when it is compiled again from its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tidegate.optimizer.advice import NO_ADVICE, PlanAdvice
from tidegate.physical.common.codec import Json, to_json
from tidegate.runtime.moved_states import NO_MOVES, MovedStates
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

RUNNING, PAUSED = "running", "paused"


@value
class CatalogChange:
    """Streams that a text created and dropped, in lower case, and whether it changed anything else of the catalog."""

    created: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    changes_others: bool = True


@value
class ProgramText:
    """A text that was executed. `running` are the queries of before whose names occur in it."""

    number: int
    text: str
    running: tuple[str, ...]
    change: CatalogChange = CatalogChange()
    """What it did besides queries; of an older checkpoint this is not known."""


@value
class QueryDefinition:
    """Where a query is defined: a text, and the position of the query in it."""

    text: int
    position: int


@value
class LiveQuery:
    """A registered query."""

    name: str
    statement: str
    definition: QueryDefinition
    state: str = RUNNING
    exact_from: int = BEGINNING
    into: str | None = None
    """Path for its results, if it declares one."""


@value
class Phase:
    """A plan of a query, and the interval [begin, end) in which its results count."""

    number: int
    query: str
    definition: QueryDefinition
    begin: int
    stages: tuple[int, ...]
    """Numbers of its stages, in the order in which `stage_keys` returns them."""
    identity: str
    since: int
    """The last step before the phase."""
    end: int = FOREVER
    is_over: bool = False
    advice: PlanAdvice = NO_ADVICE
    """What the plan was made with, besides the text."""


@value
class ProgramVersion:
    """A version of the program, which applies after a step."""

    version: int = 0
    after_step: int = 0
    texts: tuple[ProgramText, ...] = ()
    queries: tuple[LiveQuery, ...] = ()
    phases: tuple[Phase, ...] = ()
    exact_stages: Mapping[int, int] = field(default_factory=dict)
    """Instant from which the output of an operator with state is exact, by stage."""
    forgotten: Mapping[str, int] = field(default_factory=dict)
    """Streams that were dropped, each with the last step before that."""
    moved: MovedStates = NO_MOVES
    """States of new stages, moved from older plans after `after_step`."""
    next_stage: int = 0
    next_phase: int = 0
    next_text: int = 0

    def query(self, name: str) -> LiveQuery:
        return next(query for query in self.queries if query.name == name)


class VersionEncoder:
    """Encoder of versions, one after the other; it encodes only what the version before does not have."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Json]] = {}
        """Values by identity, with their JSON."""

    def encode(self, version: ProgramVersion) -> dict[str, Json]:
        parts = {"texts": version.texts, "queries": version.queries, "phases": version.phases}
        known = {id(each): self._encode_part(each) for some in parts.values() for each in some}
        lists = {name: [known[id(each)][1] for each in some] for name, some in parts.items()}
        self._known = known
        return {**to_json(replace(version, texts=(), queries=(), phases=())), **lists}

    def _encode_part(self, part: object) -> tuple[object, Json]:
        # The value is kept, so that its identity stays its own.
        return self._known.get(id(part)) or (part, to_json(part))
