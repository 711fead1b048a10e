"""Adaptation: between two steps, the sizes of windows and granularities may change within the bounds of their queries.

After each step, before its record is written, the driver asks the hook of the job (`Job.adapt`), which returns the
histories that change. They are part of the record, so a replayed step sees the same. A change takes effect at an
instant after every element seen so far, so results depend on the histories alone, not on how input is cut into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tidegate.algebra.adaptable import Adaptable, with_one_size
from tidegate.algebra.explain import describe
from tidegate.algebra.plan import Granularity, Plan, Scan, Window, inputs, walk
from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.limits import NO_LIMITS, ResourceLimits
from tidegate.errors import InternalError, TidegateWarning
from tidegate.optimizer.quality import SizeBounds, adaptable_nodes, size_bounds
from tidegate.physical.common.sizes import NO_SIZES, SizeChange, SizeHistories, SizeHistory
from tidegate.physical.stateless.kernels.validities import coarsen_watermark
from tidegate.physical.stateless.kernels.window import shift_watermark
from tidegate.runtime.figures import FiguresByPlace, OperatorPlace, StepPhases
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import NO_SIZE, StateSize
from tidegate.time import BEGINNING, CHRONON, EARLIEST, FOREVER
from tidegate.values import value


@value
class AdjustedWindow:
    """A window or granularity that may change while the job runs, with the queries that read it."""

    node: Adaptable
    bounds: SizeBounds
    queries: tuple[str, ...]

    @property
    def text(self) -> str:
        """Describe the operator and the streams that it reads, without its bounds."""
        node = with_one_size(self.node)
        streams = dict.fromkeys(each.stream for each in walk(node) if isinstance(each, Scan))
        return f"{describe(node)} of {', '.join(streams)}"

    def instant_after(self, watermarks: Mapping[str, int], delays: Mapping[str, int]) -> int:
        """Return the first instant at which a change may take effect: after every start seen here so far.

        It is FOREVER once the streams have ended.
        """
        latest = _latest_start(self.node.source, watermarks, delays)
        return FOREVER if latest >= FOREVER else max(latest + CHRONON, EARLIEST)


AdjustedWindows = Mapping[str, AdjustedWindow]
"""The adaptable windows and granularities of a job, by the keys of their histories."""


def adjusted_windows(running: Sequence[tuple[str, Plan]], given: Iterable[tuple[str, Plan]]) -> AdjustedWindows:
    """Return the adaptable windows of the plans that run, each plan with its query.

    `given` are the plans before subplans were shared. These have the bounds of all queries; a shared window has those
    of the first one alone.
    """
    asked = [*running, *given]
    bounds = size_bounds(plan for _, plan in asked)
    readers: dict[str, dict[str, None]] = {}
    for query, plan in asked:
        for key in adaptable_nodes(plan):
            readers.setdefault(key, {})[query] = None
    nodes = {key: node for _, plan in reversed(running) for key, node in adaptable_nodes(plan).items()}
    return {key: AdjustedWindow(nodes[key], bounds[key], tuple(sorted(readers[key]))) for key in sorted(nodes)}


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What a decision on sizes sees of a step that has just ended."""

    step: int
    graph: StageGraph
    watermarks: Mapping[str, int]
    streams: Mapping[str, SourceStream]
    windows: AdjustedWindows
    sizes: SizeHistories
    """The histories so far, of all adaptable windows."""
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Number of raw rows of each stream so far, including this step."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of raw rows of each stream in this step."""
    state: StateSize = NO_SIZE
    seconds: float = 0.0
    """Seconds from the beginning of the step; results are not yet published."""
    phases: StepPhases = field(default_factory=StepPhases)
    figures: FiguresByPlace = field(default_factory=dict)
    """What all operators did before this step."""
    operator_sizes: Callable[[], Mapping[OperatorPlace, StateSize]] = dict
    """Returns the size of the state of each operator."""
    limits: ResourceLimits = NO_LIMITS
    warn: Callable[[TidegateWarning], None] = lambda _: None
    """Shows a warning to users, once."""

    @property
    def delays(self) -> Mapping[str, int]:
        return {name: stream.delay for name, stream in self.streams.items()}

    def change(self, key: str, size: int, reason: str = "") -> SizeHistory:
        """Return the history of a window with another size, from the first instant at which it may take effect."""
        known = self.sizes[key]
        instant = self.first_instant(key, size)
        return known if instant >= FOREVER else known.changed(instant, size, reason)

    def first_instant(self, key: str, size: int) -> int:
        """Return the first instant from which a window may have a size.

        It is after all changes so far. Coarse granules become finer at a multiple of the coarse ones only.
        """
        newest, window = self.sizes[key].newest, self.windows[key]
        instant = max(window.instant_after(self.watermarks, self.delays), newest.instant + CHRONON)
        if instant < FOREVER and window.bounds.kind == "granularity" and size < newest.size:
            return -(-instant // newest.size) * newest.size
        return instant


Adapt = Callable[[Adaptation], Mapping[str, SizeHistory]]
"""Hook that decides sizes after a step: it returns the histories that change."""


def known_sizes(
    windows: AdjustedWindows, recorded: SizeHistories, watermarks: Mapping[str, int]
) -> dict[str, SizeHistory]:
    """Return the histories of all adaptable windows; others are forgotten.

    A new window has the best size, from the watermarks before its first step on.
    """
    return {key: recorded.get(key) or _first_history(each, watermarks) for key, each in windows.items()}


def _first_history(window: AdjustedWindow, watermarks: Mapping[str, int]) -> SizeHistory:
    return SizeHistory((SizeChange(_earliest_start(window.node, watermarks), window.bounds.best),))


def sizes_to_follow(windows: AdjustedWindows, sizes: SizeHistories) -> SizeHistories:
    """Return the histories that operators need: those that say more than that the best size is in force."""
    found = {
        key: each
        for key, each in sizes.items()
        if key in windows and (len(each.changes) > 1 or each.newest.size != windows[key].bounds.best)
    }
    return found or NO_SIZES


def decide_sizes(adapt: Adapt | None, adaptation: Adaptation) -> SizeHistories:
    """Return all histories after a step, with the changes that the hook decides."""
    sizes = adaptation.sizes
    if adapt is None:
        return sizes
    changed = adapt(adaptation)
    for key, history in changed.items():
        _check_change(adaptation, key, history)
    return {**sizes, **changed}


def trim_sizes(sizes: SizeHistories, windows: AdjustedWindows, watermarks: Mapping[str, int]) -> dict[str, SizeHistory]:
    """Return the histories without the sizes that no element can get any more."""
    return {key: each.trimmed(_earliest_start(windows[key].node, watermarks)) for key, each in sizes.items()}


def _check_change(adaptation: Adaptation, key: str, history: SizeHistory) -> None:
    """Raise an error if a history changes what was decided, or in a way that is not allowed."""
    known, window = adaptation.sizes.get(key), adaptation.windows.get(key)
    if known is None or window is None:
        raise InternalError("I361", f"no window has the key '{key}'")
    if history.changes[: len(known.changes)] != known.changes:
        raise InternalError("I362", f"the history of '{window.text}' does not continue the one before")
    earliest = window.instant_after(adaptation.watermarks, adaptation.delays)
    for before, change in pairwise(history.changes[len(known.changes) - 1 :]):
        if not window.bounds.allows(change.size):
            raise InternalError("I363", f"'{window.text}' may not have the size {change.size}")
        if change.instant < earliest or change.instant <= before.instant:
            raise InternalError("I364", f"'{window.text}' may not change at {change.instant}, but from {earliest} on")
        is_finer = window.bounds.kind == "granularity" and change.size < before.size
        if is_finer and change.instant % before.size:
            raise InternalError("I365", f"'{window.text}' becomes finer only at a multiple of {before.size}")


def _latest_start(plan: Plan, watermarks: Mapping[str, int], delays: Mapping[str, int]) -> int:
    """Return the largest start of an element that the plan can have given so far; BEGINNING if there is none."""
    if isinstance(plan, Scan):
        mark = watermarks[plan.stream]
        return mark if mark in (BEGINNING, FOREVER) else mark + delays[plan.stream]
    latest = max(_latest_start(each, watermarks, delays) for each in inputs(plan))
    match plan:
        case Window(slide=slide):
            return shift_watermark(latest, slide, CHRONON)
        case Granularity():
            return coarsen_watermark(latest, plan.coarsest or plan.size)
    return latest


def _earliest_start(plan: Plan, watermarks: Mapping[str, int]) -> int:
    """Return an instant before which no later element of the plan starts."""
    return min(watermarks[each.stream] for each in walk(plan) if isinstance(each, Scan))
