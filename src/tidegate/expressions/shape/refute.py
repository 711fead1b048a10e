"""Counterexamples: three values of an input, of which the middle one has the greatest function value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.arrays import Ints, Mask
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Call, Column, Expression, walk
from tidegate.expressions.shape.enclose import Box, enclose
from tidegate.expressions.shape.intervals import Interval, Numbers
from tidegate.expressions.shape.samples import points_at_shares, sample_points
from tidegate.expressions.shape.verdict import Refuted
from tidegate.schema import Type
from tidegate.values import value

_LINES, _PLACES = 48, 65
_CLEAR = 1e-9  # relative difference that any order of computation shows


@value
class _Lines:
    """Values of the variable along lines on which the other inputs are fixed: one line per row."""

    others: dict[str, Numbers]
    along: Numbers
    value: Interval


def find_counterexample(expression: Expression, variable: str, box: Box) -> Refuted | None:
    """Return a proof that an expression is not quasiconvex, if some points show it beyond rounding."""
    types = {e.name: e.type for e in walk(expression) if isinstance(e, Column)}
    foreign = any(isinstance(e, Call) and e.user is not None for e in walk(expression))
    if foreign or not all(type_.is_numeric for type_ in types.values()):
        return None
    lines = _sample_lines(expression, variable, box, types)
    if len(lines.along) < 3:
        return None
    places, gap = _best_candidates(lines)
    values = _evaluate_at(expression, lines, places, types, variable)
    gap = np.where(_is_clear(values), gap, -np.inf)
    line = int(gap.argmax())
    return _build_refutation(lines, variable, line, lines.along[places[line]], values[line]) if gap[line] > 0 else None


def _best_candidates(lines: _Lines) -> tuple[Ints, Numbers]:
    """Return the best candidate of each line, and by how much its middle exceeds the others."""
    low, high = lines.value.low, lines.value.high
    left = np.minimum.accumulate(high, axis=1)
    right = np.minimum.accumulate(high[:, ::-1], axis=1)[:, ::-1]
    gap = low[:, 1:-1] - np.maximum(left[:, :-2], right[:, 2:])
    gap = np.where(np.isfinite(gap), gap, -np.inf)
    rows, middle = np.arange(len(gap)), gap.argmax(axis=1) + 1
    index = np.arange(high.shape[1])
    before = np.where(index < middle[:, None], high, np.inf).argmin(axis=1)
    after = np.where(index > middle[:, None], high, np.inf).argmin(axis=1)
    return np.stack([before, middle, after], axis=1), gap[rows, middle - 1]


def _evaluate_at(expression: Expression, lines: _Lines, places: Ints, types: dict[str, Type], variable: str) -> Numbers:
    """Evaluate the expression at the candidates as queries do; NaN where it fails."""
    columns = {name: np.repeat(own, 3) for name, own in lines.others.items()} | {variable: lines.along[places].ravel()}
    arrays = {name: pa.array(own).cast(types[name].arrow, safe=False) for name, own in columns.items()}
    found = evaluate(expression, pa.RecordBatch.from_pydict(arrays), places.size).values
    return np.asarray(found.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64).reshape(-1, 3)


def _is_clear(values: Numbers) -> Mask:
    return np.asarray(values[:, 1] - np.maximum(values[:, 0], values[:, 2]) > _CLEAR * np.abs(values).max(axis=1))


def _sample_lines(expression: Expression, variable: str, box: Box, types: dict[str, Type]) -> _Lines:
    somewhere = sample_points(box, _LINES).columns
    others = {name: _round_to_type(own.low, types[name]) for name, own in somewhere.items() if name != variable}
    along = np.unique(_round_to_type(points_at_shares(box[variable], np.linspace(0.0, 1.0, _PLACES)), types[variable]))
    along = along[(along >= box[variable].low) & (along <= box[variable].high)]
    many = {name: _as_points(np.repeat(own, len(along))) for name, own in others.items()}
    here = Box(many, frozenset(many)).with_column(variable, _as_points(np.tile(along, _LINES)))
    value = enclose(expression, here)
    inside = np.logical_and.reduce([(o >= box[n].low) & (o <= box[n].high) for n, o in others.items()], initial=True)
    low, high = (np.broadcast_to(end, here[variable].low.shape).reshape(_LINES, -1) for end in (value.low, value.high))
    return _Lines(others, along, Interval(np.where(np.reshape(inside, (-1, 1)), low, -np.inf), high))


def _as_points(values: Numbers) -> Interval:
    return Interval(values, values)


def _round_to_type(values: Numbers, type_: Type) -> Numbers:
    """Return the nearest values that columns of a type can have."""
    if type_.is_integer:
        return np.rint(values)
    return values.astype(np.float32).astype(np.float64) if type_ is Type.REAL else values


def _build_refutation(lines: _Lines, variable: str, line: int, along: Numbers, values: Numbers) -> Refuted:
    a, b, c = (float(x) for x in along)
    at_a, at_b, at_c = (float(v) + 0.0 for v in values)  # 0 rather than -0
    others = tuple((name, float(own[line])) for name, own in lines.others.items())
    kept = "".join(f", {name} = {value:.6g}" for name, value in others)
    why = (
        f"not quasiconvex in {variable}: it is {at_b:.6g} at {variable} = {b:.6g}, "
        f"but {at_a:.6g} at {a:.6g} and {at_c:.6g} at {c:.6g}{' with' + kept[1:] if kept else ''}"
    )
    return Refuted(why, ((variable, a), (variable, b), (variable, c), *others))
