"""Key columns of a similarity join that compares only elements with equal keys, as input of the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.expressions.columns import null_mask
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, conjunction
from tidegate.physical.common.arrays import Mask
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.similarity_join.kernels.conditions import SameKey
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.values import Numbers, Values
from tidegate.schema import Schema, Type

Keys = tuple[tuple[str, ...], tuple[str, ...]]
"""Key columns of the left and the right side; those of equal position are compared."""

NO_KEYS: Keys = ((), ())


@dataclass(frozen=True, slots=True)
class EqualKeyCoding:
    """Codes of keys: equal keys have equal codes. NULL equals nothing, NaN equals itself."""

    keys: Keys
    condition: SameKey = SameKey()  # noqa: RUF009 - it is a frozen value
    method: Method = Method.INDEXED

    def usable_rows(self, stream: int, columns: pa.RecordBatch) -> Mask | None:
        """Return the rows that can match others, or None for all."""
        known = [columns.column(name) for name in self.keys[stream]]
        masks = [~null_mask(column) for column in known if column.null_count]
        return np.logical_and.reduce(masks) if masks else None

    def values(self, stream: int, columns: pa.RecordBatch, rows: int) -> Values:
        """Return the codes of rows, all of which are usable."""
        del rows
        return Numbers(hash_columns([columns.column(name) for name in self.keys[stream]]).view(np.int64))


def key_equality(keys: Keys, left: Schema, right: Schema) -> Expression:
    """Return the condition that pairs with equal codes must still meet; TRUE if equal codes have equal keys.

    The hash of a single number is a bijection.
    """
    types = [left.type_of(name) for name in keys[0]]
    if not types or (len(types) == 1 and types[0] is not Type.STRING and not types[0].parts):
        return TRUE
    return keys_expression(keys, left, right)


def keys_expression(keys: Keys, left: Schema, right: Schema) -> Expression:
    """Return the condition that keys are equal."""
    return conjunction(
        tuple(
            Call("=", (Column(a, left.type_of(a)), Column(b, right.type_of(b))), Type.BOOLEAN)
            for a, b in zip(*keys, strict=True)
        )
    )
