"""Jobs that keep within limits."""

from __future__ import annotations

from dataclasses import replace

from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.job import Job


def manage_job(job: Job, running: Adapt | None = None) -> Job:
    """Return a job with a resource manager; one that is running goes on with what it has learnt."""
    # The manager imports the cost model, which other jobs do not need.
    from tidegate.runtime.resources.manager import ResourceManager

    return replace(job, adapt=running if isinstance(running, ResourceManager) else ResourceManager(job.buckets))
