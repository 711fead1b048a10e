"""Queries that run move to plans that are estimated to cost less, and their results stay exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import stories
from support.stories import Story

from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Aggregate, Join, Plan, walk
from tidegate.live import plan_choice
from tidegate.live.better_plans import queries_to_move
from tidegate.live.plan_choice import choose_by_cost
from tidegate.optimizer.advice import GroupPosition, KeyedJoins, PlanChoices
from tidegate.runtime.costs import plan_costs
from tidegate.runtime.costs.plan_costs import PlanCost

GROUPED = """
    SELECT x.k AS k, y.v AS w, {call} AS m FROM a WINDOW(RANGE 17) AS x, b WINDOW(RANGE 30) AS y
    WHERE x.k = y.k GROUP BY x.k, y.v"""
KEYED = "SELECT x.v AS p, y.v AS q FROM a WINDOW(RANGE 30) AS x, b WINDOW(RANGE 9) AS y WHERE x.k = y.k"
JOINED = "SELECT x.v AS p, y.v AS q FROM a WINDOW(RANGE 10) AS x, b WINDOW(RANGE 10) AS y WHERE x.k = y.k"


@pytest.fixture(autouse=True)
def few_rows_say_enough(monkeypatch) -> None:
    monkeypatch.setattr(plan_choice, "FEWEST_ROWS", 100)


@pytest.fixture
def keyed(tmp_path: Path, monkeypatch) -> Story:
    """A story in which no two rows of `b` have the same k."""
    declared = stories.STREAMS.replace("b.csv' TIMESTAMP BY t DELAY 2 US", "b.csv' TIMESTAMP BY t DELAY 2 US KEY (k)")
    monkeypatch.setattr(stories, "STREAMS", declared)
    # Millions of rows a second arrive, so that memory would count for nothing.
    monkeypatch.setattr(plan_costs, "BYTES_OF_A_CORE", 100.0)
    return Story(tmp_path, 2)


def arrive(story: Story, steps: int, first: int = 0) -> None:
    """Let rows of `a` arrive, whose greatest values come early: thirty at each of four instants of a step."""
    for _ in range(steps):
        values = [10_000 - len(story.elements["a"]) - at for at in range(120)]
        story.arrive("a", [(0 if at % 30 else 1, first + at % 20, value) for at, value in enumerate(values)])
        story.session.step()


def begin(story: Story, text: str, first: int = 0) -> None:
    """Begin with rows of `b`: of a stream with fewer than twenty rows, the rate is not known."""
    story.arrive("b", [(0, k, 10 * k) for k in range(20)])
    story.register(text)
    arrive(story, 6, first)
    story.arrive("b", [(25, k, 10 * k) for k in range(20, 40)])


def say(story: Story, text: str) -> str:
    (answer,) = story.session.execute(text)
    return answer.message


def plan_of(story: Story, query: str = "q0") -> Plan:
    """The plan of the newest phase of a query."""
    live = story.session._live
    *_, last = (phase for phase in live.running_phases() if phase.query == query)
    return live.compiled[last.number].optimized


def groups_below_a_join(plan: Plan) -> bool:
    return any(isinstance(each, Join) and any(isinstance(e, Aggregate) for e in walk(each)) for each in walk(plan))


def test_a_query_moves_to_grouping_below_a_join_and_stays_exact(keyed: Story):
    begin(keyed, GROUPED.format(call="MAX(x.v)"))
    assert not groups_below_a_join(plan_of(keyed))
    assert "moves to a better plan" in say(keyed, "OPTIMIZE QUERY q0")
    assert groups_below_a_join(plan_of(keyed))
    arrive(keyed, 1, first=20)
    # The choice is recorded: the same plan is made again, without an estimate.
    keyed.restart(in_step=True)
    assert groups_below_a_join(plan_of(keyed))
    arrive(keyed, 11, first=20)
    assert len(list(keyed.session._live.running_phases())) == 1
    assert say(keyed, "OPTIMIZE QUERY q0") == "query q0 has the best plan that is known"
    keyed.finish()
    keyed.check()


def test_explain_says_what_was_chosen_by_cost(keyed: Story):
    begin(keyed, GROUPED.format(call="MAX(x.v)"))
    say(keyed, "OPTIMIZE QUERY q0")
    (answer,) = keyed.session.execute("EXPLAIN ANALYZE QUERY q0")
    assert answer.table is not None
    lines = answer.table["text"].to_pylist()
    (why,) = lines[lines.index("chosen by estimated cost") + 1 :]
    assert why.startswith("  group below joins on a KEY: ")
    keyed.session.abandon()


def test_a_query_moves_to_a_keyed_join_where_the_rates_speak_for_it(keyed: Story):
    text = "SELECT x.v AS p, y.v AS q FROM a WINDOW(RANGE 10) AS x, b WINDOW(RANGE 24) AS y WHERE x.k = y.k"
    begin(keyed, text)
    assert not any(isinstance(each, KeyedJoin) for each in walk(plan_of(keyed)))
    assert "moves to a better plan" in say(keyed, "OPTIMIZE QUERY q0")
    assert any(isinstance(each, KeyedJoin) for each in walk(plan_of(keyed)))
    arrive(keyed, 11, first=20)
    assert len(list(keyed.session._live.running_phases())) == 1
    keyed.finish()
    keyed.check()


def test_a_query_leaves_a_keyed_join_that_keeps_most_rows(keyed: Story):
    """Its rows wait for partners that never arrive, in synopses that are larger than the state of a plain join."""
    begin(keyed, KEYED, first=19)
    assert any(isinstance(each, KeyedJoin) for each in walk(plan_of(keyed)))
    chosen = keyed.session._propose_plan("q0").advice
    assert chosen.kept
    assert all(share > 0.5 for share in chosen.kept.values())
    keyed.session.abandon()


def test_a_session_finds_by_itself_that_a_query_should_move(keyed: Story):
    begin(keyed, GROUPED.format(call="MAX(x.v)"))
    session = keyed.session
    assert list(queries_to_move(session._live, session._propose_plan)) == ["q0"]
    say(keyed, "OPTIMIZE QUERY q0")
    # While both plans run, and then with the better one, it is left alone.
    assert list(queries_to_move(session._live, session._propose_plan)) == []
    arrive(keyed, 11, first=20)
    assert len(list(session._live.running_phases())) == 1
    assert list(queries_to_move(session._live, session._propose_plan)) == []
    session.abandon()


def test_a_new_query_over_streams_whose_rates_are_known_has_a_keyed_join_at_once(keyed: Story):
    text = "SELECT x.v AS p, y.v AS q FROM a WINDOW(RANGE 10) AS x, b WINDOW(RANGE 24) AS y WHERE x.k = y.k"
    begin(keyed, text.replace("RANGE 10", "RANGE 9"))
    assert not any(isinstance(each, KeyedJoin) for each in walk(plan_of(keyed)))
    keyed.register(text)
    assert any(isinstance(each, KeyedJoin) for each in walk(plan_of(keyed, "q1")))
    arrive(keyed, 1, first=20)
    keyed.restart(in_step=True)
    arrive(keyed, 11, first=20)
    keyed.finish()
    keyed.check()


def test_a_new_query_rather_shares_what_runs(keyed: Story):
    text = "SELECT x.v AS p, y.v AS q FROM a WINDOW(RANGE 10) AS x, b WINDOW(RANGE 24) AS y WHERE x.k = y.k"
    begin(keyed, text)
    keyed.register(text)
    assert plan_of(keyed, "q1") == plan_of(keyed)
    keyed.session.abandon()


def test_a_new_query_keeps_the_written_order_of_joins_that_run(tmp_path: Path):
    story = Story(tmp_path, 1)
    inputs = "a WINDOW(RANGE 3) AS x, a WINDOW(RANGE 4) AS z, b WINDOW(RANGE 3) AS y"
    text = f"SELECT x.v AS p FROM {inputs} WHERE x.k = z.k AND z.k = y.k"
    story.register(text)
    for at in range(12):
        story.arrive("a", [(0 if each else 1, each, at) for each in range(9)])
        story.arrive("b", [(0 if each else 1, 8, at) for each in range(2)])
        story.session.step()
    story.register(text)
    assert plan_of(story, "q1") == plan_of(story)
    story.finish()
    story.check()


def test_nothing_is_chosen_before_there_are_enough_rows(keyed: Story, monkeypatch):
    monkeypatch.setattr(plan_choice, "FEWEST_ROWS", 10_000)
    begin(keyed, GROUPED.format(call="MAX(x.v)"))
    assert say(keyed, "OPTIMIZE QUERY q0") == "query q0 has the best plan that is known"
    keyed.session.abandon()


@pytest.mark.parametrize(("limit", "is_shared"), [(1, False), (9, True)])
def test_a_query_leaves_a_join_that_makes_far_more_rows_than_it_needs(tmp_path: Path, limit: int, is_shared: bool):
    """Its filter lets few rows of a shared join pass. A join of its own holds few rows of `a`, and those of `b`."""
    story = Story(tmp_path, 1)
    story.register(JOINED)
    story.register(f"{JOINED} AND x.v < {limit}")
    for at in range(12):
        story.arrive("b", [(0 if each else 1, 0, each) for each in range(4)])
        story.arrive("a", [(0 if each else 1, 0, each + at) for each in range(12)])
        story.session.step()
    (join,) = {each for each in walk(plan_of(story)) if isinstance(each, Join)}
    assert join in set(walk(plan_of(story, "q1")))
    say(story, "OPTIMIZE QUERY q1")
    assert (join in set(walk(plan_of(story, "q1")))) is is_shared
    story.arrive("a", [(1, 0, 1)])
    story.session.step()
    story.finish()
    story.check()


# ---- decisions


@pytest.mark.parametrize(("gain", "moves"), [(1.4, False), (1.6, True)])
def test_a_choice_changes_only_for_a_clear_gain(keyed: Story, gain: float, moves: bool):
    begin(keyed, GROUPED.format(call="MAX(x.v)"))
    (phase,) = keyed.session._live.running_phases()
    compiled = keyed.session._live.compiled[phase.number]
    made: list[PlanChoices] = []

    def cost_of(_: object) -> PlanCost:
        return PlanCost(1.0 / gain if made[-1].grouping is GroupPosition.BELOW else 1.0)

    def compile_with(choices: PlanChoices):
        made.append(choices)
        return compiled

    chosen, reasons = choose_by_cost(PlanChoices(), compile_with, cost_of)
    assert (chosen.choices.grouping is GroupPosition.BELOW) is moves
    assert list(reasons) == (["grouping"] if moves else [])
    assert {each.keyed_joins for each in made} == set(KeyedJoins)
    keyed.session.abandon()
