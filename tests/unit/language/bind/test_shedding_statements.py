"""Shedding in statements: what is read from them, and what is said about wrong ones.

Wrong statements are in ``wrong_shedding.txt``: a statement, an arrow, the message. After a change of words,
``PYTHONPATH=tests python tests/unit/language/bind/test_shedding_statements.py``
writes the messages again, for a person to read.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from inline_snapshot import snapshot
from support.wrong import cases, said_of, write_anew

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.explain import explain
from tidegate.algebra.plan import Sample, walk
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding, Utility
from tidegate.algebra.threshold_alert import Alert
from tidegate.catalog.catalog import Catalog, Explain, Query, ShowShedding
from tidegate.catalog.shedding import COLUMNS, SheddingSummary, shedding_rows
from tidegate.catalog.show import answer
from tidegate.errors import QueryError
from tidegate.expressions.nodes import Cast, Column, columns_of
from tidegate.language.bind.program import bind
from tidegate.schema import Type
from tidegate.session import Session

TEXTS = Path(__file__).with_name("wrong_shedding.txt")

CATALOG = bind("""
CREATE STREAM post (id INT, level STRING, score DOUBLE, rank BIGINT, exact REAL, ok BOOLEAN, tags ARRAY<STRING>,
  at TIMESTAMP) FROM 'post' TIMESTAMP BY at;
