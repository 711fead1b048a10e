"""What is known of similarity joins, where they run, and how they are explained."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from support.alike import ON, STREAMS, joins, optimized, plan_of, text_of, the_join, typed

from tidegate.algebra.explain import explain
from tidegate.algebra.explain_similarity_join import describe_similarity_joins, describe_state_basis
from tidegate.algebra.plan import Join, inputs, walk
from tidegate.algebra.properties import has_own_times, is_chronon, unique_keys, validity_bound
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding, SimilarityJoin
from tidegate.language.bind.program import bind
from tidegate.optimizer.sharing import share_subplans
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.explain import explain_compiled
from tidegate.runtime.explain_descriptions import describe_stage
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.runtime.stage import ToStage
from tidegate.runtime.stage_graph import StageGraph

# ---- what is known of them


def test_properties_are_those_of_the_join_it_takes_the_place_of() -> None:
    plain = next(node for node in walk(optimized("TRUE")) if isinstance(node, Join))
    made = SimilarityJoin(plain.left, plain.right, None)
    for known in (validity_bound, is_chronon, has_own_times, unique_keys):
        assert known(made) == known(plain)
    assert (made.schema, inputs(made)) == (plain.schema, inputs(plain))


def test_equal_ones_of_several_queries_are_shared() -> None:
    one, other = optimized("a.ids SUBSET OF b.ids", typed("a.few")), optimized("a.ids SUBSET OF b.ids", typed("a.few"))
    text = "SELECT y.k FROM a y WINDOW(RANGE 1 MINUTE), b z WINDOW(RANGE 2 MINUTES) WHERE y.ids SUBSET OF z.ids"
    third = plan_of(text, typed("y.few"))
    assert len({join for plan in share_subplans([one, other, third]) for join in joins(plan)}) == 1
    fourth = optimized("a.ids SUBSET OF b.ids", replace(typed("a.few"), budget=5))
    assert len({join for plan in share_subplans([one, fourth]) for join in joins(plan)}) == 2


def test_columns_that_nobody_reads_are_not_read() -> None:
    join = the_join("OVERLAP(a.ids, b.ids) >= 3")
    assert [side.schema.names for side in (join.left, join.right)] == [("a.k", "a.ids"), ("b.ids",)]


# ---- where they run


def graph_of(text: str) -> StageGraph:
    return compile_queries(bind(STREAMS + text))[1]


def ways(graph: StageGraph) -> list[tuple[str, ...] | None]:
    """How elements are spread on their way from stage to stage."""
    return [target.keys for stage in graph.stages for target in stage.targets if isinstance(target, ToStage)]


def test_every_bucket_gets_all_rows_of_both_sides() -> None:
    graph = graph_of(text_of("OVERLAP(a.ids, b.ids) >= 3"))
    assert [stage.level for stage in graph.stages] == [0, 0, 1]
    assert ways(graph) == [None, None]
    assert not graph.stages[-1].is_single
    assert (
        describe_stage(graph.stages[-1])
        == "stage 2 (all rows in every bucket, each bucket makes a part of the results)"
    )


@pytest.mark.parametrize(
    ("above", "last"),
    [
        ("SELECT a.k, COUNT(*) AS n FROM {} GROUP BY a.k", ("a.k",)),
        ("SELECT COUNT(*) AS n FROM {}", ()),
        ("SELECT DISTINCT a.k, b.k AS other FROM {}", ("k", "other")),
    ],
)
def test_what_they_find_is_brought_together_anew(above: str, last: tuple[str, ...]) -> None:
    pairs = "a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.ids SUBSET OF b.ids"
    assert ways(graph_of(above.format(pairs))) == [None, None, last]


def test_so_is_what_they_find_for_another_join() -> None:
    pairs = "a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.ids SUBSET OF b.ids"
    by_hash = graph_of(f"SELECT a.k FROM {pairs} JOIN c WINDOW(RANGE 9) ON a.k = c.k")
    assert ways(by_hash) == [None, None, ("a.k",), ("c.k",)]
    by_likeness = graph_of(f"SELECT a.k FROM {pairs} JOIN c WINDOW(RANGE 9) ON a.words SUBSET OF c.words")
    assert ways(by_likeness) == [None, None, None, None]


def test_branches_of_a_union_go_to_every_bucket_too() -> None:
    both = "(SELECT ids FROM a UNION ALL SELECT ids FROM c) u"
    graph = graph_of(f"SELECT b.k FROM {both} WINDOW(RANGE 9), b WINDOW(RANGE 9) WHERE u.ids SUBSET OF b.ids")
    assert ways(graph) == [None, None, None]


def test_a_query_is_compiled_with_its_own_shedding() -> None:
    program = bind(f"{STREAMS} {text_of('a.x < b.x')}; {text_of('a.x < b.x')}")
    first, second = program.queries
    compiled, graph = compile_queries(replace(program, queries=(first, replace(second, shedding=ON))))
    assert [len(joins(each.optimized)) for each in compiled] == [0, 1]
    shown = explain_compiled(compiled, graph, ExplainFormat.TEXT)
    assert "similarity joins\n  a.x < b.x\n    found by comparing every pair\n" in shown


# ---- EXPLAIN


def test_it_is_explained_how_pairs_are_found_and_what_is_shed() -> None:
    utility = replace(typed("a.few"), budget=1000)
    lines = describe_similarity_joins(optimized("OVERLAP(a.ids, b.ids) >= 3 AND a.k < b.k", utility))
    assert "\n".join(lines) == snapshot("""\
overlap(a.ids, b.ids) >= 3 AND a.k < b.k
  found by an index of the rarest items of each row
  in slots of 6 seconds; every bucket gets all rows, and compares a part of them
  with more than 1000 comparisons in a step, only the most productive ones are made
  worth of a row, by a.few: 1 10.0, 2 5.0, others 1.0; a pair is worth the greater of both\
""")
    dropped = describe_similarity_joins(optimized("a.k < b.k", Shedding(Policy.DROP)))
    assert "\n".join(dropped) == snapshot("""\
a.k < b.k
  found by comparing every pair
  in slots of 6 seconds; every bucket gets all rows, and compares a part of them
  with more comparisons than fit in 1 second a step, only those of some rows, chosen at random, are made\
""")


def test_a_checkpoint_depends_on_slots_policy_and_utility_but_not_on_budgets() -> None:
    def kept(shedding: Shedding) -> list[str]:
        return describe_state_basis(optimized("a.ids SUBSET OF b.ids", shedding))

    assert kept(ON) == kept(replace(ON, budget=5, target=3))
    assert len({tuple(kept(each)) for each in (NO_SHEDDING, ON, typed("a.few"), Shedding(Policy.DROP))}) == 4


def test_a_condition_that_is_checked_again_is_said_once() -> None:
    assert "Similarity join on 0.5 > abs(b.x - a.x)\n" in explain(optimized("0.5 > ABS(b.x - a.x)"))
    assert "Similarity join on a.k < b.k" not in explain(optimized("a.k < b.k AND b.words SUPERSET OF a.words"))
    assert "Join by comparison of all pairs\n" in explain(optimized("TRUE", ON))
