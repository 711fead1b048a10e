"""Functions and aggregates that users write in Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from support.micros import in_micros

from tidegate.errors import NOWHERE, DataError, QueryError
from tidegate.expressions.evaluate import ERRORS, evaluate
from tidegate.expressions.functions.resolve import can_fail, user_call
from tidegate.expressions.functions.user_registry import user_function
from tidegate.expressions.nodes import Call, Column, Literal
from tidegate.expressions.spark import spark_sql
from tidegate.expressions.sql_text import to_sql
from tidegate.expressions.user_calls import UserFunction
from tidegate.language.bind.program import bind
from tidegate.schema import Type
from tidegate.session import Session

RATE = 0.9
PRICES = pa.table({"at": [0, 1, 2, 3], "k": ["a", "a", "b", "b"], "price": [1.0, 2.0, 4.0, None]})


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(runtime="embedded") as made:
        made.stream("bid", PRICES, time="at")
        yield made


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    query = session.sql(text, once=True)
    assert query is not None
    return sorted(in_micros(query.finish()).to_pylist(), key=str)


def letters(session: Session, text: str) -> list[dict[str, Any]]:
    query = session.sql(text, once=True)
    assert query is not None
    query.finish()
    return sorted(in_micros(query.dead_letters()).to_pylist(), key=lambda letter: letter["time"])


def reciprocal(value: float) -> float:
    return 1 / (value - 2)


# ---- functions


def test_a_function_of_arrow_arrays_is_called_by_name(session: Session) -> None:
    session.function("dol_to_euro", lambda p: pc.multiply(p, RATE), arguments=["DOUBLE"], result="DOUBLE")
    found = rows(session, "SELECT Dol_To_Euro(price) AS euro FROM bid")
    assert [row["euro"] for row in found] == [1.0 * RATE, 2.0 * RATE, 4.0 * RATE, None]


def test_a_function_of_single_values_is_not_asked_about_null(session: Session) -> None:
    asked = []

    @session.function("shout", arguments=["STRING", "DOUBLE"], result="STRING", vectorized=False)
    def shout(word: str, price: float) -> str:
        asked.append(price)
        return f"{word.upper()}{price:g}!"

    found = rows(session, "SELECT shout(k, price) AS said FROM bid")
    assert [row["said"] for row in found] == ["A1!", "A2!", "B4!", None]
    assert sorted(asked) == [1.0, 2.0, 4.0]
    assert shout("x", 1.0) == "X1!"


def test_arguments_are_converted_as_those_of_other_functions(session: Session) -> None:
    session.function("half", lambda v: pc.divide(v, 2), arguments=["DOUBLE"], result="DOUBLE")
    assert rows(session, "SELECT half(3) AS h FROM bid WHERE k = 'b'")[0]["h"] == 1.5
    with pytest.raises(QueryError, match=r"half does not take \(STRING\)"):
        session.sql("SELECT half(k) FROM bid")


def test_a_function_may_stand_wherever_an_expression_may(session: Session) -> None:
    session.function("half", lambda v: pc.divide(v, 2), arguments=["DOUBLE"], result="DOUBLE")
    found = rows(session, "SELECT k, MAX(half(price)) AS top FROM bid [RANGE 9] WHERE half(price) < 2 GROUP BY k")
    assert {(row["k"], row["top"]) for row in found} == {("a", 0.5), ("a", 1.0)}


@pytest.mark.parametrize("vectorized", [False, True])
def test_the_row_that_a_function_refuses_becomes_a_dead_letter_with_what_it_said(
    session: Session, vectorized: bool
) -> None:
    def broken(values: pa.Array | float) -> pa.Array | float:
        if vectorized:
            return pa.array([None if v is None else reciprocal(v) for v in values.to_pylist()], pa.float64())
        return reciprocal(values)

    session.function("broken", broken, arguments=["DOUBLE"], result="DOUBLE", vectorized=vectorized)
    text = "SELECT broken(price) AS x FROM bid"
    assert [row["x"] for row in rows(session, text)] == [-1.0, 0.5, None]
    (letter,) = letters(session, text)
    assert letter["reason"] == "user_function"
    assert letter["detail"] == "ZeroDivisionError: float division by zero, in broken(bid.price)"
    assert letter["time"] == 1


def test_a_row_fails_only_where_the_function_is_needed(session: Session) -> None:
    session.function("broken", reciprocal, arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
    text = "SELECT CASE WHEN price = 2 THEN 0.0 ELSE broken(price) END AS x FROM bid"
    assert [row["x"] for row in rows(session, text)] == [-1.0, 0.0, 0.5, None]
    assert letters(session, text) == []


def test_rows_whose_arguments_failed_are_not_asked_about(session: Session) -> None:
    session.function("same", lambda v: v, arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
    text = "SELECT same(1 / (price - 2)) AS x FROM bid"
    assert [row["x"] for row in rows(session, text)] == [-1.0, 0.5, None]
    assert [letter["reason"] for letter in letters(session, text)] == ["division_by_zero"]


def test_a_pair_for_which_a_function_fails_becomes_a_dead_letter(session: Session) -> None:
    session.function("broken", lambda a, b: 1 / (a - b), arguments=["DOUBLE", "DOUBLE"], result="DOUBLE",
                     vectorized=False)  # fmt: skip
    text = "SELECT a.price AS x FROM bid [RANGE 9] a, bid [RANGE 9] b WHERE a.k = b.k AND broken(a.price, b.price) > 0"
    assert {letter["detail"].split(",")[0] for letter in letters(session, text)} == {
        "ZeroDivisionError: float division by zero"
    }


def test_of_many_rows_the_few_bad_ones_are_found() -> None:
    function = UserFunction("f", (Type.BIGINT,), Type.BIGINT, _refuses_some)
    values = pa.array(range(1000), pa.int64())
    made, texts = function.apply([values], 1000)
    assert texts == {7: "ValueError: 7 is bad", 600: "ValueError: 600 is bad"}
    assert made.to_pylist() == [None if v in texts else v for v in range(1000)]


def _refuses_some(values: pa.Array) -> pa.Array:
    for bad in (7, 600):
        if bad in values.to_pylist():
            raise ValueError(f"{bad} is bad")
    return values


def test_a_function_that_does_not_work_row_by_row_fails_for_all_rows() -> None:
    function = UserFunction("f", (Type.BIGINT,), Type.BIGINT, lambda values: values[:1])
    made, texts = function.apply([pa.array([1, 2, 3])], 3)
    assert made.to_pylist() == [None] * 3
    assert set(texts.values()) == {"f gave 1 values for 3 rows"}


def test_what_is_the_same_in_all_rows_is_asked_once() -> None:
    asked = []

    def ask(v: pa.Array) -> pa.Array:
        asked.append(len(v))
        return v

    function = UserFunction("f", (Type.INT,), Type.INT, ask)
    call = user_call(function, (Literal(3, Type.INT),), NOWHERE)
    result = evaluate(call, pa.RecordBatch.from_pydict({"a": [1, 2, 3]}), 3)
    assert (result.values.to_pylist(), asked) == ([3, 3, 3], [1])


def test_results_are_brought_to_the_declared_type_or_refused() -> None:
    call = user_call(UserFunction("f", (Type.DOUBLE,), Type.INT, lambda v: v), (Column("x", Type.DOUBLE),), NOWHERE)
    result = evaluate(call, pa.RecordBatch.from_pydict({"x": [1.0, 1.5]}), 2)
    assert result.values.to_pylist() == [1, None]
    assert [ERRORS[e] for e in result.errors] == ["none", "user_function"]


def test_a_function_can_fail_is_shown_as_written_and_never_pushed_to_spark() -> None:
    function = user_function("f", lambda v: v, arguments=["double"], result="boolean")
    call = user_call(function, (Column("i", Type.INT),), NOWHERE)
    assert isinstance(call, Call)
    assert can_fail(call)
    assert to_sql(call) == "f(i)"
    assert spark_sql(call) is None
    assert function.signature == "f(DOUBLE) BOOLEAN"


@pytest.mark.parametrize(
    ("name", "arguments", "result", "message"),
    [
        ("abs", ["DOUBLE"], "DOUBLE", "a function 'abs' already exists"),
        ("Median", ["DOUBLE"], "DOUBLE", "a function 'median' already exists"),
        ("a b", ["DOUBLE"], "DOUBLE", "cannot be the name of a function"),
        ("f", ["DUOBLE"], "DOUBLE", "unknown type 'DUOBLE'"),
    ],
)
def test_declarations_that_mean_nothing_are_refused(session, name, arguments, result, message) -> None:
    with pytest.raises(QueryError, match=message):
        session.function(name, lambda v: v, arguments=arguments, result=result)


def test_a_name_that_is_nearly_right_is_hinted_at(session: Session) -> None:
    session.function("dol_to_euro", lambda p: p, arguments=["DOUBLE"], result="DOUBLE")
    with pytest.raises(QueryError, match="unknown function 'dol_to_eur'") as caught:
        session.sql("SELECT dol_to_eur(price) FROM bid")
    assert caught.value.hint == "did you mean 'dol_to_euro'?"


# ---- aggregates


def geometric_mean(session: Session) -> None:
    session.aggregate(
        "geometric_mean",
        initial=lambda v: (1, math.log(v)),
        merge=lambda partial, v: (partial[0] + 1, partial[1] + math.log(v)),
        result=lambda partial: math.exp(partial[1] / partial[0]),
        arguments=["DOUBLE"],
        type="DOUBLE",
    )


def test_an_aggregate_of_python_functions_is_called_by_name(session: Session) -> None:
    geometric_mean(session)
    found = rows(session, "SELECT k, GEOMETRIC_MEAN(price) AS g, COUNT(*) AS n FROM bid [RANGE 9] GROUP BY k")
    at = {(row["k"], t): (row["g"], row["n"]) for row in found for t in range(row["valid_from"], row["valid_to"])}
    assert at[("a", 0)] == (1.0, 1)
    assert at[("a", 5)] == (pytest.approx(math.sqrt(2)), 2)
    assert at[("b", 5)] == (4.0, 2)
    assert at[("b", 11)] == (None, 1)


def test_an_aggregate_may_be_a_class_and_take_several_values(session: Session) -> None:
    @session.aggregate("weighted", arguments=["DOUBLE", "BIGINT"], type="DOUBLE")
    class Weighted:
        initial = staticmethod(lambda value, weight: (value * weight, weight))
        merge = staticmethod(lambda p, value, weight: (p[0] + value * weight, p[1] + weight))
        result = staticmethod(lambda p: p[0] / p[1])

    found = rows(session, "SELECT weighted(price, 2) AS w FROM bid [RANGE 2] WHERE k = 'a'")
    assert [row["w"] for row in found] == [1.0, 1.5, 2.0]
    assert Weighted.result((1, 2)) == 0.5


def test_a_value_for_which_an_aggregate_fails_becomes_a_dead_letter(session: Session) -> None:
    geometric_mean(session)
    text = "SELECT k, geometric_mean(price - 2) AS g FROM bid [RANGE 9] GROUP BY k"
    found = letters(session, text)
    assert [(x["reason"], x["time"]) for x in found] == [("user_function", 0)]
    assert found[0]["detail"] == "ValueError: math domain error"
    assert {(row["k"], row["g"]) for row in rows(session, text)} == {("b", 2.0), ("b", None)}


def test_an_aggregate_that_is_not_complete_is_refused(session: Session) -> None:
    with pytest.raises(QueryError, match="is not complete"):
        session.aggregate("f", initial=lambda v: v, arguments=["DOUBLE"], type="DOUBLE")  # type: ignore[call-overload]


# ---- the rest of the machinery


def test_functions_are_shown_by_explain(session: Session) -> None:
    session.function("dol_to_euro", lambda p: p, arguments=["DOUBLE"], result="DOUBLE")
    geometric_mean(session)
    shown = session.explain("SELECT geometric_mean(dol_to_euro(price)) AS g FROM bid [RANGE 9]")
    assert "dol_to_euro(" in shown
    assert "geometric_mean(" in shown


def test_a_checkpoint_belongs_to_the_signature_of_a_function(session: Session, tmp_path: Path) -> None:
    where = str(tmp_path / "checkpoint")
    text = "SELECT f(price) IS NULL AS x FROM bid"
    session.function("f", lambda p: p, arguments=["DOUBLE"], result="DOUBLE")
    session.sql(text, once=True, checkpoint=where).finish()
    session.sql(text, once=True, checkpoint=where).finish()
    session.function("f", lambda p: p, arguments=["DOUBLE"], result="BIGINT")
    with pytest.raises(DataError, match="D303"):
        session.sql(text, once=True, checkpoint=where).finish()


@pytest.mark.spark
def test_functions_run_on_the_workers_of_spark(spark) -> None:
    rate = 3.0
    with Session(spark=spark, buckets=2) as session:
        session.stream("bid", PRICES, time="at")
        session.function("scaled", lambda p: pc.multiply(p, rate), arguments=["DOUBLE"], result="DOUBLE")
        session.function("broken", lambda p: rate / (p - 2), arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
        geometric_mean(session)
        text = "SELECT k, geometric_mean(scaled(price)) AS g, MEDIAN(broken(price)) AS m FROM bid [RANGE 9] GROUP BY k"
        found = {(row["k"], row["g"] and round(row["g"], 9), row["m"]) for row in rows(session, text)}
        assert found == {("a", 3.0, -3.0), ("b", 12.0, 1.5), ("b", None, None)}
        (letter,) = letters(session, text)
        assert letter["reason"] == "user_function"
        assert letter["detail"].startswith("ZeroDivisionError: float division by zero")


def test_a_plan_with_functions_travels_to_other_processes(session: Session) -> None:
    rate = 3.0
    session.function("scaled", lambda p: pc.multiply(p, rate), arguments=["DOUBLE"], result="DOUBLE")
    geometric_mean(session)
    program = bind("SELECT geometric_mean(scaled(price)) AS g FROM bid [RANGE 9]", session.catalog)
    plan = cloudpickle.loads(cloudpickle.dumps(program.queries[0].plan))
    call = plan.source.calls[0]
    assert call.user.compute.result(call.user.compute.merge(call.user.compute.initial(2.0), 8.0)) == pytest.approx(4.0)
