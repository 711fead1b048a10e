"""The parser: alerts and CHECK, every clause, and names that look like their keywords."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from support.written import SECOND, select, shape

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.parser import parse
from tidegate.language.syntax import CreateAlert

BEGIN = "CREATE ALERT gap FROM bid b, auction a WITHIN 5 SECONDS"
WHEN = "WHEN b.price - a.price > 10"


def alert(text: str) -> CreateAlert:
    [statement] = parse(text)
    assert isinstance(statement, CreateAlert)
    return statement


def within(text: str) -> object:
    return shape(alert(f"CREATE ALERT gap FROM a x, b y, c z WITHIN {text} {WHEN}").within)


def error(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return f"{caught.value.code}: {caught.value.message}"


# ---- the whole


def test_an_alert_has_a_name_streams_a_distance_and_a_threshold():
    assert shape(alert(f"{BEGIN} {WHEN}")) == snapshot(
        (
            "CreateAlert",
            "gap",
            (("StreamReference", "bid", None, "b"), ("StreamReference", "auction", None, "a")),
            ("EveryPair", ("Distance", 5000000), None),
            (),
            (">", ("-", "b.price", "a.price"), 10),
            None,
            None,
            False,
            None,
        )
    )


def test_an_alert_may_say_more():
    text = f"""{BEGIN} MATCHING itemID, "Shop" WHERE b.price > 3 {WHEN}
               ASSUME QUASICONVEX IN a, b EMIT ALL NOTIFY 'it''s high'"""
    found = alert(text)
    assert [name.text for name in found.matching] == ["itemID", "Shop"]
    assert shape(found.where) == (">", "b.price", 3)
    assert found.assumption is not None
    assert [name.text for name in found.assumption.names] == ["a", "b"]
    assert (found.everything, found.notify) == (True, "it's high")


def test_the_clauses_behind_within_stand_in_any_order():
    first = alert(f"{BEGIN} MATCHING k {WHEN} WHERE b.price > 3 EMIT ALL NOTIFY 'me' ASSUME QUASICONVEX")
    second = alert(f"{BEGIN} MATCHING k NOTIFY 'me' ASSUME QUASICONVEX WHERE b.price > 3 EMIT ALL {WHEN}")
    assert shape(first) == shape(second)
    assert first.assumption is not None
    assert first.assumption.names == ()


def test_keywords_are_written_in_any_case():
    upper = f"{BEGIN} OPEN OF b MATCHING k {WHEN} ASSUME QUASICONVEX IN b EMIT ALL NOTIFY 'ME'"
    assert shape(alert(upper.lower())) == shape(alert(upper.lower().replace("open of", "OPEN OF")))
    assert alert(upper.lower()).everything


def test_streams_of_an_alert_are_written_as_in_select():
    [first, second] = alert(f"CREATE ALERT g FROM bid, (SELECT * FROM auction) AS a WITHIN 5 s {WHEN}").sources
    assert shape(first) == ("StreamReference", "bid", None, None)
    assert isinstance(second, syntax.Subquery)
    assert second.alias is not None


def test_a_case_inside_of_when_is_not_the_next_when():
    found = alert(f"{BEGIN} WHEN CASE WHEN a.x THEN 1 ELSE 2 END > 0 WHERE CASE b.y WHEN 1 THEN TRUE END")
    assert isinstance(found.when, syntax.Operation)
    assert isinstance(found.when.arguments[0], syntax.CaseWhen)
    assert isinstance(found.where, syntax.CaseWhen)


def test_nodes_know_where_they_stand():
    text = f"{BEGIN} RIGHT OPEN OF b {WHEN} ASSUME QUASICONVEX IN a"
    found = alert(text)
    assert isinstance(found.within, syntax.EveryPair)
    assert found.assumption is not None

    def written(span: Span) -> str:
        return text[span.start : span.end]

    assert written(found.span) == text
    assert written(found.within.span) == "WITHIN 5 SECONDS RIGHT OPEN OF b"
    assert written(found.within.distance.span) == "5 SECONDS"
    assert written(found.when.span) == "b.price - a.price > 10"
    assert written(found.assumption.span) == "ASSUME QUASICONVEX IN a"


# ---- WITHIN


@pytest.mark.parametrize(
    ("text", "distance"),
    [
        ("7", ("Distance", 7)),
        ("0", ("Distance", 0)),
        ("2 MINUTES", ("Distance", 120 * SECOND)),
        ("500 ms", ("Distance", SECOND // 2)),
        ("5 SECONDS OPEN", ("Distance", 5 * SECOND, True, True)),
        ("5 SECONDS LEFT OPEN", ("Distance", 5 * SECOND, True)),
        ("5 SECONDS RIGHT  OPEN", ("Distance", 5 * SECOND, True)),
        ("5 OPEN", ("Distance", 5, True, True)),
    ],
)
def test_a_distance_is_closed_unless_it_says_otherwise(text, distance):
    assert within(text) == ("EveryPair", distance, None)


def test_left_open_and_right_open_are_different_ends():
    left, right = (alert(f"{BEGIN} {side} OPEN {WHEN}").within for side in ("LEFT", "RIGHT"))
    assert isinstance(left, syntax.EveryPair)
    assert isinstance(right, syntax.EveryPair)
    assert (left.distance.left_open, left.distance.right_open) == (True, False)
    assert (right.distance.left_open, right.distance.right_open) == (False, True)


def test_a_star_has_a_centre():
    assert within("5 OF y") == ("EveryPair", ("Distance", 5), "y")
    assert within('5 s OPEN OF "Y"') == ("EveryPair", ("Distance", 5 * SECOND, True, True), "Y")


def test_pairs_have_distances_of_their_own():
    chain = within("5 BETWEEN x AND y, 7 BETWEEN y AND z")
    assert chain == (
        "NamedPairs",
        (("NamedPair", ("Distance", 5), "x", "y"), ("NamedPair", ("Distance", 7), "y", "z")),
    )
    assert within("5 BETWEEN x AND y, WITHIN 7 BETWEEN y AND z") == chain
    open_ends = ("NamedPairs", (("NamedPair", ("Distance", 5, True, True), "x", "y"),))
    assert within("5 BETWEEN x AND y OPEN") == within("5 OPEN BETWEEN x AND y") == open_ends


def test_hopping_windows_have_a_length_and_a_slide():
    assert within("WINDOWS OF 10 SECONDS SLIDE 2 SECONDS") == ("Hops", 10 * SECOND, 2 * SECOND)
    assert within("WINDOWS OF 10 SECONDS") == ("Hops", 10 * SECOND, 10 * SECOND)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"CREATE ALERT g FROM a, b {WHEN}",
            "Q210: this alert has no WITHIN: it must say how near in time elements are",
        ),
        (BEGIN, "Q210: this alert has no WHEN: it must say when to raise an alarm"),
        (f"{BEGIN} {WHEN} EMIT ALL EMIT ALL", "Q105: EMIT ALL is given twice"),
        (f"{BEGIN} {WHEN} NOTIFY 'a' NOTIFY 'b'", "Q105: NOTIFY is given twice"),
        (f"CREATE ALERT g FROM a, b WITHIN - 5 {WHEN}", "Q211: a distance cannot be negative"),
        (f"CREATE ALERT g FROM a, b WITHIN 0 LEFT OPEN {WHEN}", "Q211: no two elements are less than 0 apart"),
        (f"CREATE ALERT g FROM a, b WITHIN 1.5 SECONDS {WHEN}", "Q111: '1.5' is not a whole number"),
        (f"CREATE ALERT g FROM a, b WITHIN 99999999 WEEKS {WHEN}", "Q111: this length of time is too long"),
        (
            f"CREATE ALERT g FROM a, b WITHIN WINDOWS OF 5 SLIDE 6 {WHEN}",
            "Q211: elements between two windows would meet no others",
        ),
        (f"CREATE ALERT g FROM a, b WITHIN WINDOWS OF 5 SLIDE 0 {WHEN}", "Q211: SLIDE must be longer than zero"),
    ],
)
def test_what_no_alert_can_mean_is_refused(text, message):
    assert error(text) == message


# ---- other statements


def test_alerts_are_dropped_shown_described_and_explained():
    drop, show, explain = parse(f"DROP ALERT gap; SHOW ALERTS; EXPLAIN {BEGIN} {WHEN}")
    assert shape(drop) == ("DropStatement", syntax.ObjectKind.ALERT, "gap")
    assert shape(show) == ("ShowStatement", syntax.ObjectKind.ALERT)
    assert isinstance(explain, syntax.ExplainStatement)
    assert isinstance(explain.query, CreateAlert)


def test_words_of_alerts_are_good_names_elsewhere():
    words = ("alert", "alerts", "within", "matching", "open", "assume", "emit", "notify", "windows", "of", "check")
    for word in words:
        found = select(f"SELECT {word}, t.{word} AS {word}, a {word} FROM {word} t, u {word} WHERE {word} > 1")
        assert [shape(item)[1] for item in found.items] == [word, f"t.{word}", "a"]
        assert [shape(source)[1] for source in found.sources] == [word, "u"]
        assert parse(f"CREATE STREAM {word} ({word} INT) FROM 'x'; DROP STREAM {word}; DESCRIBE {word}")


# ---- CHECK


def test_a_column_may_have_a_check():
    [stream] = parse(
        "CREATE STREAM s (a DOUBLE CHECK (a > 0 AND a <= 100), b INT, check BIGINT CHECK(check>1)) FROM 's'"
    )
    assert isinstance(stream, syntax.CreateSource)
    assert [shape(column.check) for column in stream.columns] == [
        ("and", (">", "a", 0), ("<=", "a", 100)),
        None,
        (">", "check", 1),
    ]
