"""Of some rows of docs/papers.md: the named test fails when the named code is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any, NamedTuple

import pytest
from support.breakage import Target, broken
from support.examples import PROFILE
from support.papers import ROWS, path_of
from support.paths import ROOT
from support.processes import python_environment

from tidegate.edge import sides


class Case(NamedTuple):
    """A row, one of its tests, and a function of its code with what becomes of its result."""

    row: str
    test: str
    broken: str

    @property
    def file(self) -> str:
        """Where the function is."""
        return self.broken.partition(":")[0].removeprefix("tidegate.").replace(".", "/") + ".py"


SAMPLE = (
    Case(
        "F-022",
        "test_state_without_bound_is_refused_at_the_window",
        "tidegate.algebra.refusals:_refuse_unbounded=skipped",
    ),
    Case(
        "F-073",
        "test_the_printed_rows_come_out",
        "tidegate.physical.stateless.kernels.window:slide_validities=reversed",
    ),
    Case(
        "T-04",
        "test_one_between_two_greater_ones_is_above_bracketed_if_they_are_near_enough",
        "tidegate.physical.threshold_alert.kernels.brackets:find_bracketed=opposite",
    ),
    Case("T-13", "test_a_reading_that_others_make_needless_is_never_sent", "tidegate.edge:ThresholdFilter.flush=empty"),
    Case("T-18", "test_two_streams_have_twice_the_distance", "tidegate.optimizer.omission:omission_window=reversed"),
    Case("R-04", "test_ends_are_exact", "tidegate.physical.subscriptions.kernels.boxes:places=opposite"),
    Case(
        "K-05",
        "test_covers_have_one_stream_of_every_group_of_sources",
        "tidegate.physical.keyed_join.kernels.graph:Graph.covers=reversed",
    ),
    Case(
        "K-23",
        "test_what_is_counted_on_falls_when_the_worst_is_forgotten",
        "tidegate.physical.keyed_join.distances:_drop_old_blocks=first argument",
    ),
    Case("S-06", "test_steps_take_as_long_as_they_may", "tidegate.physical.shedding.pace:StepPace.budget=doubled"),
    Case(
        "S-12",
        "test_without_evidence_the_newest_are_taken_first",
        "tidegate.physical.shedding.kernels.budget:best_first=reversed",
    ),
)

MORE = (
    Case("F-108", "test_a_grouping_22_7", "tidegate.costs.characteristics:count_instants=doubled"),
    Case(
        "T-21",
        "test_a_formula_that_turns_downwards_is_refuted_with_points_that_show_it",
        "tidegate.expressions.shape.refute:find_counterexample=skipped",
    ),
    Case(
        "K-02",
        "test_an_equality_with_a_key_makes_an_edge_from_the_many_to_the_one",
        "tidegate.optimizer.keyed_join:_needed_edges=empty",
    ),
    Case(
        "K-25",
        "test_beyond_the_threshold_nothing_is_made_use_of",
        "tidegate.physical.keyed_join.verdicts:_distance_in_rows=zero",
    ),
    Case(
        "S-09",
        "test_slots_are_a_twentieth_of_the_longest_validity",
        "tidegate.optimizer.similarity_join:_slot_width=doubled",
    ),
    Case(
        "S-15",
        "test_the_greedy_plan_is_the_optimum_of_the_linear_program",
        "tidegate.physical.shedding.kernels.budget:best_first=reversed",
    ),
)
"""Tried in campaigns only."""

CASES = (*SAMPLE, *MORE) if PROFILE == "thorough" else SAMPLE


def node_of(case: Case) -> str:
    """Return the test as its row names it."""
    (row,) = [row for row in ROWS if row.id == case.row]
    (test,) = [test for test in row.tests if test.function == case.test]
    return test.node


@cache
def outcomes() -> dict[str, Any]:
    """Run all cases in a process of their own: no file and no module of this one is changed."""
    cases = json.dumps([{"test": node_of(case), "break": case.broken} for case in CASES])
    paths = os.environ | python_environment()
    command = [sys.executable, "-m", "support.breakage", cases]
    found = subprocess.run(command, cwd=ROOT, env=paths, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", [*SAMPLE, *MORE], ids=lambda case: case.row)
def test_a_case_is_about_what_its_row_names(case):
    (row,) = [row for row in ROWS if row.id == case.row]
    assert node_of(case)
    assert path_of(case.file) in row.files


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.row for case in CASES])
def test_the_named_test_passes_and_fails_when_the_named_code_is_broken(number):
    assert outcomes()["whole"][node_of(CASES[number])] == "passed"
    assert outcomes()["broken"][number] == "failed"


def test_a_function_is_broken_wherever_it_is_imported_and_whole_again_after_that():
    whole = sides(5, "rising", "closed")
    undo = broken(Target.parse("tidegate.edge:sides=reversed"))
    try:
        assert sides(5, "rising", "closed") == whole[::-1] != whole
    finally:
        for each in undo:
            each()
    assert sides(5, "rising", "closed") == whole


def test_a_wrong_way_to_break_is_refused():
    with pytest.raises(pytest.UsageError, match="'sideways' is none of skipped, zero, "):
        Target.parse("tidegate.edge:sides=sideways")
