"""Parts of a stage graph: who uses an operator, the part that one query uses, and operators that two graphs have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeVar

from tidegate.runtime.figures import FiguresByPlace, OperatorFigures, OperatorPlace
from tidegate.runtime.stage import Node, Outlet, Stage, ToQuery
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import StateSize

Carried = TypeVar("Carried")

Users = frozenset[str]
"""Names of queries."""


def users_of_outlets(graph: StageGraph) -> dict[int, tuple[Users, ...]]:
    """Return for each stage, by number, which queries use each of its outlets."""
    users: dict[int, tuple[Users, ...]] = {}

    def of_outlet(outlet: Outlet) -> Users:
        if isinstance(outlet.target, ToQuery):
            return frozenset([outlet.target.query])
        return frozenset().union(*users[outlet.target.stage])

    for stage in sorted(graph.stages, key=lambda each: -each.level):
        users[stage.number] = tuple(map(of_outlet, stage.outlets))
    return users


def users_of_operators(stage: Stage, users: tuple[Users, ...]) -> tuple[Users, ...]:
    """Return which queries use each operator of a stage, by number; `users` are those of its outlets."""
    everyone: Users = frozenset().union(*users)
    found = [everyone] * len(stage.nodes)
    if len(stage.outlets) > 1:
        counted: dict[int, set[str]] = {}
        numbers = _numbers(stage)
        for own, outlet in zip(users, stage.outlets, strict=True):
            for node in _chain(outlet):
                counted.setdefault(numbers[id(node)], set()).update(own)
        for number, names in counted.items():
            found[number] = frozenset(names)
    return tuple(found)


def part_of_query(graph: StageGraph, query: str) -> StageGraph:
    """Return the stages and outlets that a query uses."""
    users, kept = users_of_outlets(graph), []
    for stage in graph.stages:
        pairs = zip(stage.outlets, users[stage.number], strict=True)
        outlets = tuple(outlet for outlet, names in pairs if query in names)
        kept += [replace(stage, outlets=outlets)] if outlets else []
    return StageGraph(tuple(kept), graph.declared)


def carry_figures(
    figures: Mapping[OperatorPlace, OperatorFigures], before: StageGraph, after: StageGraph
) -> FiguresByPlace:
    """Return the figures of the operators that two graphs have, by their places in the second one.

    Both graphs have the same numbers of stages. Within a stage, operators have other numbers if outlets come or go.
    """
    return _carry(figures, before, after)


def carry_sizes(
    sizes: Mapping[OperatorPlace, StateSize], before: StageGraph, after: StageGraph
) -> dict[OperatorPlace, StateSize]:
    """Return the sizes of states of the operators that two graphs have, as `carry_figures` does for figures."""
    return _carry(sizes, before, after)


def carry_places(
    known: Mapping[tuple[int, int], Carried], before: StageGraph, after: StageGraph
) -> dict[tuple[int, int], Carried]:
    """Return what is known of the operators that two graphs have, by stage and operator, as `carry_figures` does."""
    placed = {OperatorPlace(*place): each for place, each in known.items()}
    return {(place.stage, place.operator): each for place, each in _carry(placed, before, after).items()}


def _carry(
    known: Mapping[OperatorPlace, Carried], before: StageGraph, after: StageGraph
) -> dict[OperatorPlace, Carried]:
    numbers: dict[int, Mapping[int, int]] = {}
    for number in before.numbers & after.numbers:
        numbers[number] = _matching_operators(before.by_number[number], after.by_number[number])
    return {
        OperatorPlace(place.stage, numbers[place.stage][place.operator], place.bucket): each
        for place, each in known.items()
        if place.stage in numbers and place.operator in numbers[place.stage]
    }


def _matching_operators(before: Stage, after: Stage) -> Mapping[int, int]:
    """Return the numbers of the operators that both forms of a stage have."""
    old, new = [[(o.target, o.reader) for o in stage.outlets] for stage in (before, after)]
    same = min(len(old), len(new))
    if old[:same] == new[:same]:
        # Outlets come last: the operators of the first ones have the same numbers.
        return {n: n for n in range(min(len(before.nodes), len(after.nodes)))}
    known, found = _identified_operators(before), _identified_operators(after)
    return {known[key]: number for key, number in found.items() if key in known}


def _identified_operators(stage: Stage) -> dict[Hashable, int]:
    """Return the numbers of operators, by what stays the same when outlets come and go.

    The operators of an outlet above the last one with state are identified by the outlet and the place in it. Those
    below are first in every form of the stage.
    """
    found: dict[Hashable, int] = {}
    numbers = _numbers(stage)
    for outlet in stage.outlets:
        chain = _chain(outlet)
        for depth, node in enumerate(chain):
            # An operator that occurs twice in a tree runs twice; the highest one runs last.
            number = numbers[id(node)] if len(stage.outlets) > 1 else len(stage.nodes) - 1 - depth
            found[outlet.target, outlet.reader, depth] = number
    above = set(found.values())
    return {**found, **{n: n for n in range(len(stage.nodes)) if n not in above}}


def _numbers(stage: Stage) -> dict[int, int]:
    return {id(node): number for number, node in enumerate(stage.nodes)}


def _chain(outlet: Outlet) -> list[Node]:
    """Return the operators of an outlet above the last one with state, from the top."""
    chain, node = [], outlet.root
    while isinstance(node, Node) and len(node.inputs) == 1 and node.operator.partition_keys is None:
        chain.append(node)
        (node,) = node.inputs
    return chain
