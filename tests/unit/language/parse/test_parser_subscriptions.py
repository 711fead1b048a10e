"""The parser: alerts on totals, one or one for each subscription, every clause, and names that look like keywords."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from support.written import SECOND, select, shape

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.parser import parse
from tidegate.language.syntax import CreateAlert, CreateTotalAlert

ONE = "CREATE ALERT busy FROM trade t"
MANY = "CREATE ALERTS busy FROM trade t, watch r"
TOTAL = "WHEN TOTAL(t.shares) >= 100"


def alert(text: str) -> CreateTotalAlert:
    [statement] = parse(text)
    assert isinstance(statement, CreateTotalAlert)
    return statement


def subscribing(text: str) -> syntax.SubscriptionClauses:
    found = alert(text).subscribing
    assert found is not None
    return found


def error(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return f"{caught.value.code}: {caught.value.message}"


# ---- the whole


def test_an_alert_on_a_total_has_a_stream_and_a_threshold():
    assert shape(alert(f"{ONE} {TOTAL}")) == snapshot(
        (
            "CreateTotalAlert",
            "busy",
            (("StreamReference", "trade", None, "t"),),
            None,
            (),
            (">=", ("FunctionCall", "TOTAL", ("t.shares",)), 100),
            None,
            False,
            None,
            None,
        )
    )


def test_alerts_for_subscriptions_may_say_more():
    text = f"""{MANY} WITHIN 5 SECONDS WHERE t.price BETWEEN r.low AND r.high MATCHING symbol, "Place"
               REPEAT ID r.name TERMINATE WHEN r.gone = 1 {TOTAL} NOTIFY 'it''s high'"""
    assert shape(alert(text)) == snapshot(
        (
            "CreateTotalAlert",
            "busy",
            (("StreamReference", "trade", None, "t"), ("StreamReference", "watch", None, "r")),
            ("EveryPair", ("Distance", 5000000), None),
            ("symbol", "Place"),
            (">=", ("FunctionCall", "TOTAL", ("t.shares",)), 100),
            ("Between", "t.price", "r.low", "r.high"),
            True,
            "it's high",
            ("SubscriptionClauses", "r.name", ("=", "r.gone", 1)),
        )
    )


def test_create_alerts_is_always_about_subscriptions():
    assert subscribing(f"{MANY} {TOTAL}") == syntax.SubscriptionClauses(None, None)
    assert subscribing(f"CREATE ALERTS busy FROM trade {TOTAL}") == syntax.SubscriptionClauses(None, None)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE ALERT g FROM a WHEN TOTAL(a.x) > 3",
        "CREATE ALERT g FROM a WHEN a.x > 3 REPEAT",
        "CREATE ALERT g FROM a, b WHEN TOTAL(a.x) > 3",
        "CREATE ALERT g FROM a, b WITHIN 5 WHEN 3 < COUNT(*)",
        "CREATE ALERT g FROM a, b WHEN total(a.x) + 1 > 3",
        "CREATE ALERT g FROM (SELECT * FROM a, b) c WHEN count(*) > 3",
    ],
)
def test_an_alert_on_a_total_counts(text):
    assert alert(text).subscribing is None


@pytest.mark.parametrize(
    "text",
    [
        "CREATE ALERT g FROM a, b WITHIN 5 WHEN a.x + b.x > MAX(3)",
        "CREATE ALERT g FROM a WITHIN 5 WHEN a.x > 3",
        "CREATE ALERT g FROM a WHEN a.x > 3 EMIT ALL",
    ],
)
def test_an_alert_without_a_total_compares_a_function(text):
    [found] = parse(text)
    assert isinstance(found, CreateAlert)


# ---- clauses


def test_clauses_stand_in_any_order():
    first = f"{MANY} WITHIN 5 MATCHING k WHERE t.x > r.y REPEAT ID r.z TERMINATE WHEN r.e {TOTAL} NOTIFY 'me'"
    others = [
        f"{MANY} WITHIN 5 REPEAT WHERE t.x > r.y MATCHING k {TOTAL} TERMINATE WHEN r.e NOTIFY 'me' ID r.z",
        f"{MANY} WITHIN 5 ID r.z {TOTAL} REPEAT TERMINATE WHEN r.e MATCHING k WHERE t.x > r.y NOTIFY 'me'",
        f"{MANY} WITHIN 5 NOTIFY 'me' TERMINATE WHEN r.e ID r.z REPEAT {TOTAL} WHERE t.x > r.y MATCHING k",
        f"{MANY} WITHIN 5 {TOTAL} NOTIFY 'me' MATCHING k ID r.z TERMINATE WHEN r.e WHERE t.x > r.y REPEAT",
    ]
    assert [shape(alert(each)) for each in others] == [shape(alert(first))] * len(others)
    assert shape(alert(first.lower())) == shape(alert(first.lower().replace("matching", "Matching")))


def test_matching_may_stand_behind_where_in_every_alert():
    written = [
        "CREATE ALERT g FROM a, b WITHIN 5 MATCHING k, j WHERE a.y > 3 WHEN a.x > b.x",
        "CREATE ALERT g FROM a, b WITHIN 5 WHERE a.y > 3 MATCHING k, j WHEN a.x > b.x",
        "CREATE ALERT g FROM a, b WITHIN 5 WHERE a.y > 3 WHEN a.x > b.x MATCHING k, j",
    ]
    assert len({str(shape(parse(each))) for each in written}) == 1
    assert [n.text for n in alert("CREATE ALERT g FROM a MATCHING k WHEN COUNT(*) > 3").matching] == ["k"]
    assert [n.text for n in alert('CREATE ALERT g FROM a MATCHING "k ""x""", `j` WHEN COUNT(*) > 3').matching] == [
        'k "x"',
        "j",
    ]


