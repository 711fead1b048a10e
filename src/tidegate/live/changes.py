"""Changes of a live program: the version that follows from a text, and from the end of phases."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.catalog.catalog import AlterQuery, DropQuery, QueryChange
from tidegate.live.answers import Answer
from tidegate.live.prepared import Prepared
from tidegate.live.state import LiveProgram
from tidegate.live.version_draft import StatesOfStage, VersionDraft
from tidegate.runtime.live_run import RunMoment
from tidegate.runtime.moved_states import HeldElements


@dataclass(frozen=True, slots=True, eq=False)
class AppliedChange:
    """The program after a text, an answer to each of its changes, and what new stages hold from their beginning."""

    program: LiveProgram
    answers: tuple[Answer, ...]
    held: HeldElements


def apply_change(live: LiveProgram, prepared: Prepared, moment: RunMoment, states: StatesOfStage) -> AppliedChange:
    """Apply a text between two steps; `states` returns the state of a stage that runs."""
    draft = VersionDraft(live, prepared, moment, states)
    for command in prepared.program.commands:
        if isinstance(command, DropQuery):
            draft.drop(command.name)
    altered = sum(isinstance(c, AlterQuery) for c in prepared.program.commands)
    for position, query in enumerate(prepared.definitions[: len(prepared.definitions) - altered]):
        draft.register(position, query)
    for command in prepared.program.commands:
        if isinstance(command, QueryChange):
            draft.change(command)
    return AppliedChange(draft.finish().without_unused(), tuple(draft.answers), draft.held)


def end_phases(live: LiveProgram, moment: RunMoment) -> LiveProgram:
    """Return the program without the phases whose results were all emitted."""
    phases = tuple(replace(p, is_over=p.is_over or p.number in moment.flushed) for p in live.version.phases)
    old = live.version
    moved = old.moved.since(moment.step)
    version = replace(old, version=old.version + 1, after_step=moment.step, phases=phases, moved=moved)
    return replace(live, version=version).without_unused()
