"""Changes of a live program: the version that follows from a text, and from the end of phases."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalog.catalog import AlterQuery, DropQuery, QueryChange
from tidegate.live.answers import Answer
from tidegate.live.prepared import Prepared
from tidegate.live.state import LiveProgram
from tidegate.live.version_draft import VersionDraft
from tidegate.runtime.live_run import RunMoment


def apply_change(live: LiveProgram, prepared: Prepared, moment: RunMoment) -> tuple[LiveProgram, tuple[Answer, ...]]:
    """Return the program after a text, and an answer to each of its changes."""
    draft = VersionDraft(live, prepared, moment)
    for command in prepared.program.commands:
        if isinstance(command, DropQuery):
            draft.drop(command.name)
    altered = sum(isinstance(c, AlterQuery) for c in prepared.program.commands)
    for position, query in enumerate(prepared.definitions[: len(prepared.definitions) - altered]):
        draft.register(position, query)
    for command in prepared.program.commands:
        if isinstance(command, QueryChange):
            draft.change(command)
    return draft.finish().without_unused(), tuple(draft.answers)


def end_phases(live: LiveProgram, moment: RunMoment) -> LiveProgram:
    """Return the program without the phases whose results were all emitted."""
    phases = tuple(replace(p, is_over=p.is_over or p.number in moment.flushed) for p in live.version.phases)
    version = replace(live.version, version=live.version.version + 1, after_step=moment.step, phases=phases)
    return replace(live, version=version).without_unused()