def test_comments_may_stand_between_the_words():
    text = """CREATE ALERTS g FROM a t, b r -- what
              MATCHING /* the ** key */ k -- of both
              ID -- name
              r.n /* x */ REPEAT -- for ever
              /* and */ TERMINATE WHEN r.e -- else
              WHEN COUNT(*) > 3 REPEAT_"""
    found = alert(text.removesuffix(" REPEAT_"))
    assert ([n.text for n in found.matching], found.repeats) == (["k"], True)
    assert shape(found.subscribing) == ("SubscriptionClauses", "r.n", "r.e")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE ALERT g FROM a REPEAT WHEN COUNT(*) > 3",
        "CREATE ALERT g FROM a REPEAT WHERE x > 3 WHEN COUNT(*) > 3",
        "CREATE ALERT g FROM a REPEAT MATCHING k WHEN COUNT(*) > 3",
        "CREATE ALERT g FROM a WITHIN 5 REPEAT WHEN COUNT(*) > 3",
        "CREATE ALERT g FROM a MATCHING k REPEAT WHEN COUNT(*) > 3",
        "CREATE ALERT g FROM a WHEN COUNT(*) > 3 REPEAT",
        "CREATE ALERT g FROM a WHEN COUNT(*) > n REPEAT;",
        "CREATE ALERT g FROM a WHEN COUNT(*) > n REPEAT -- for ever",
        "CREATE ALERT g FROM a WHEN n < COUNT(*) REPEAT WHERE x > y",
        "CREATE ALERT g FROM (SELECT * FROM a) REPEAT WHERE x > y WHEN n < COUNT(*)",
    ],
)
def test_repeat_may_stand_anywhere_behind_from(text):
    found = alert(text)
    assert found.repeats
    assert all(source.alias is None for source in found.sources if isinstance(source, syntax.StreamReference))


def test_nodes_know_where_they_stand():
    text = f"{MANY} WITHIN 5 SECONDS ID r.name TERMINATE WHEN r.gone {TOTAL} REPEAT"
    found = alert(text)
    assert found.within is not None
    assert found.subscribing is not None
    assert found.subscribing.id is not None
    assert found.subscribing.ends_when is not None

    def written(span: Span) -> str:
        return text[span.start : span.end]

    assert written(found.span) == text
    assert written(found.within.span) == "WITHIN 5 SECONDS"
    assert written(found.subscribing.id.span) == "r.name"
    assert written(found.subscribing.ends_when.span) == "r.gone"
    assert written(found.when.span) == "TOTAL(t.shares) >= 100"


