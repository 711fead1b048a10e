"""Texts of any size end in a coded error or in a plan, never in an error of Python's own."""

from __future__ import annotations

import pytest

from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.optimizer import rule
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.rule import apply_rule
from tidegate.runtime.commands import explain_program
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.explain_format import ExplainFormat

STREAM = "CREATE STREAM bid (price BIGINT, rate DOUBLE, k BIGINT, at BIGINT) FROM 'bid' TIMESTAMP BY at;\n"
DIGITS = "9" * 5_000


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as error:
        compile_queries(bind(text))
    assert error.value.hint
    assert error.value.span.end > error.value.span.start
    return error.value


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM bid WHERE price < {DIGITS}",
        f"SELECT * FROM bid WHERE rate < {DIGITS}.5",
        f"SELECT * FROM bid WINDOW(RANGE {DIGITS} SECONDS)",
        f"SELECT * FROM bid WINDOW(ROWS {DIGITS})",
        f"SELECT * FROM bid ORDER BY price LIMIT {DIGITS}",
        f"SELECT INTERVAL '{DIGITS} seconds' AS i FROM bid",
    ],
)
def test_a_number_of_thousands_of_digits_is_refused_where_it_stands(query):
    error = refused(STREAM + query + ";")
    assert error.code in ("Q110", "Q111")
    assert len(error.message) < 200


@pytest.mark.parametrize("bound", ["9" * 350, "-" + "9" * 350, "1e999"])
def test_a_bound_of_check_that_no_double_holds_is_refused(bound):
    text = f"CREATE STREAM s (v DOUBLE CHECK (v < {bound}), at BIGINT) FROM 's' TIMESTAMP BY at; SELECT * FROM s;"
    assert refused(text).code in ("Q111", "Q123")


def excepts(number: int) -> str:
    return STREAM + " EXCEPT ".join(["SELECT price FROM bid WINDOW(RANGE 5 SECONDS)"] * (number + 1)) + ";"


def derived(number: int) -> str:
    steps = [
        f"CREATE STREAM d{i + 1} AS SELECT price + 1 AS price FROM d{i} WHERE price > {i};\n" for i in range(number)
    ]
    first = "CREATE STREAM d0 AS SELECT price FROM bid WINDOW(RANGE 5 SECONDS);\n"
    return STREAM + first + "".join(steps) + f"SELECT COUNT(*) AS n FROM d{number};"


def doubled(number: int) -> str:
    steps = [f"CREATE STREAM d{i + 1} AS SELECT a.price FROM d{i} a, d{i} b;\n" for i in range(number)]
    first = "CREATE STREAM d0 AS SELECT price FROM bid WINDOW(RANGE 5 SECONDS);\n"
    return STREAM + first + "".join(steps) + f"SELECT COUNT(*) AS n FROM d{number};"


@pytest.mark.parametrize("text", [excepts(60), derived(100)], ids=["set_operations", "derived_streams"])
def test_deep_queries_compile_and_are_explained(text):
    program = bind(text)
    assert compile_queries(program)[1].stages
    assert "physical plan" in explain_program(program, ExplainFormat.TEXT)


@pytest.mark.parametrize(
    "text", [excepts(200), derived(200), doubled(40)], ids=["set_operations", "derived", "doubled"]
)
def test_queries_beyond_the_limits_are_refused_with_what_to_do(text):
    error = refused(text)
    assert error.code == "Q003"
    assert "INSERT INTO" in (error.hint or "")


def test_too_many_conditions_are_refused_with_what_to_write():
    conditions = " OR ".join(f"price = {i}" for i in range(10_001))
    error = refused(STREAM + f"SELECT * FROM bid WHERE {conditions};")
    assert (error.code, error.message) == ("Q003", "10,001 conditions are linked by OR; at most 10,000 are possible")
    assert "IN (…)" in (error.hint or "")


def test_explain_cuts_long_expressions():
    conditions = " OR ".join(f"price % {i + 2} = 1" for i in range(400))
    shown = explain_program(bind(STREAM + f"SELECT * FROM bid WHERE {conditions};"), ExplainFormat.TEXT)
    assert max(map(len, shown.splitlines())) < 1_100
    assert "characters more)" in shown


def tries_of_a_chain(joins: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a rule is tried while a chain of joins is optimised."""
    tries = []

    def count(*given):
        tries.append(1)
        return apply_rule(*given)

    monkeypatch.setattr(rule, "apply_rule", count)
    windows = ", ".join(f"s WINDOW(RANGE 9) a{i}" for i in range(joins))
    equalities = " AND ".join(f"a{i}.v = a{i + 1}.v" for i in range(joins - 1))
    (query,) = bind(f"{CHAINED} SELECT a0.v FROM {windows} WHERE {equalities}").queries
    optimize(query.plan)
    return len(tries)


CHAINED = "CREATE STREAM s (v INT, at BIGINT) FROM 's' TIMESTAMP BY at;"


def test_a_chain_of_joins_takes_tries_in_proportion_to_its_length(monkeypatch):
    few, many = (tries_of_a_chain(joins, monkeypatch) for joins in (30, 150))
    assert many < 6 * few