CREATE STREAM offer (id INT, level STRING, score DOUBLE, at TIMESTAMP) FROM 'offer' TIMESTAMP BY at;
""").catalog

PAIRS = "SELECT p.id FROM post [RANGE 1 HOUR] p, offer [RANGE 1 HOUR] o WHERE p.id = o.id"
ALERT = "CREATE ALERT far FROM post p, offer o WITHIN 5 SECONDS MATCHING id WHEN p.score - o.score > 10"


def queries(text: str, catalog: Catalog = CATALOG) -> tuple[Query, ...]:
    return bind(text, catalog).queries


def shedding(text: str) -> Shedding:
    (query,) = queries(text)
    return query.shedding


def utility(clause: str, query: str = PAIRS) -> Utility | None:
    return shedding(f"{query} UTILITY BY {clause} WITH (shedding = on)").utility


def alert_of(query: Query) -> Alert:
    [join] = [node for node in walk(query.plan) if isinstance(node, ThresholdJoin)]
    return join.alerts[0]


# ---- SET


def test_without_set_nothing_is_shed():
    assert bind("").catalog.shedding == NO_SHEDDING
    assert shedding(PAIRS) == NO_SHEDDING


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET shedding = on", Shedding(Policy.ON)),
        ("set SHEDDING = 'Drop'", Shedding(Policy.DROP)),
        ("SET shedding = on; SET target_delay = '2 seconds'", Shedding(Policy.ON, 2_000_000)),
        ("SET shedding = on; SET target_delay = 500 ms", Shedding(Policy.ON, 500_000)),
        ("SET target_delay = '100ms'; SET shedding = on", Shedding(Policy.ON, 100_000)),
        ("SET shedding = on; SET shedding_budget = 100000", Shedding(Policy.ON, budget=100_000)),
        ("SET shedding = on; SET shedding_budget = 0", Shedding(Policy.ON, budget=0)),
        ("SET shedding = on; SET shedding_budget = 5; SET shedding_budget = none", Shedding(Policy.ON)),
    ],
)
def test_set_holds_for_all_queries_of_a_text(text, expected):
    program = bind(f"{text}; {PAIRS}; INSERT INTO 'x' {PAIRS}; CREATE STREAM d AS {PAIRS}; EXPLAIN {PAIRS}", CATALOG)
    assert [query.shedding for query in program.queries] == [expected] * 3
    (command,) = program.commands
    assert isinstance(command, Explain)
    assert command.query.shedding == expected
    assert program.catalog.shedding == expected


def test_a_query_that_does_not_shed_has_no_target_of_its_own():
    (query,) = queries(f"SET target_delay = '5 seconds'; SET shedding_budget = 7; {PAIRS}")
    assert query.shedding == NO_SHEDDING
    assert not query.may_shed


def test_a_session_remembers_what_is_set_and_a_text_that_is_wrong_changes_nothing():
    with Session(runtime="embedded") as session:
        session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
        session.sql("SET shedding = on")
        with pytest.raises(QueryError):
            session.sql("SET shedding = off; SELECT nothing FROM reading")
        session.sql("SET shedding_budget = 7")
        assert session.catalog.shedding == Shedding(Policy.ON, budget=7)
        assert queries("SELECT value FROM reading", session.catalog)[0].may_shed


# ---- WITH


@pytest.mark.parametrize(
    ("before", "options", "expected"),
    [
        ("", "shedding = on", Shedding(Policy.ON)),
        ("", "Shedding = 'ON', Target_Delay = 2 seconds", Shedding(Policy.ON, 2_000_000)),
        ("", "budget = 100000, target_delay = '3 s', shedding = drop", Shedding(Policy.DROP, 3_000_000, 100_000)),
        ("SET shedding = on;", "budget = 9", Shedding(Policy.ON, budget=9)),
        ("SET shedding = on; SET shedding_budget = 9;", "budget = none", Shedding(Policy.ON)),
        ("SET target_delay = '9 seconds';", "shedding = on", Shedding(Policy.ON, 9_000_000)),
        ("SET shedding = on; SET shedding_budget = 9;", "shedding = off", NO_SHEDDING),
        ("", "shedding = off", NO_SHEDDING),
    ],
)
def test_options_of_a_query_go_before_those_of_the_program(before, options, expected):
    assert shedding(f"{before} {PAIRS} WITH ({options})") == expected
    assert shedding(f"{before} INSERT INTO 'x' {PAIRS} WITH ({options})") == expected
    (command,) = bind(f"{before} EXPLAIN {PAIRS} WITH ({options})", CATALOG).commands
    assert isinstance(command, Explain)
    assert command.query.shedding == expected
    (query,) = queries(f"{before} {ALERT} WITH ({options})")
    assert query.shedding == alert_of(query).shedding == expected
    (command,) = bind(f"{before} EXPLAIN {ALERT} WITH ({options})", CATALOG).commands
    assert isinstance(command, Explain)
    assert command.query.shedding == alert_of(command.query).shedding == expected


def test_options_are_those_of_one_query():
    many = queries(f"{PAIRS} WITH (shedding = on); {PAIRS}; {PAIRS} WITH (shedding = drop)")
    assert [query.shedding.policy for query in many] == [Policy.ON, Policy.OFF, Policy.DROP]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM post",
        "SELECT id FROM post p",
        "SELECT id FROM post WINDOW(RANGE 1 HOUR)",
        "SELECT id FROM post repeat",
        "(SELECT id FROM post)",
        "SELECT id FROM post UNION ALL SELECT id FROM offer",
        "SELECT level, COUNT(*) FROM post [RANGE 1 HOUR] GROUP BY level HAVING COUNT(*) > 1",
        "SELECT id FROM post [RANGE 1 HOUR] ORDER BY score LIMIT 3 WITH TIES",
        "SELECT id FROM post [RANGE 1 HOUR] ORDER BY score LIMIT 3 PER level",
        "WITH a AS (SELECT id FROM post), b AS (SELECT id FROM a) SELECT id FROM b",
        "WITH a AS (SELECT id FROM post) (SELECT id FROM a)",
        "ISTREAM(SELECT id FROM post [RANGE 1 HOUR])",
        "SELECT id FROM SELECT id FROM post",
        "SELECT p.id FROM post [RANGE 1 HOUR] p JOIN offer [RANGE 1 HOUR] o USING (id)",
    ],
)
def test_options_stand_behind_any_query_and_do_not_change_its_plan(query):
    (with_options,), (without,) = queries(f"{query} WITH (shedding = on)"), queries(query)
    assert with_options.plan == without.plan
    assert with_options.may_shed


@pytest.mark.parametrize(
    "clauses",
    [
        "WITH (shedding = on) WHEN p.score > o.score",
        "MATCHING id WITH (shedding = on) WHEN p.score > o.score",
        "WHEN p.score > o.score WITH (shedding = on) WHERE p.id = o.id EMIT ALL",
        "WHEN p.score > o.score EMIT ALL NOTIFY 'us' WITH (shedding = on)",
    ],
)
def test_options_stand_among_the_clauses_of_an_alert(clauses):
    (query,) = queries(f"CREATE ALERT a FROM post p, offer o WITHIN 5 SECONDS {clauses}")
    assert query.is_alert
    assert alert_of(query).shedding == query.shedding == Shedding(Policy.ON)


def test_totals_are_exact_whatever_is_set():
    (query,) = queries("SET shedding = on; CREATE ALERT a FROM post WITHIN 1 HOUR WHEN TOTAL(rank) >= 100")
    assert query.shedding == NO_SHEDDING


def test_a_reader_of_an_alert_does_not_change_what_the_alert_sheds():
    alert, reader = queries(f"{ALERT} WITH (shedding = on); SELECT value FROM far")
    assert alert_of(reader).shedding == alert.shedding
    assert reader.shedding == NO_SHEDDING


def test_the_words_of_shedding_are_good_names_and_connectors_have_their_options():
    text = """
    CREATE STREAM shedding (utility INT, worth INT, budget INT, with INT, using INT, average INT)
      FROM 'x' WITH (shedding = 'on', header = true);
    SELECT utility, worth budget, with, using average FROM shedding utility WHERE utility.worth > 1
    """
    program = bind(text)
    assert program.queries[0].plan.schema.names == ("utility", "budget", "with", "average")
    assert program.catalog.find("shedding").options == (("shedding", "on"), ("header", "true"))


# ---- UTILITY BY


def test_a_utility_is_a_number_of_each_source():
    assert utility("p.score, o.id") == Utility((Column("p.score", Type.DOUBLE), Column("o.id", Type.INT)))
    assert utility("exact") == Utility((Column("p.exact", Type.REAL),))


def test_a_utility_is_any_expression_over_one_source_even_one_that_can_fail():
    found = utility("10 / (p.id - p.rank), CASE o.level WHEN 'gold' THEN 10 ELSE 1 END USING AVERAGE")
    assert found is not None
    assert found.average
    assert [each.type for each in found.types] == [Type.DOUBLE, Type.INT]
    assert [columns_of(each) for each in found.types] == [{"p.id", "p.rank"}, {"o.level"}]


def test_values_are_worth_what_is_written():
    assert utility("o.level, p.level WORTH ('gold' = 10, 'silver' = 2.5, ELSE = 1) USING AVERAGE") == Utility(
        (Column("o.level", Type.STRING), Column("p.level", Type.STRING)), (("gold", 10.0), ("silver", 2.5)), 1.0, True
    )
    assert utility("o.level worth ('it''s' = 0) using max") == Utility(
        (Column("o.level", Type.STRING),), (("it's", 0.0),)
    )
    assert utility("p.ok WORTH (ELSE = 3, TRUE = 1, false = 2)") == Utility(
        (Column("p.ok", Type.BOOLEAN),), ((True, 1.0), (False, 2.0)), 3.0
    )


def test_values_have_the_common_type_of_all_sources():
    found = utility("p.rank, o.id WORTH (-1 = 5, 3000000000 = 6)")
    assert found == Utility(
        (Column("p.rank", Type.BIGINT), Cast(Column("o.id", Type.INT), Type.BIGINT)), ((-1, 5.0), (3_000_000_000, 6.0))
    )
    found = utility("p.exact WORTH (1 = 5, .5 = 6)")
    assert found == Utility((Cast(Column("p.exact", Type.REAL), Type.DOUBLE),), ((1.0, 5.0), (0.5, 6.0)))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT p.level, COUNT(*) FROM post [NOW] p, offer o GROUP BY p.level HAVING COUNT(*) > 1 UTILITY BY o.score",
        "SELECT ISTREAM(p.id) FROM post [RANGE 1 HOUR] p, offer [RANGE 1 HOUR] o UTILITY BY o.score",
        "SELECT p.id FROM post [RANGE 1 HOUR] p, offer [RANGE 1 HOUR] o UTILITY BY o.score LIMIT 3",
        "WITH x AS (SELECT * FROM offer) SELECT p.id FROM post [RANGE 1 HOUR] p, x [RANGE 1 HOUR] o UTILITY BY o.score",
        "SELECT p.id FROM post [RANGE 1 HOUR] p JOIN offer [RANGE 1 HOUR] o ON p.id < o.id UTILITY BY o.score",
        "SELECT p.id FROM post [RANGE 1 HOUR] p JOIN (SELECT * FROM offer) o USING (id) UTILITY BY o.score",
    ],
)
def test_a_utility_stands_in_the_outermost_select_and_does_not_change_its_plan(query):
    (found,), (plain,) = queries(f"{query} WITH (shedding = on)"), queries(query.replace(" UTILITY BY o.score", ""))
    assert found.plan == plain.plan
    assert found.shedding == Shedding(Policy.ON, utility=Utility((Column("o.score", Type.DOUBLE),)))
    assert queries(f"SET shedding = drop; INSERT INTO 'x' {query}")[0].shedding.utility == found.shedding.utility


# ---- samples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET shedding = sample", Shedding(Policy.SAMPLE)),
        ("SET shedding = sample; SET sample = 0.25", Shedding(Policy.SAMPLE, rate=250_000)),
        ("SET shedding = sample; SET sample = Auto", Shedding(Policy.SAMPLE)),
        ("SET shedding = sample; SET target_delay = 500 ms", Shedding(Policy.SAMPLE, 500_000)),
    ],
)
def test_set_asks_for_samples_of_all_queries(text, expected):
    (query,) = queries(f"{text}; SELECT COUNT(*) AS n FROM post WINDOW(RANGE 1 HOUR)")
    assert query.shedding == expected
    [sample] = [node for node in walk(query.plan) if isinstance(node, Sample)]
    assert (sample.rate, sample.target) == (expected.rate, expected.target)


def test_a_query_may_be_exact_where_others_are_sampled():
    off = "SELECT COUNT(*) AS n FROM post WINDOW(RANGE 1 HOUR) WITH (shedding = off)"
    (query,) = queries(f"SET shedding = sample; {off}")
    assert query.plan.schema.names == ("n",)
    assert not any(isinstance(node, Sample) for node in walk(query.plan))


def test_intervals_follow_their_estimates():
    text = "SELECT COUNT(*) AS n, id AS post, SUM(score) AS total, AVG(score) AS mean FROM post GROUP BY id"
    (query,) = queries(f"{text} WITH (shedding = sample)")
    names = ("n", "n_low", "n_high", "post", "total", "total_low", "total_high", "mean", "mean_low", "mean_high")
    assert query.plan.schema.names == names
    assert {field.type for field in query.plan.schema if field.name != "post"} == {Type.DOUBLE}


def test_the_rows_kept_bound_extremes_on_one_side():
    text = "SELECT MIN(id) AS a, MAX(id) AS b FROM post WINDOW(RANGE 1 HOUR)"
    (query,) = queries(f"{text} WITH (shedding = sample, approximate = yes)")
    shown = {f.name: f.type for f in query.plan.schema}
    assert list(shown) == ["a", "a_low", "a_high", "b", "b_low", "b_high"]
    assert Type.DOUBLE not in shown.values()
    assert "NULL AS min_id_low, min_id AS min_id_high" in explain(query.plan)
    assert "max_id AS max_id_low, NULL AS max_id_high" in explain(query.plan)


# ---- SHOW SHEDDING


def test_show_shedding_has_the_queries_so_far_and_those_that_run():
    running = queries(f"{ALERT} WITH (shedding = drop)")
    text = f"{PAIRS} WITH (shedding = on); {PAIRS}; SHOW SHEDDING; {PAIRS}"
    (command,) = bind(text, CATALOG, running).commands
    assert isinstance(command, ShowShedding)
    assert [query.name for query in command.queries] == ["query_1", "query_2", "far"]
    assert answer(command) == snapshot("""\