def test_within_is_written_as_in_other_alerts():
    assert shape(alert(f"{ONE} WITHIN 2 MINUTES {TOTAL}").within) == ("EveryPair", ("Distance", 120 * SECOND), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE, "Q210: this alert has no WHEN: it must say when to raise an alarm"),
        (MANY, "Q210: this alert has no WHEN: it must say when to raise an alarm"),
        (f"{ONE} {TOTAL} REPEAT REPEAT", "Q105: REPEAT is given twice"),
        (f"{ONE} MATCHING a {TOTAL} MATCHING b", "Q105: MATCHING is given twice"),
        (f"{MANY} ID r.a {TOTAL} ID r.b", "Q105: ID is given twice"),
        (f"{MANY} TERMINATE WHEN a {TOTAL} TERMINATE WHEN b", "Q105: TERMINATE WHEN is given twice"),
        (f"{ONE} {TOTAL} EMIT ALL", "Q215: an alert on a total has no EMIT ALL"),
        (f"{MANY} {TOTAL} ASSUME QUASICONVEX IN t", "Q215: an alert on a total has no ASSUME QUASICONVEX"),
        (f"{ONE} {TOTAL} ID t.x", "Q215: CREATE ALERT has no ID"),
        (f"{ONE} {TOTAL} TERMINATE WHEN t.x", "Q215: CREATE ALERT has no TERMINATE WHEN"),
        ("CREATE ALERT g FROM a, b WITHIN 5 WHEN a.x > b.x REPEAT", "Q215: an alert that joins streams has no REPEAT"),
        ("CREATE ALERT g FROM a, b WITHIN 5 WHEN a.x > b.x ID a.k", "Q215: an alert that joins streams has no ID"),
        (f"{ONE} REPEAT WITHIN 5 {TOTAL}", "Q001: 'WITHIN' is incomplete, or in the wrong place"),
        (f"{ONE} {TOTAL} WITHIN 5", "Q001: 'WITHIN' is incomplete, or in the wrong place"),
        (f"{MANY} ID {TOTAL}", "Q001: 'ID' is incomplete, or in the wrong place"),
        (f"{MANY} MATCHING {TOTAL}", "Q001: 'MATCHING' is incomplete, or in the wrong place"),
        (
            "CREATE ALERT g FROM a, b WHEN a.x > b.x MATCHING k",
            "Q210: this alert has no WITHIN: it must say how near in time elements are",
        ),
    ],
)
def test_what_no_alert_can_mean_is_refused(text, message):
    assert error(text) == message


# ---- other statements


def test_alerts_for_subscriptions_are_explained():
    [explain] = parse(f"EXPLAIN {MANY} {TOTAL}")
    assert isinstance(explain, syntax.ExplainStatement)
    assert isinstance(explain.query, CreateTotalAlert)


WORDS = ("id", "repeat", "active", "action", "total", "terminate", "matching", "within", "subscription", "alerts")


@pytest.mark.parametrize("word", WORDS)
def test_words_of_alerts_are_good_names_elsewhere(word):
    found = select(f"SELECT {word}, t.{word} AS {word}, a {word} FROM {word} t, u {word} WHERE {word} > 1")
    assert [shape(item)[1] for item in found.items] == [word, f"t.{word}", "a"]
    assert [source.alias.text for source in found.sources if source.alias] == ["t", word]
    assert parse(f"CREATE STREAM {word} ({word} INT) FROM 'x'; DROP STREAM {word}; DESCRIBE {word}")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "behind",
    [
        "",
        ";",
        ", v",
        " WINDOW(RANGE 5)",
        " JOIN v ON TRUE",
        " LEFT JOIN v ON TRUE",
        " GROUP BY a",
        " ORDER BY a LIMIT 1",
        " LIMIT 3",
        " UNION ALL SELECT a FROM v",
        " EXCEPT SELECT a FROM v",
        " WHERE CASE WHEN a THEN b WHEN c THEN d END",
        " WHERE id AND repeat OR matching",
        " -- a comment",
    ],
)
def test_aliases_may_be_called_as_keywords_are(word, behind):
    [statement] = parse(f"SELECT a FROM u {word}{behind}")
    aliases = [node.alias for node in syntax.walk(statement) if isinstance(node, syntax.StreamReference)]
    assert aliases[0] is not None
    assert aliases[0].text == word


@pytest.mark.parametrize("word", WORDS)
def test_columns_of_alerts_may_be_called_as_keywords_are(word):
    text = f"""CREATE ALERTS g FROM a AS {word}, b WHERE {word}.{word} BETWEEN b.{word} AND {word} + 1 MATCHING {word}
               ID b.{word} TERMINATE WHEN b.{word} WHEN TOTAL({word}.{word}) >= b.{word} REPEAT"""
    found = alert(text)
    assert shape(found.where) == ("Between", f"{word}.{word}", f"b.{word}", ("+", word, 1))
    assert shape(found.subscribing) == ("SubscriptionClauses", f"b.{word}", f"b.{word}")
    assert ([n.text for n in found.matching], found.repeats) == ([word], True)
