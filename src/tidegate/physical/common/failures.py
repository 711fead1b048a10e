"""Turn elements for which an evaluation failed into dead letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.expressions.evaluate import Evaluation, Failure
from tidegate.expressions.nodes import Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.dead_letters import DEAD_LETTER, Reason, rows_as_json


def dead_letters_of_failures(
    batch: Batch, result: Evaluation, expression: Expression, *, origin: str
) -> pa.RecordBatch:
    """Return dead letters of the elements for which the expression failed."""
    assert result.errors is not None
    rows = np.flatnonzero(result.errors).tolist()
    failures = [Failure(int(result.errors[r])) for r in rows]
    where = f"in {to_sql(expression)}"
    said = [result.texts.get(r) if f is Failure.USER_FUNCTION else None for r, f in zip(rows, failures, strict=True)]
    details = [where if text is None else f"{text}, {where}" for text in said]
    return dead_letters(batch.take(np.array(rows)), [Reason[f.name].value for f in failures], details, origin=origin)


def dead_letters(batch: Batch, reasons: Sequence[str], details: Sequence[str], *, origin: str) -> pa.RecordBatch:
    """Return every element of the batch as a dead letter."""
    count = len(batch)
    rows = rows_as_json(batch.columns.schema.names, batch.columns.columns, count)
    columns = [[origin] * count, list(reasons), list(details), batch.start, rows]
    columns += [[None] * count] * 2  # an element does not know the line that it was read from
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t) for c, t in zip(columns, DEAD_LETTER.types, strict=True)], schema=DEAD_LETTER
    )


def unqualified_name(name: str) -> str:
    """Return the column name as users know it, without the alias that the plan adds in front."""
    return name.rpartition(".")[2]
