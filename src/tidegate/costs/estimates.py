"""What is known of an operator before it is estimated, and what the estimate says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from math import expm1, inf

from tidegate.costs.characteristics import Characteristics
from tidegate.values import value

SECOND = 1_000_000.0
"""Microseconds of a second."""

USUAL_ELAPSED = 86_400.0 * SECOND
"""Assumed time for which streams last: what is valid for ever is valid for that long."""

_MOST_TIME = 1e17
"""Microseconds above which a time has no end."""


@value
class Flow:
    """What is estimated of the elements between two operators.

    Operators with state cut elements at watermarks. `whole` has the characteristics as if they did not; the relation is
    the same. `head` is how far the start of the newest element trails that of the newest element of the sources, and
    `mark` how far the watermark does. `longest` is the longest validity, if it is longer than the average. `fills` says
    that no element has ended yet: lengths are then those so far.
    """

    characteristics: Characteristics
    whole: Characteristics
    head: float = 0.0
    mark: float = 0.0
    longest: float = 0.0
    fills: bool = False

    @staticmethod
    def of(characteristics: Characteristics, mark: float = 0.0) -> Flow:
        """Return the flow of a source, which nothing cuts; `mark` is how far the watermark trails the newest row."""
        return Flow(characteristics, characteristics, mark=mark)

    def with_distance(self, distance: float, delay: float) -> Flow:
        """Return the flow of a source with another distance.

        Its watermark moves with its rows alone. So it trails the newest element of all sources by the age of the newest
        row, which for rows at random times is one distance. (With even distances it is half of one, as in 22.18.)
        """
        characteristics = replace(self.characteristics, distance=distance)
        mark = self.head + delay + (distance if distance < inf else 0.0)
        return Flow(characteristics, characteristics, self.head, mark)

    @property
    def rate(self) -> float:
        """Return the elements that start in a microsecond."""
        return self.characteristics.rate

    @property
    def waiting_time(self) -> float:
        """Return for how long an element waits for the watermark to pass its start.

        On a grid, both move to the next place together, but the watermark passes it only with the following one.
        """
        return max(self.mark - self.head + self.characteristics.granule / 2.0, 0.0)

    @property
    def spread(self) -> float:
        """Return how much longer than the average the longest validity is, relative to the average."""
        length = self.characteristics.length
        return max(self.longest / length - 1.0, 0.0) if length else 0.0

    def map(self, change: Callable[[Characteristics], Characteristics]) -> Flow:
        """Return the flow after an operator that works in the same way on cut elements and on whole ones."""
        return replace(self, characteristics=change(self.characteristics), whole=change(self.whole))

    def by_now(self, elapsed: float) -> Flow:
        """Return the flow of a window to a reader that has read for a time: no element has been valid for longer."""
        length = max(self.whole.length, self.characteristics.length)
        if length < elapsed or length > _MOST_TIME:
            return self
        so_far = self.map(lambda each: replace(each, length=min(each.length, elapsed)))
        return replace(so_far, longest=min(self.longest, elapsed), fills=True)

    def unless_later(self, elapsed: float) -> Flow:
        """Return the flow after a time; without elements if the newest one trails by more than that."""
        return self if self.head < elapsed else self.map(lambda each: replace(each, distance=inf))

    def delay(self, by: float) -> Flow:
        """Return the flow with elements and watermark moved back in time; forward if `by` is negative."""
        return replace(self, head=self.head + by, mark=self.mark + by)


@value
class Work:
    """Work of an operator in a microsecond of application time.

    `touched` are rows of the state that are read and written besides new ones, `compared` pairs of rows of which a
    condition is decided, and `parts` what is handled one by one in a step: columns, or parts of the state to search
    in. `busy` are the steps in which rows come.
    """

    kind: str
    steps: float
    rows_in: float
    rows_out: float
    touched: float = 0.0
    compared: float = 0.0
    parts: float = 0.0
    busy: float = 0.0

    @property
    def units(self) -> tuple[float, ...]:
        """Return the numbers that have a price each."""
        return self.steps, self.rows_in, self.rows_out, self.touched, self.compared, self.parts, self.busy


@value
class Prices:
    """Seconds of each unit of the work of a kind of operator."""

    step: float
    row_in: float
    row_out: float
    touched: float = 0.0
    compared: float = 0.0
    part: float = 0.0
    busy: float = 0.0

    @property
    def of_units(self) -> tuple[float, ...]:
        """Return the prices of `Work.units`."""
        return self.step, self.row_in, self.row_out, self.touched, self.compared, self.part, self.busy

    def scale(self, factor: float) -> Prices:
        return Prices(*(price * factor for price in self.of_units))

    def seconds_of(self, work: Work) -> float:
        """Return the processor seconds of a second of application time."""
        return SECOND * sum(units * price for units, price in zip(work.units, self.of_units, strict=True))


@value
class OperatorKnowledge:
    """What runs have taught of one operator; None: nothing."""

    selectivity: float | None = None
    """Elements given, relative to what the formula of the operator says of a selectivity of one."""
    groups: float | None = None
    """Number of groups, or of different rows."""
    kept: float | None = None
    """Rows kept, relative to those that are valid; only of operators whose state depends on the values of rows."""
    row_bytes: float | None = None
    """Bytes of a row of state."""


NOTHING_KNOWN = OperatorKnowledge()
NO_SIZES: Mapping[str, float] = {}


@value
class CostContext:
    """What an estimate of an operator depends on besides its inputs."""

    known: OperatorKnowledge = NOTHING_KNOWN
    step: float = SECOND
    """Length of a step, in application time."""
    elapsed: float = inf
    """How long streams have lasted; infinite for an estimate of a steady state."""
    sizes: Mapping[str, float] = field(default_factory=lambda: NO_SIZES)
    """Sizes of windows and granules that can be adjusted, by key; without an entry, an operator has its own size."""

    @property
    def lasting(self) -> float:
        """Return how long elements are valid that are valid for ever."""
        return USUAL_ELAPSED if self.elapsed == inf else self.elapsed

    def count_steps(self, rate: float, time: float) -> float:
        """Return in how many steps of a time at least one of randomly arriving elements comes.

        Rows of tables, which last for ever, come in one.
        """
        rows = rate * self.step
        return time / self.step * (1.0 if time > _MOST_TIME else -expm1(-rows))

    def selectivity(self, otherwise: float) -> float:
        return otherwise if self.known.selectivity is None else self.known.selectivity

    def groups(self, otherwise: float) -> float:
        return otherwise if self.known.groups is None else max(self.known.groups, 1.0)

    def share_kept(self) -> float:
        return 1.0 if self.known.kept is None else self.known.kept

    def size(self, key: str | None, otherwise: float | None) -> float:
        """Return the size of an operator that may have been adjusted."""
        own = self.lasting if otherwise is None else otherwise
        return own if key is None else self.sizes.get(key, own)


@value
class CostEstimate:
    """Estimate of one operator: its output, the rows and bytes of its state, and its work."""

    flow: Flow
    work: Work
    rows: float = 0.0
    bytes: float = 0.0
