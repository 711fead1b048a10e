"""The command line: results to stdout, words to stderr, and an exit code that tells."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tidegate import __version__
from tidegate.catalog.catalog import Catalog, Program, SourceStream
from tidegate.cli.edge import edge
from tidegate.cli.output import Printer
from tidegate.cli.watch import summary, watch
from tidegate.connectors.sinks import SinkFormat
from tidegate.errors import DataError, QueryError, TidegateError
from tidegate.language.binder import bind
from tidegate.runtime.answers import answers, explain_program, found_by, show_constraints, when_answered
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.explain import ExplainFormat
from tidegate.runtime.shedding import shed_by
from tidegate.runtime.steering import NO_ORDERS, OrdersByOperator
from tidegate.session import RunningQuery, Session

DEAD_LETTERS_EXIT = DataError.exit_code

app = typer.Typer(
    help="Continuous SQL queries over data streams, exact at every instant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

QueryFile = Annotated[Path, typer.Argument(metavar="FILE.sql", help="A file of statements, or - for standard input.")]


class Runtime(StrEnum):
    SPARK = "spark"
    EMBEDDED = "embedded"


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class _Text:
    """A query text, and the folder that its relative paths may refer to."""

    text: str
    base: Path

    def bound(self, *, commands_will_do: bool = False) -> Program:
        program = bind(self.text)
        if not program.queries and not (commands_will_do and program.commands):
            raise QueryError("Q302", "there is nothing to run", hint="add a SELECT statement")
        return replace(program, catalog=_with_base(program.catalog, self.base))


@app.command()
def run(
    query: QueryFile,
    runtime: Annotated[
        Runtime, typer.Option(envvar="TIDEGATE_RUNTIME", help="Where to run: on Spark, or in this process.")
    ] = Runtime.SPARK,
    master: Annotated[str, typer.Option(envvar="TIDEGATE_MASTER", help="The Spark master.")] = "local[*]",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_CHECKPOINT", metavar="DIR", help="Folder or URI of the state; a run goes on from it."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder or URI for results, one folder per query.")
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Format | None, typer.Option(help="Of the results; table on stdout, parquet in files unless given.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Take all that is there, bring out every result, end.")] = False,
    buckets: Annotated[int | None, typer.Option(min=1, help="Parts into which keys are hashed.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Run the queries of a file.

    Results go to standard output, or with --out to DIR/<query name>/; rows that could not take
    part go to DIR/dead_letters/, or are shown on standard error. Ends with 0 if all went well, 2
    if the query is wrong, 3 if the data or a connector failed or rows became dead letters, 1 if
    Tidegate failed.
    """
    shown = format or (Format.TABLE if out is None else Format.PARQUET)
    program = _read(query).bound(commands_will_do=True)
    early, late = when_answered(program)
    if early.commands:
        print(answers(early))
    if not program.queries:
        return
    _check_format(shown, out, program)
    printer = Printer(shown.value, [q.name for q in program.queries], at_once=not once)
    with Session(runtime=runtime.value, master=master, buckets=buckets) as session:
        running = session.run(
            program,
            once=once,
            checkpoint=checkpoint,
            out=out,
            format=_in_files(shown),
            on_rows=printer.add,
        )
        assert running is not None
        _follow(running, printer, quiet=quiet)
        progress = running.progress()
    if late.commands:
        print(answers(late, found_by([progress.steering]), shed_by([progress.steering])))
    if not quiet:
        print(summary(progress, out), file=sys.stderr)
    if progress.dead:
        raise typer.Exit(DEAD_LETTERS_EXIT)


@app.command()
def explain(
    query: QueryFile,
    format: Annotated[  # noqa: A002 - the name of the option
        ExplainFormat, typer.Option(help="Text for reading; mermaid and dot (Graphviz) for drawing.")
    ] = ExplainFormat.TEXT,
) -> None:
    """Print the plans, the rules that made them and the stages of the queries of a file, without running them."""
    print(explain_program(_read(query).bound(), format))


@app.command()
def check(query: QueryFile) -> None:
    """Check the queries of a file, without running them and without looking at the data."""
    program = _read(query).bound()
    for each in program.queries:
        columns = ", ".join(f"{f.name} {f.type.name}" for f in each.plan.schema)
        print(f"{each.name}: {columns}")


@app.command()
def constraints(
    query: QueryFile,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_CHECKPOINT", metavar="DIR", help="Folder or URI of the state of a run over the file."
        ),
    ] = None,
) -> None:
    """Print the constraints of the streams of a file, and what a run found of them, without running anything."""
    orders = [_last_orders(checkpoint)] if checkpoint is not None else []
    print(show_constraints(bind(_read(query).text).catalog, found_by(orders)))


app.command()(edge)


def _version(*, wanted: bool) -> None:
    if wanted:
        print(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=lambda v: _version(wanted=v))
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command; errors are told in words, and by the exit code."""
    try:
        app()
    except TidegateError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(0)


def _follow(running: RunningQuery, printer: Printer, *, quiet: bool) -> None:
    try:
        watch(running, quiet=quiet, enough=lambda: printer.is_cut_off)
    except KeyboardInterrupt:
        print("stopping after the current step …", file=sys.stderr)
        running.stop()
    finally:
        printer.close()


def _last_orders(checkpoint: str) -> OrdersByOperator:
    """What was decided last in the run of a checkpoint."""
    kept = Checkpoint(checkpoint)
    last = kept.last()
    if last is None and kept.identity() is None:
        hint = "give the folder or URI that `tidegate run --checkpoint` was given"
        raise DataError("D306", f"there is no checkpoint at {checkpoint}", hint=hint)
    return last.orders if last is not None else NO_ORDERS


def _read(query: Path) -> _Text:
    if str(query) == "-":
        return _Text(sys.stdin.read(), Path.cwd())
    try:
        return _Text(query.read_text(encoding="utf-8"), query.absolute().parent)
    except OSError as error:
        raise QueryError("Q303", f"the file {query} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise QueryError("Q303", f"the file {query} is not UTF-8 text") from error


def _with_base(catalog: Catalog, base: Path) -> Catalog:
    for stream in list(catalog):
        if isinstance(stream, SourceStream):
            catalog = catalog.with_stream(replace(stream, options=(*stream.options, ("base", str(base)))))
    return catalog


def _in_files(shown: Format) -> SinkFormat:
    match shown:
        case Format.CSV:
            return "csv"
        case Format.JSONL:
            return "jsonl"
    return "parquet"


def _check_format(shown: Format, out: str | None, program: Program) -> None:
    into_files = out is not None or all(q.into is not None for q in program.queries)
    if shown is Format.PARQUET and not into_files:
        raise QueryError("Q304", "parquet cannot be written to standard output", hint="add --out DIR")
    if shown is Format.TABLE and out is not None:
        raise QueryError("Q304", "a table cannot be written to files", hint="--format csv, jsonl or parquet")


if __name__ == "__main__":
    main()
