"""Steps that warming up makes, recorded: a warm-up that does nothing must be noticed."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.physical.common.operator import Operator, Step


def recorded_steps(monkeypatch: pytest.MonkeyPatch, operator: type[Operator]) -> list[Step]:
    """Return the steps of all operators of a class, from now on."""
    steps: list[Step] = []
    step = operator.step

    def record(self: Operator, *given: Any) -> Step:
        steps.append(step(self, *given))
        return steps[-1]

    monkeypatch.setattr(operator, "step", record)
    return steps
