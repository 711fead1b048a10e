"""Compile the kernels of an operator before data arrives."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.physical.common.operator import NO_STATE, Chunks

_ROUNDS = 4

StepOnce = Callable[[int, Chunks], Chunks]
"""Function that runs the step of that number from a state, and returns the state after it."""


def exercise_steps(step: StepOnce) -> None:
    """Run a few steps; replace the state after every other step by equal chunks, as if it were read from a file."""
    state: Chunks = NO_STATE
    for number in range(_ROUNDS):
        state = step(number, state)
        if number % 2:
            state = {name: pa.RecordBatch.from_arrays(c.columns, schema=c.schema) for name, c in state.items()}
