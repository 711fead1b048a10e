"""Statements for a service, and their answers as tables: the part of the shell that needs no terminal."""

from __future__ import annotations

import sys

import pyarrow as pa

from tidegate.cli.statements import StatementText, first_word, split_statements
from tidegate.cli.table import AlignedTable, align_table
from tidegate.client.session import RemoteQuery, RemoteSession
from tidegate.errors import QueryError, Span, TidegateWarning
from tidegate.live.answers import Answer

HELP = r"""statements end with a semicolon; SELECT shows live results until Ctrl-C, which drops the query
  \d         list streams, tables and queries
  \d NAME    describe a stream, table or query
  \f NAME    follow the results of a query until Ctrl-C; the query goes on
  \q         quit
  \?         show this"""

_SELECTS = frozenset({"select", "with"})


class Shell:
    """Runs statements and commands, and prints what comes back.

    In an interactive shell, the results of a SELECT are followed; elsewhere it is only registered.
    """

    def __init__(self, session: RemoteSession, *, is_interactive: bool) -> None:
        self._session, self._is_interactive = session, is_interactive

    def run_text(self, text: str) -> bool:
        """Run all statements and commands of a text, one by one; return False to quit."""
        return all(self._run(statement, text) for statement in split_input(text))

    def _run(self, statement: StatementText, whole: str) -> bool:
        if statement.text.startswith("\\"):
            return self._run_command(*statement.text[1:].split(None, 1))
        try:
            if self._is_interactive and first_word(statement.text) in _SELECTS:
                self._select(statement.text)
            else:
                self._print_answers(self._session.execute(statement.text), statement, whole)
        except QueryError as error:
            raise _move_error(error, statement, whole) from None
        return True

    def _run_command(self, command: str = "", argument: str = "") -> bool:
        match command, argument.strip():
            case "q", "":
                return False
            case "?", "":
                print(HELP)
            case "d", "":
                for kind in ("STREAMS", "TABLES", "QUERIES"):
                    self._print_tables(self._session.execute(f"SHOW {kind}"))
            case "d", name:
                self._print_tables(self._session.execute(f"DESCRIBE {name}"))
            case "f", name if name:
                self._follow(self._session.query(name))
            case _:
                raise QueryError("Q513", f"there is no command '\\{command}'", hint=r"\? lists the commands")
        return True

    def _select(self, text: str) -> None:
        """Register a query, show its results until Ctrl-C or its end, then drop it; show a snapshot at once."""
        try:
            query = self._session.follow(text)
        except QueryError as error:
            if error.code != "Q324":
                raise
            self._print_tables(self._session.execute(text))
            return
        _print_messages(query.feed.answers)
        if self._follow(query):
            query.stop()
            print(f"dropped query {query.name}")

    def _follow(self, query: RemoteQuery) -> bool:
        """Show the results of a query; return whether Ctrl-C ended that."""
        shown = AlignedTable(query.feed.schema)
        try:
            for rows in query:
                sys.stdout.write(shown.format_rows(pa.Table.from_batches([rows])))
                sys.stdout.flush()
        except KeyboardInterrupt:
            if not self._is_interactive:
                raise
            print()
            return True
        finally:
            lost = query.feed.dropped
            query.feed.close()
            if lost:
                print(f"{lost:,} rows were lost, because they were not read in time", file=sys.stderr)
        return False

    def _print_answers(self, answers: tuple[Answer, ...], statement: StatementText, whole: str) -> None:
        for answer in answers:
            for warning in answer.warnings:
                print(_move_warning(warning, statement, whole).render(), file=sys.stderr)
        self._print_tables(answers)

    def _print_tables(self, answers: tuple[Answer, ...]) -> None:
        for answer in answers:
            if answer.table is not None:
                print(_table_text(answer.table))
            if answer.table is None or _is_snapshot(answer):
                print(answer.message)
        sys.stdout.flush()


def split_input(text: str) -> list[StatementText]:
    r"""Split a text into statements and commands; a command is a line of its own that begins with a backslash.

    Examples
    --------
    >>> [each.text for each in split_input("SHOW STREAMS;\n\\d bid\nSELECT *\nFROM bid")]
    ['SHOW STREAMS', '\\d bid', 'SELECT *\nFROM bid']
    """
    complete, rest = split_statements(text)
    found: list[StatementText] = []
    for each in [*complete, *([] if rest is None else [rest])]:
        found += _split_commands(each)
    return found


def _split_commands(statement: StatementText) -> list[StatementText]:
    if not statement.text.startswith("\\"):
        return [statement]
    line, _, after = statement.text.partition("\n")
    start = statement.start + len(line) + 1
    following = [StatementText(each.text, start + each.start) for each in split_input(after)]
    return [StatementText(line.rstrip(), statement.start), *following]


def is_complete(text: str) -> bool:
    r"""Return whether a text that is being typed can be run.

    Examples
    --------
    >>> [is_complete(text) for text in ("SELECT 1", "SELECT 1;", "SELECT ';", r"\d", "", "SHOW STREAMS; SELECT")]
    [False, True, False, True, True, False]
    """
    if text.lstrip().startswith("\\"):
        return True
    return split_statements(text)[1] is None


def _print_messages(answers: tuple[Answer, ...]) -> None:
    for answer in answers:
        print(answer.message, file=sys.stderr)


def _is_snapshot(answer: Answer) -> bool:
    """Return whether the message of an answer with a table says more than the table."""
    return answer.instant is not None


def _table_text(table: pa.Table) -> str:
    """Return a table aligned; one column of text as it is."""
    if table.num_columns == 1 and pa.types.is_string(table.schema.types[0]):
        return "\n".join("" if cell is None else cell for cell in table.column(0).to_pylist())
    return align_table(table).rstrip("\n")


def _move_error(error: QueryError, statement: StatementText, whole: str) -> QueryError:
    """Return the error with its place in the whole text."""
    if not error.text:
        return error
    moved = Span(error.span.start + statement.start, error.span.end + statement.start)
    return QueryError(error.code, error.message, moved, text=whole, hint=error.hint)


def _move_warning(warning: TidegateWarning, statement: StatementText, whole: str) -> TidegateWarning:
    if not warning.text:
        return warning
    moved = Span(warning.span.start + statement.start, warning.span.end + statement.start)
    return TidegateWarning(warning.code, warning.message, moved, text=whole, hint=warning.hint)
