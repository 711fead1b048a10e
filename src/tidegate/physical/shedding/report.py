"""Record of the work that a join or an alert shed in a step, and since the beginning."""

from __future__ import annotations

from tidegate.physical.common.control import ShedRecord, ShedWork

_CHANGES = 20
"""Number of remembered changes of the share that was compared."""

_CHANGE = 0.01

History = tuple[tuple[int, float], ...]


def record_shedding(
    join: str, policy: str, work: ShedWork, budget: float | None, step: int, before: ShedRecord | None
) -> ShedRecord:
    """Return the record of a step, from its work and the record of the step before."""
    history = before.history if before else ()
    return ShedRecord(
        join,
        policy,
        step,
        budget,
        in_step=work,
        overall=work + before.overall if before else work,
        history=_append_change(history, step, work.compared_share) if work.volume else history,
    )


def _append_change(history: History, step: int, share: float) -> History:
    """Return the changes of a share, which is 1 at the beginning.

    Examples
    --------
    >>> _append_change(((3, 0.5),), 4, 0.505), _append_change(((3, 0.5),), 4, 0.52)
    (((3, 0.5),), ((3, 0.5), (4, 0.52)))
    """
    last = history[-1][1] if history else 1.0
    changed = abs(share - last) > _CHANGE
    return (*history, (step, share))[-_CHANGES:] if changed else history
