"""One side of a join: turns elements into runs, and provides what the search reads of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.common.arrays import Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.hashing import fixed_width_values, hash_columns, read_only
from tidegate.physical.join.kernels.runs import Run, build_run
from tidegate.physical.join.kernels.search import Operands, Probe, SearchTarget
from tidegate.physical.join.kernels.terms import MOST_TERMS, Term, ranges_of
from tidegate.physical.join.residual import Operand, compute_operand, null_mask
from tidegate.schema import Schema

_NO_VALUES = read_only(np.empty(0, np.float64))
_NO_BITS = read_only(np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True)
class JoinSide:
    """Columns and keys of one side, and their places in a run.

    The columns of a run are the stored operands of the terms, then the payload. An operand is NULL where its term
    cannot be tested. If the predicate cannot fail, an element whose operand is itself NULL matches nothing.
    """

    schema: Schema
    keys: tuple[str, ...]
    stored: tuple[Operand, ...]
    direct: tuple[str, ...]  # operands that are columns of the payload
    operand_places: tuple[int, ...]
    key_places: tuple[int, ...]
    may_fail: bool

    @staticmethod
    def of(schema: Schema, keys: tuple[str, ...], operands: Sequence[Operand], *, may_fail: bool) -> JoinSide:
        """Return a side with one operand for each term."""
        stored = tuple(dict.fromkeys(o for o in operands if o.column is None))
        direct = tuple(o.column for o in operands if o.column is not None)
        places = [stored.index(o) if o.column is None else len(stored) + schema.names.index(o.column) for o in operands]
        keyed = tuple(len(stored) + schema.names.index(key) for key in keys)
        return JoinSide(schema, keys, stored, direct, tuple(places), keyed, may_fail)

    def make_run(self, batch: Batch) -> Run | None:
        """Return a run of the elements that can match anything, or None if there are none."""
        elements = self._with_operands(_joinable_elements(batch, self.keys))
        if not len(elements):
            return None
        keys = [elements.columns.column(place) for place in self.key_places]
        return build_run(elements, hash_columns(keys) if keys else np.zeros(len(elements), np.uint64))

    def payload(self, run: Run, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns of the elements, in this order."""
        first = 2 + len(self.stored)
        return run.rows.select([first + self.schema.names.index(name) for name in names])

    def elements(self, run: Run) -> Batch:
        """Return the elements of a run, as `make_run` got them."""
        index = run.index
        return Batch(index.start, index.end, self.payload(run, self.schema.names))

    def operand_columns(self, run: Run) -> list[pa.Array]:
        return [run.rows.column(2 + place) for place in self.operand_places]

    def probe(self, run: Run, terms: Sequence[Term]) -> Probe:
        """Return the run in the role whose elements search."""
        return Probe(run.index, ranges_of(self.operand_columns(run), terms, len(run)))

    def search_target(self, run: Run) -> SearchTarget:
        """Return the run in the role that is searched."""
        columns = self.operand_columns(run)
        rest = MOST_TERMS - len(columns)
        values = [*(fixed_width_values(c, np.float64) for c in columns), *[_NO_VALUES] * rest]
        bits = [*(_validity_bits(c) for c in columns), *[_NO_BITS] * rest]
        return SearchTarget(run.index, Operands(*values, *bits), run.longest)

    def _with_operands(self, elements: Batch) -> Batch:
        """Add the stored operands before the payload, and leave out elements that match nothing."""
        computed = [compute_operand(o, elements.columns, len(elements)) for o in self.stored]
        names = [*(f"operand {i}" for i in range(len(computed))), *self.schema.names]
        columns = [*(c.values for c in computed), *elements.columns.columns]
        widened = elements.with_columns(pa.RecordBatch.from_arrays(columns, names)) if computed else elements
        nulls = [*(c.nulls for c in computed), *(null_mask(elements.column(name)) for name in self.direct)]
        return widened if self.may_fail else _drop_masked(widened, nulls)


def _joinable_elements(batch: Batch, keys: Sequence[str]) -> Batch:
    """Return the elements with a non-empty validity and without NULL in their keys."""
    columns = [batch.column(key) for key in keys]
    empty = batch.end <= batch.start
    return _drop_masked(batch, [empty if empty.any() else None, *(null_mask(c) for c in columns)])


def _drop_masked(batch: Batch, masks: Sequence[Mask | None]) -> Batch:
    """Return the elements for which none of the masks is true."""
    given = [mask for mask in masks if mask is not None]
    return batch.filter(~np.logical_or.reduce(given)) if given else batch


def _validity_bits(column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the validity bitmap of a column in Arrow's layout; empty if nothing is NULL."""
    if not column.null_count:
        return _NO_BITS
    if column.offset:
        return read_only(np.packbits(column.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return read_only(np.frombuffer(column.buffers()[0], np.uint8))
