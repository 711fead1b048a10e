"""The binder: plans of alerts, who must be near whom, what is equal, what is watched, and commands about them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from inline_snapshot import snapshot
from support.micros import in_micros

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import Filter, Map, Scan, walk
from tidegate.algebra.similarity_join import NO_SHEDDING
from tidegate.algebra.threshold_alert import Alert, Link, Representation
from tidegate.catalog.catalog import Catalog, DropQuery, Explain, Query, ShowAlerts, ShowQueries
from tidegate.catalog.show import answer
from tidegate.errors import QueryError
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.program import bind
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.lower import lower
from tidegate.schema import Domain, Type
from tidegate.session import Session

CATALOG = bind("""
CREATE STREAM humidity (machine INT, value DOUBLE CHECK (value BETWEEN 1 AND 100), at TIMESTAMP)
  FROM 'humidity' TIMESTAMP BY at;
CREATE STREAM air (machine INT, value DOUBLE, at TIMESTAMP) FROM 'air' TIMESTAMP BY at;
CREATE STREAM surface (machine INT, value REAL, sensor STRING, at TIMESTAMP) FROM 'surface' TIMESTAMP BY at;
CREATE STREAM count (device INT, whole INT, large BIGINT) FROM 'count';
CREATE TABLE place (machine INT, hall STRING) FROM 'place.csv';
""").catalog

TWO = "CREATE ALERT damp FROM humidity h, air a"
THREE = "CREATE ALERT damp FROM humidity h, air a, surface s"
FIVE = 5_000_000


def query(text: str, catalog: Catalog = CATALOG) -> Query:
    return bind(text, catalog).queries[-1]


def join(text: str) -> ThresholdJoin:
    plan = query(text).plan
    assert isinstance(plan, Map)
    assert isinstance(plan.source, ThresholdJoin)
    return plan.source


def alert(text: str) -> Alert:
    [only] = join(text).alerts
    return only


def links(within: str, *, begin: str = THREE) -> list[Link]:
    return list(alert(f"{begin} WITHIN {within} WHEN h.value + a.value > 3").links)


def refused(text: str, catalog: Catalog = CATALOG, running: tuple[Query, ...] = ()) -> str:
    with pytest.raises(QueryError) as caught:
        bind(text, catalog, running)
    return f"{caught.value.code}: {caught.value.message}"


# ---- the whole plan


def test_the_plan_of_an_alert_is_a_threshold_join_below_the_columns_of_an_alarm():
    text = f"""{THREE} WITHIN 5 SECONDS MATCHING machine
               WHEN ln(h.value / 100) + 18.678 * a.value / (257.14 + a.value) - s.value > 0.5
               WHERE h.value > 3 AND h.value < a.value AND s.sensor LIKE 'x%' NOTIFY 'the janitor'"""
    found = query(text)
    assert (found.name, found.is_alert, found.notify) == ("damp", True, "the janitor")
    assert found.reads == {"humidity", "air", "surface"}
    condition = "ln(h.value / 100.0) + 18.678 * a.value / (257.14 + a.value) - s.value > 0.5"
    assert to_sql(alert(text).condition) == f"{condition} AND h.value < a.value"
    assert to_sql(alert(text).value) == condition.removesuffix(" > 0.5")
    assert join(text).keys == (("h.machine",), ("a.machine",), ("s.machine",))
    assert [[type(node).__name__ for node in walk(each)] for each in join(text).inputs] == [
        ["Filter", "Map", "Scan"],
        ["Map", "Scan"],
        ["Filter", "Map", "Scan"],
    ]


def test_an_alarm_has_the_keys_once_then_other_columns_of_each_stream_then_what_is_said_of_it():
    schema = query(f"{THREE} WITHIN 5 SECONDS MATCHING machine WHEN h.value + a.value > 3").plan.schema
    assert [(f.name, f.type) for f in schema] == [
        ("machine", Type.INT),
        ("h_value", Type.DOUBLE),
        ("h_at", Type.TIMESTAMP),
        ("a_value", Type.DOUBLE),
        ("a_at", Type.TIMESTAMP),
        ("s_value", Type.REAL),
        ("s_sensor", Type.STRING),
        ("s_at", Type.TIMESTAMP),
        ("value", Type.DOUBLE),
        ("incident", Type.TIMESTAMP),
        ("alarm", Type.BIGINT),
    ]


def test_columns_that_would_have_one_name_get_numbers():
    text = f"{TWO} WITHIN 5 MATCHING value, machine WHEN h.value + a.value > 3"
    assert query(text).plan.schema.names == ("machine", "value", "h_at", "a_at", "value_2", "incident", "alarm")


def test_an_assumption_is_a_column_of_every_alarm():
    text = f"{THREE} WITHIN 5 WHEN h.value + a.value > 3 ASSUME QUASICONVEX"
    some, every = query(f"{text} IN surface, h").plan, query(text).plan
    assert isinstance(some, Map)
    assert isinstance(every, Map)
    assert [to_sql(p.outputs[-1].expression) for p in (some, every)] == [
        "'quasiconvex in h, s'",
        "'quasiconvex in h, a, s'",
    ]
    assert some.outputs[-1].name == "assumed"
    assert (alert(f"{text} IN surface, h").assumed, alert(text).assumed) == ((0, 2), (0, 1, 2))


def test_emit_all_asks_for_everything():
    text = f"{TWO} WITHIN 5 WHEN h.value + a.value > 3"
    assert (alert(text).everything, alert(f"{text} EMIT ALL").everything) == (False, True)
    assert (alert(text).members, alert(text).name, alert(text).demands) == ((0, 1), "damp", ())


def test_scans_know_the_declared_domains():
    [first, *_] = [node for node in walk(join(f"{TWO} WITHIN 5 WHEN h.value > a.value")) if isinstance(node, Scan)]
    assert first.domains == (("value", Domain(1.0, 100.0)),)


# ---- FROM


def test_streams_may_be_derived_queries_or_the_same_twice():
    text = """CREATE STREAM wet AS SELECT machine, value FROM humidity WHERE value > 90;
              CREATE ALERT damp FROM wet, (SELECT value * 2 AS twice FROM air WHERE value > 0) b, humidity h, humidity i
              WITHIN 5 WHEN wet.value + b.twice > h.value - i.value"""
    assert [f"{each.schema.names}" for each in join(text).inputs] == snapshot(
        [
            "('wet.machine', 'wet.value')",
            "('b.twice',)",
            "('h.machine', 'h.value', 'h.at')",
            "('i.machine', 'i.value', 'i.at')",
        ]
    )
    assert [q.name for q in bind(text, CATALOG).queries] == ["damp"]


def test_a_stream_may_be_joined_with_a_table_below_an_alert():
    text = """CREATE ALERT damp FROM (SELECT a.value, p.hall FROM air a, place p WHERE a.machine = p.machine) a,
              humidity h WITHIN 5 WHEN h.value > a.value WHERE a.hall = 'west'"""
    assert len(join(text).inputs) == 2


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("humidity h, place a", "Q212: an alert cannot read the table 'place': its rows have no times"),
        ("humidity h WINDOW(ROWS 3), air a", "Q212: a stream of an alert cannot have a window"),
        ("humidity h, air a GRANULARITY(1 MINUTE)", "Q212: a stream of an alert cannot have a window"),
        ("humidity h CROSS JOIN air a", "Q212: the streams of an alert cannot be joined in FROM"),
        (
            "humidity h, (SELECT DISTINCT value FROM air WINDOW(RANGE 1 MINUTE)) a",
            "Q212: WITHIN compares the times of elements, but 'a' has elements that last",
        ),
        ("humidity h, airs a", "Q101: unknown stream 'airs'"),
        ("humidity h, air h", "Q105: there are two 'h' in this FROM"),
    ],
)
def test_an_alert_reads_elements_of_single_instants(sources, message):
    assert refused(f"CREATE ALERT damp FROM {sources} WITHIN 5 WHEN h.value > a.value") == message


WINDOWED = "WINDOW(RANGE 1 MINUTE)"


@pytest.mark.parametrize(
    ("source", "is_taken"),
    [
        ("(SELECT value FROM air WHERE value > 0)", True),
        ("(SELECT value FROM air UNION ALL SELECT value FROM surface)", True),
        ("(SELECT x.value FROM air x, place p WHERE x.machine = p.machine)", True),
        (f"(SELECT x.value FROM air x, surface s {WINDOWED} WHERE x.machine = s.machine)", True),
        (f"ISTREAM(SELECT DISTINCT value FROM air {WINDOWED})", True),
        (f"DSTREAM(SELECT MAX(value) AS value FROM air {WINDOWED})", True),
        ("(SELECT MAX(value) AS value FROM air WINDOW(NOW))", False),
        ("(SELECT DISTINCT value FROM air WINDOW(NOW))", False),
        ("(SELECT value FROM air WINDOW(NOW) ORDER BY value LIMIT 1)", False),
        ("(SELECT value FROM air WINDOW(NOW) EXCEPT ALL SELECT value FROM surface WINDOW(NOW))", False),
        ("(SELECT value FROM air WHERE machine IN (SELECT machine FROM place))", False),
        (f"(SELECT x.value FROM air x {WINDOWED}, surface s {WINDOWED} WHERE x.machine = s.machine)", False),
    ],
)
def test_an_alert_takes_the_queries_that_the_page_of_the_language_names(source, is_taken):
    text = f"CREATE ALERT damp FROM humidity h, {source} a WITHIN 5 WHEN h.value > a.value"
    if is_taken:
        assert len(join(text).inputs) == 2
    else:
        assert refused(text) == "Q212: WITHIN compares the times of elements, but 'a' has elements that last"


# ---- one stream

ONE = "CREATE ALERT damp FROM humidity h"


def test_an_alert_on_one_stream_says_which_elements_represent_others():
    found = alert(f"{ONE} WITHIN 5 SECONDS MATCHING machine WHEN exp(h.value) > 3")
    assert (found.members, found.links, found.representation) == ((0,), (), Representation(FIVE))
    assert (to_sql(found.value), to_sql(found.condition)) == ("exp(h.value)", "exp(h.value) > 3.0")
    assert alert(f"{ONE} WITHIN 5 SECONDS OPEN WHEN h.value > 3").representation == Representation(FIVE, strict=True)
    assert alert(f"{ONE} WHEN h.value > 3").representation is None


def test_all_conditions_on_one_stream_are_checked_before_its_elements_are_compared():
    text = f"{ONE} WITHIN 5 SECONDS WHEN h.value > 3 WHERE h.machine = h.value AND 1 < 2"
    assert to_sql(alert(text).condition) == "h.value > 3.0"
    (below,) = join(text).inputs
    assert isinstance(below, Filter)
    assert to_sql(below.predicate) == "h.machine = h.value AND 1 < 2"
    assert join(text).keys == ((),)


def test_an_alarm_of_one_stream_is_an_instant_that_other_alerts_can_read():
    text = f"{ONE} WITHIN 5 SECONDS MATCHING machine WHEN h.value > 3;"
    assert query(text).plan.schema.names == ("machine", "h_value", "h_at", "value", "incident", "alarm")
    assert len(join(f"{text} CREATE ALERT more FROM damp d, air a WITHIN 5 WHEN d.value > a.value").inputs) == 2
    assert len(join(f"{text} CREATE ALERT more FROM damp d WHEN d.value > 4").inputs) == 1


def test_shedding_of_all_queries_does_not_apply_to_an_alert_on_one_stream():
    assert alert(f"SET shedding = on; {ONE} WITHIN 5 SECONDS WHEN h.value > 3").shedding == NO_SHEDDING


# ---- WITHIN


def test_without_more_words_every_pair_must_be_near():
    assert links("5 SECONDS") == [Link(i, j, FIVE, FIVE) for i, j in ((0, 1), (0, 2), (1, 2))]


def test_a_star_is_near_its_centre():
    assert links("5 SECONDS OF a") == [Link(0, 1, FIVE, FIVE), Link(1, 2, FIVE, FIVE)]
    assert links("5 SECONDS OF air") == links("5 SECONDS OF a")


def test_named_pairs_are_chains_and_near_cliques():
    assert links("5 SECONDS BETWEEN a AND h, 7 BETWEEN a AND s") == [Link(0, 1, FIVE, FIVE), Link(1, 2, 7, 7)]
    assert links("1 BETWEEN h AND a, 2 BETWEEN a AND s, 3 BETWEEN s AND h") == [
        Link(0, 1, 1, 1),
        Link(1, 2, 2, 2),
        Link(0, 2, 3, 3),
    ]


def test_open_ends_are_those_of_the_difference_between_the_first_and_the_second():
    assert links("5 OPEN", begin=TWO) == [Link(0, 1, 5, 5, open_before=True, open_after=True)]
    assert links("5 LEFT OPEN", begin=TWO) == [Link(0, 1, 5, 5, open_before=True)]
    assert links("5 RIGHT OPEN", begin=TWO) == [Link(0, 1, 5, 5, open_after=True)]
    assert links("5 BETWEEN h AND a RIGHT OPEN", begin=TWO) == [Link(0, 1, 5, 5, open_after=True)]
    assert links("5 BETWEEN a AND h RIGHT OPEN", begin=TWO) == [Link(0, 1, 5, 5, open_before=True)]
    # The others lie in an interval around the centre, and the right end of that is open.
    assert links("5 RIGHT OPEN OF a", begin=TWO) == [Link(0, 1, 5, 5, open_after=True)]
    assert links("5 RIGHT OPEN OF h", begin=TWO) == [Link(0, 1, 5, 5, open_before=True)]


def test_elements_of_one_hopping_window_are_less_than_its_length_apart():
    found = alert(f"{THREE} WITHIN WINDOWS OF 10 SLIDE 4 WHEN h.value + a.value > 3")
    assert found.step == 4
    assert found.links == tuple(Link(i, j, 10, 10, True, True) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert alert(f"{THREE} WITHIN WINDOWS OF 10 WHEN h.value + a.value > 3").step == 10
    assert alert(f"{THREE} WITHIN 10 WHEN h.value + a.value > 3").step == 1


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ("5 OF x", "Q101: FROM has no 'x'"),
        ("5 BETWEEN h AND x", "Q101: FROM has no 'x'"),
        ("5 BETWEEN h AND humidity", "Q211: 'h' is always near itself"),
        ("5 BETWEEN h AND a, 6 BETWEEN a AND h", "Q211: the distance between 'a' and 'h' is given twice"),
        ("5 BETWEEN h AND a", "Q211: 's' may be at any distance from 'h'"),
        ("5 BETWEEN a AND s", "Q211: 'a' may be at any distance from 'h'"),
    ],
)
def test_pairs_name_streams_and_connect_all_of_them(within, message):
    assert refused(f"{THREE} WITHIN {within} WHEN h.value + a.value > 3") == message


# ---- MATCHING and WHERE


def keys(clauses: str, *, begin: str = THREE) -> tuple[tuple[str, ...], ...]:
    return join(f"{begin} WITHIN 5 {clauses} WHEN h.value + a.value > 3").keys


def test_matching_columns_are_keys():
    assert keys("") == ((), (), ())
    assert keys("MATCHING MACHINE, at") == (("h.machine", "h.at"), ("a.machine", "a.at"), ("s.machine", "s.at"))


def test_equalities_that_connect_all_streams_are_keys_too():
    chain = "WHERE h.machine = a.machine AND s.machine = a.machine"
    assert keys(chain) == (("h.machine",), ("a.machine",), ("s.machine",))
    assert keys(f"MATCHING machine {chain}") == keys(chain)
    assert to_sql(alert(f"{THREE} WITHIN 5 {chain} WHEN h.value + a.value > 3").condition) == "h.value + a.value > 3.0"


def test_columns_of_other_names_may_be_equal():
    begin = "CREATE ALERT damp FROM humidity h, count c"
    text = f"{begin} WITHIN 5 WHERE c.device = h.machine WHEN h.value + c.whole > 3"
    assert join(text).keys == (("h.machine",), ("c.device",))
    names = ("machine", "h_value", "h_at", "c_whole", "c_large", "value", "incident", "alarm")
    assert query(text).plan.schema.names == names


def test_other_equalities_stay_conditions():
    partly = f"{THREE} WITHIN 5 WHERE h.machine = a.machine WHEN h.value + a.value > 3"
    assert join(partly).keys == ((), (), ())
    assert to_sql(alert(partly).condition) == "h.value + a.value > 3.0 AND h.machine = a.machine"
    # A second column of a stream that has to be equal is compared, or filters that stream.
    begin = "CREATE ALERT damp FROM humidity h, count c"
    twice = f"{begin} WITHIN 5 WHERE h.machine = c.device AND h.machine = c.whole WHEN h.value + c.whole > 3"
    assert join(twice).keys == (("h.machine",), ("c.device",))
    assert to_sql(alert(twice).condition).endswith(" AND h.machine = c.whole")
    own = f"{begin} WITHIN 5 WHERE h.machine = c.device AND c.device = c.whole WHEN h.value + c.whole > 3"
    assert isinstance(join(own).inputs[1], Filter)
    # Types differ: there is a cast, and it is no equality of columns.
    cast = f"{begin} WITHIN 5 WHERE h.machine = c.large WHEN h.value + c.whole > 3"
    assert join(cast).keys == ((), ())


def test_conditions_on_one_stream_filter_it():
    text = f"{TWO} WITHIN 5 WHERE h.value > 1 AND a.value BETWEEN 2 AND 3 AND h.machine <> 7 WHEN h.value > a.value"
    first, second = join(text).inputs
    assert isinstance(first, Filter)
    assert isinstance(second, Filter)
    assert to_sql(first.predicate) == "h.value > 1.0 AND h.machine <> 7"
    assert to_sql(second.predicate) == "a.value >= 2.0 AND a.value <= 3.0"
    assert to_sql(alert(text).condition) == "h.value > a.value"


def test_conditions_on_no_stream_are_kept():
    assert (
        to_sql(alert(f"{TWO} WITHIN 5 WHERE 1 > 2 WHEN h.value > a.value").condition) == "h.value > a.value AND 1 > 2"
    )


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("MATCHING machin", "Q102: 'h' has no column 'machin'"),
        ("MATCHING sensor", "Q102: 'h' has no column 'sensor'"),
        ("MATCHING value", "Q214: 'value' is DOUBLE in 'h' and REAL in 's'"),
        ("MATCHING at, AT", "Q105: 'AT' is in MATCHING twice"),
        ("WHERE x.value > 1", "Q101: FROM has no 'x'"),
        ("WHERE h.value", "Q113: a condition must be BOOLEAN, but this is DOUBLE"),
        ("WHERE MAX(h.value) > 1", "Q107: an aggregate is not allowed in the WHERE of an alert"),
        ("WHERE h.machine IN (SELECT machine FROM place)", "Q116: a query is not allowed in the WHERE of an alert"),
        ("ASSUME QUASICONVEX IN x", "Q101: FROM has no 'x'"),
    ],
)
def test_clauses_name_what_there_is(clauses, message):
    assert refused(f"{THREE} WITHIN 5 {clauses} WHEN h.value + a.value > 3") == message


# ---- WHEN


@pytest.mark.parametrize(
    ("when", "value"),
    [
        ("h.value + a.value > 3", "h.value + a.value"),
        ("h.value + a.value >= 2 * 3 + 1", "h.value + a.value"),
        ("h.value + a.value < 3", "h.value + a.value"),
        ("3 <= h.value + a.value", "h.value + a.value"),
        ("h.value > a.value", "h.value - a.value"),
        ("h.value + 1 < a.value", "h.value + 1.0 - a.value"),
        ("h.machine + a.machine > 3", "CAST(h.machine + a.machine AS DOUBLE)"),
        ("h.machine > a.machine", "CAST(h.machine AS DOUBLE) - a.machine"),
    ],
)
def test_the_value_is_the_side_that_varies_or_the_difference_of_both(when, value):
    found = alert(f"{TWO} WITHIN 5 WHEN {when}")
    assert to_sql(found.value) == value
    assert found.value.type is Type.DOUBLE


def test_the_condition_is_the_comparison_as_it_is_written():
    assert to_sql(alert(f"{TWO} WITHIN 5 WHEN h.machine + 1 <= a.machine").condition) == "h.machine + 1 <= a.machine"
    assert to_sql(alert(f"{TWO} WITHIN 5 WHEN 3 < h.value - a.value").condition) == "3.0 < h.value - a.value"


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("h.value + a.value", "Q213: WHEN compares a value with a threshold"),
        ("h.value = a.value", "Q213: WHEN compares a value with a threshold"),
        ("NOT h.value > a.value", "Q213: WHEN compares a value with a threshold"),
        ("h.value > a.value OR h.value > 3", "Q213: WHEN compares a value with a threshold"),
        ("h.value > a.value AND h.value > 3", "Q213: WHEN takes one comparison"),
        ("h.value > 3", "Q213: this WHEN reads 'h' only"),
        ("1 > 3", "Q213: this WHEN reads no stream"),
        ("h.at > a.at", "Q213: a threshold is a number, but this is TIMESTAMP"),
        ("h.value + a.value > NULL", "Q213: a threshold is a number, but this is NULL"),
        ("MAX(h.value) > a.value", "Q107: an aggregate is not allowed in the WHEN of an alert"),
        ("COUNT(*) > 3", "Q212: an alert on a total reads one stream"),
        ("h.value > (SELECT MAX(value) FROM air)", "Q116: a query is not allowed in the WHEN of an alert"),
        ("h.values > a.value", "Q102: humidity has no column 'values'"),
        ("value > 3", "Q103: column 'value' is ambiguous"),
    ],
)
def test_when_compares_a_number_of_several_streams_with_a_threshold(when, message):
    assert refused(f"{TWO} WITHIN 5 WHEN {when}") == message


# ---- names and commands

DAMP = f"{TWO} WITHIN 5 MATCHING machine WHEN h.value > a.value"


def test_names_of_alerts_are_taken():
    assert refused(f"{DAMP}; {DAMP}") == "Q105: an alert 'damp' already exists"
    assert refused(DAMP.replace("damp", "AIR")) == "Q105: a stream 'AIR' already exists"
    assert refused(f"{DAMP}; CREATE STREAM damp AS SELECT value FROM air") == "Q105: an alert 'damp' already exists"
    [running] = bind("SELECT value FROM air", CATALOG).queries
    taken = DAMP.replace("damp", "query_1")
    assert refused(taken, CATALOG, (running,)) == "Q105: a query 'query_1' already exists"
    assert [q.name for q in bind(f"SELECT value FROM air; {taken}", CATALOG).queries] == ["query_1_2", "query_1"]


def test_alarms_are_a_stream_that_others_can_read():
    program = bind(f"{DAMP}; SELECT machine, COUNT(*) AS n FROM damp WINDOW(RANGE 1 HOUR) GROUP BY machine", CATALOG)
    assert [(q.name, q.is_alert, set(q.reads)) for q in program.queries] == [
        ("damp", True, {"humidity", "air"}),
        ("query_1", False, {"damp"}),
    ]
    assert refused("SELECT machine FROM damp; " + DAMP) == "Q101: unknown stream 'damp'"


def test_an_alert_cannot_read_alarms_as_if_they_were_instants():
    text = f"{DAMP}; CREATE ALERT more FROM damp d, air a WITHIN 5 WHEN d.value > a.value"
    assert refused(text) == "Q212: WITHIN compares the times of elements, but 'd' has elements that last"


def test_alerts_are_shown_apart_from_streams_and_queries():
    text = f"{DAMP} NOTIFY 'me'; SELECT value FROM air; SHOW ALERTS; SHOW QUERIES; SHOW STREAMS; DESCRIBE Damp"
    alerts, queries, streams, described = bind(text, CATALOG).commands
    assert isinstance(alerts, ShowAlerts)
    assert [a.name for a in alerts.alerts] == ["damp"]
    assert isinstance(queries, ShowQueries)
    assert [q.name for q in queries.queries] == ["query_1"]
    assert "damp" not in answer(streams)  # type: ignore[arg-type]
    assert answer(described) == snapshot(  # type: ignore[arg-type]
        """\