query    join  policy  results_found  utility_found  comparisons_made  rows_dropped  budget  history  rate
query_1        on
far            drop\
""")


def test_show_shedding_says_what_runs_know():
    (command,) = bind(f"{PAIRS} WITH (shedding = on); {ALERT} WITH (shedding = on); SHOW SHEDDING", CATALOG).commands
    assert isinstance(command, ShowShedding)
    shed = [
        SheddingSummary("query_1", "p, o", "on", "5 % now", "about 28 %", "", "0", "100,000", "5 % from step 3"),
        SheddingSummary("other", "a, b", "drop", "50 % now", "about 25 %", "30 %", "17", "", ""),
    ]
    assert answer(command, (), shed) == snapshot("""\
query    join  policy  results_found  utility_found  comparisons_made  rows_dropped  budget   history          rate
query_1  p, o  on      5 % now        about 28 %                       0             100,000  5 % from step 3
other    a, b  drop    50 % now       about 25 %     30 %              17
far            on\
""")
    assert all(len(row) == len(COLUMNS) for row in shedding_rows(command.queries, shed))


@pytest.mark.parametrize(
    "text", ["SHOW SHEDDING", f"{PAIRS}; show shedding", f"SET shedding = off; {PAIRS}; SHOW SHEDDING"]
)
def test_show_shedding_says_that_nothing_is_shed(text):
    (command,) = bind(text, CATALOG).commands
    assert isinstance(command, ShowShedding)
    assert answer(command) == "nothing is shed: shedding is off"


# ---- wrong statements


@pytest.mark.parametrize(("statement", "message"), cases(TEXTS))
def test_a_wrong_statement_is_answered_with_what_to_write_instead(statement, message):
    assert said_of(statement, CATALOG) == message


def test_there_are_many_wrong_statements_and_every_message_shows_the_place_and_says_what_to_write():
    assert len({statement for statement, _ in cases(TEXTS)}) >= 25
    for statement, message in cases(TEXTS):
        assert "\n   | " in message, statement
        assert "\n   = hint: " in message or ": expected " in message, statement


if __name__ == "__main__":
    write_anew(TEXTS, CATALOG)
