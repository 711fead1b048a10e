"""The parse table of Lark in the form in which it is stored: a state is decoded when the parser comes to it.

There are a thousand states, of which a query meets a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lark.common import ParserCallbacks
from lark.parsers.lalr_analysis import IntParseTable, Reduce, Shift
from lark.parsers.lalr_parser import LALR_Parser, _Parser

Row = Mapping[str, int]
"""What a state does with each token: n is to shift and go to state n, -1 - n to reduce by rule n of the memo."""


def encode_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table that Lark has serialised in the form in which it is stored."""
    tokens, states = table["tokens"], table["states"]
    rows = [
        {tokens[token]: -1 - arg["@"] if is_reduce else arg for token, (is_reduce, arg) in states[state].items()}
        for state in range(len(states))
    ]
    return {"states": rows, "start_states": table["start_states"], "end_states": table["end_states"]}


class StoredParser:
    """Makes parsers from stored tables, where Lark would use its own class."""

    @staticmethod
    def deserialize(
        data: Mapping[str, Any], memo: Mapping[int, Any], callbacks: ParserCallbacks, debug: Any
    ) -> LALR_Parser:
        make_table: Callable[..., Any] = IntParseTable
        made = LALR_Parser.__new__(LALR_Parser)
        made._parse_table = make_table(LazyStates(data["states"], memo), data["start_states"], data["end_states"])  # noqa: SLF001
        made.parser = _Parser(made._parse_table, callbacks, debug)  # noqa: SLF001
        return made


class LazyStates(dict[int, dict[str, tuple[object, Any]]]):
    """Actions by state and token."""

    def __init__(self, rows: Sequence[Row], memo: Mapping[int, Any]) -> None:
        super().__init__()
        self.rows, self.memo = rows, memo

    def __missing__(self, state: int) -> dict[str, tuple[object, Any]]:
        row = self.rows[state]
        self[state] = {
            name: (Shift, code) if code >= 0 else (Reduce, self.memo[-1 - code]) for name, code in row.items()
        }
        return self[state]

    def items(self) -> Any:
        """Return the states with their tokens, which the lexer wants to know of all states."""
        return enumerate(self.rows)