alert damp over air, humidity, notify 'me'
  machine   INT
  h_value   DOUBLE
  h_at      TIMESTAMP
  a_value   DOUBLE
  a_at      TIMESTAMP
  value     DOUBLE
  incident  TIMESTAMP
  alarm     BIGINT\
"""
    )
    assert [answer(c) for c in bind("SHOW ALERTS", CATALOG).commands] == ["there are no alerts"]  # type: ignore[arg-type]


def test_an_alert_is_dropped_with_its_stream():
    dropped = bind(f"{DAMP}; DROP ALERT DAMP", CATALOG)
    assert (dropped.queries, dropped.catalog.find("damp"), dropped.commands) == ((), None, ())
    known = bind(DAMP, CATALOG)
    later = bind("DROP ALERT damp", known.catalog, known.queries)
    assert (later.catalog.find("damp"), later.commands) == (None, (DropQuery("damp"),))
    # One that has ended is only forgotten.
    assert bind("DROP ALERT damp", known.catalog).commands == ()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP ALERT dampp", "Q101: there is no alert 'dampp'"),
        ("DROP ALERT air", "Q101: 'air' is a stream, not an alert"),
        ("DROP STREAM damp", "Q101: 'damp' is an alert, not a stream"),
        ("DROP QUERY damp", "Q101: 'damp' is an alert"),
        ("DROP STREAM air", "Q118: stream 'air' is in use: 'damp' reads it"),
        ("SELECT machine FROM damp; DROP ALERT damp", "Q118: alert 'damp' is in use: 'query_1' reads it"),
    ],
)
def test_only_what_nothing_reads_is_dropped(statement, message):
    assert refused(f"{DAMP}; {statement}") == message


def test_an_alert_can_be_explained_without_being_made():
    program = bind(f"EXPLAIN {DAMP}", CATALOG)
    assert (program.queries, program.catalog.find("damp")) == ((), None)
    [command] = program.commands
    assert isinstance(command, Explain)
    assert command.query.is_alert


def test_a_session_runs_an_alert_at_once_and_ends_it_when_it_is_dropped(tmp_path):
    for name in ("left", "right"):
        (tmp_path / f"{name}.csv").write_text("k,v,t\n1,1,0\n1,3,10\n2,5,20\n")
    streams = "".join(
        f"CREATE STREAM {name} (k INT, v DOUBLE, t BIGINT) FROM '{tmp_path / name}.csv' TIMESTAMP BY t;"
        for name in ("left", "right")
    )
    text = "CREATE ALERT high FROM left l, right r WITHIN 5 MATCHING k WHEN l.v + r.v > 5 EMIT ALL"
    with Session(runtime="embedded") as session:
        running = session.sql(streams + text, once=True)
        assert running is not None
        found = running.finish().to_pylist()
        assert [(row["k"], row["l_v"], row["r_v"], row["value"]) for row in found] == [(1, 3, 3, 6), (2, 5, 5, 10)]
        assert session.ask("SHOW ALERTS").startswith("high  k INT, l_v DOUBLE")
        session.sql("DROP ALERT high")
        assert session.ask("SHOW ALERTS") == "there are no alerts"


def test_an_alert_reads_the_changes_of_an_aggregate() -> None:
    """ISTREAM and DSTREAM give rows of single instants, whatever they are changes of."""
    text = """CREATE ALERT busy
              FROM ISTREAM(SELECT machine, COUNT(*) AS n FROM air [RANGE 10] GROUP BY machine) c, surface s
              WITHIN 5 MICROSECONDS MATCHING machine WHEN c.n + s.value > 102"""
    with Session(runtime="embedded") as session:
        for name, times in (("air", [1, 2, 3, 40]), ("surface", [4, 41])):
            ones = [1] * len(times)
            table = pa.table({"at": times, "machine": ones, "value": pa.array([100.0] * len(times))})
            session.stream(name, table, time="at")
        found = session.sql(text, once=True)
        assert found is not None
        rows = [(row["c_n"], row["valid_from"], row["valid_to"]) for row in in_micros(found.finish()).to_pylist()]
    assert rows == [(3, 3, 5)]


def test_the_changes_of_an_aggregate_are_not_split_again() -> None:
    plan = query("SELECT n FROM ISTREAM(SELECT COUNT(*) AS n FROM air [RANGE 1 HOUR]) [RANGE 1 DAY] c").plan
    assert "split" not in "\n".join(words(lower(plan)))


def words(plan: PhysicalPlan) -> list[str]:
    own = [plan.operator.describe()] if isinstance(plan, Apply) else []
    return own + [line for each in getattr(plan, "inputs", ()) for line in words(each)]
