"""Jobs that keep within limits, and whose samples follow their target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.catalog.limits import NO_LIMITS
from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.job import Job
from tidegate.runtime.sampling import SampleManager, manage_samples

if TYPE_CHECKING:
    from tidegate.runtime.resources.manager import ResourceManager


def manage_job(job: Job, running: Adapt | None = None) -> Job:
    """Return a job whose sizes and rates are decided after each step, if it has any that may change, or limits.

    A resource manager that is running goes on with what it has learnt.
    """
    sized = any(each.bounds.kind != "rate" for each in job.adjusted.values())
    others: Adapt | None = None
    if sized or job.limits != NO_LIMITS:
        # The manager imports the cost model, which other jobs do not need.
        from tidegate.runtime.resources.manager import ResourceManager

        others = resource_manager_of(running) or ResourceManager(job.buckets)
    return replace(job, adapt=manage_samples(job.adjusted, others))


def resource_manager_of(adapt: Adapt | None) -> ResourceManager | None:
    """Return the resource manager of a hook, if it has one."""
    from tidegate.runtime.resources.manager import ResourceManager

    found = adapt.others if isinstance(adapt, SampleManager) else adapt
    return found if isinstance(found, ResourceManager) else None
