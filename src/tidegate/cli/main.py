"""The command line: results on stdout, messages on stderr, and a meaningful exit code.

A command imports its implementation when it runs, so that ``--help`` is fast.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand

from tidegate import __version__
from tidegate.cli.edge import edge
from tidegate.cli.formats import OutputFormat, Runtime, TimesOption
from tidegate.cli.plain_arguments import plain_values
from tidegate.cli.process import collect_garbage_later, leave_out_pandas
from tidegate.cli.serve import serve
from tidegate.cli.sql import sql
from tidegate.errors import TidegateError
from tidegate.runtime.explain_format import ExplainFormat

app = typer.Typer(
    help="Continuous SQL queries over data streams, exact at every instant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the import of Rich would take longer than all else
)

Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
QueryFile = Annotated[Path, typer.Argument(metavar="FILE.sql", help="A file of statements, or - for standard input.")]
RuntimeOption = Annotated[
    Runtime, typer.Option(envvar="TIDEGATE_RUNTIME", help="Where to run: on Spark, or in this process.")
]
Master = Annotated[str, typer.Option(envvar="TIDEGATE_MASTER", help="The Spark master.")]
Buckets = Annotated[int | None, typer.Option(min=1, help="Number of buckets into which keys are hashed.")]


@app.command()
def run(
    query: QueryFile,
    runtime: RuntimeOption = Runtime.SPARK,
    master: Master = "local[*]",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_CHECKPOINT", metavar="DIR", help="Folder or URI of the state; a run resumes from it."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder or URI for results, one folder per query.")
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        OutputFormat | None,
        typer.Option(help="Format of the results; by default a table on stdout and parquet in files."),
    ] = None,
    times: Annotated[
        TimesOption,
        typer.Option(help="Times of the results: ISO 8601 (timestamps in parquet), or integer microseconds."),
    ] = TimesOption.ISO,
    once: Annotated[
        bool, typer.Option("--once", help="Process all available input, emit every result, then exit.")
    ] = False,
    buckets: Buckets = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
    strict: Strict = False,
) -> None:
    """Run the queries in a file.

    Results go to standard output, or with --out to DIR/<query name>/. Rows that
    could not be processed go to DIR/dead_letters/, or are shown on standard
    error.

    Exit codes: 0 for success, 1 for an internal error, 2 for a wrong query, 3
    for an error in the data or a connector or if there are dead letters, 143 if
    SIGTERM stopped the run.

    Ctrl-C or SIGTERM stops the run after the current step. A second signal ends
    it at once.
    """
    from tidegate.cli.queries import SessionArguments, run_queries

    where = SessionArguments(runtime=runtime.value, master=master, buckets=buckets, strict=strict)
    code = run_queries(
        query, where, checkpoint=checkpoint, out=out, shown=format, times=times.value, once=once, quiet=quiet
    )
    if code:
        raise typer.Exit(code)


@app.command()
def explain(
    query: QueryFile,
    format: Annotated[  # noqa: A002 - the name of the option
        ExplainFormat, typer.Option(help="Text for reading; mermaid and dot (Graphviz) for drawing.")
    ] = ExplainFormat.TEXT,
    analyze: Annotated[
        bool,
        typer.Option("--analyze", help="Run the queries on all available input, and add what each operator did."),
    ] = False,
    runtime: RuntimeOption = Runtime.SPARK,
    master: Master = "local[*]",
    buckets: Buckets = None,
) -> None:
    """Print the plans, rules and stages of the queries in a file.

    The queries are not run, except with --analyze, which discards their results.
    """
    from tidegate.cli.queries import SessionArguments, analyze_queries, explain_queries

    if analyze and format is not ExplainFormat.TEXT:
        raise typer.BadParameter("--analyze prints text; leave --format out")
    if analyze:
        where = SessionArguments(runtime=runtime.value, master=master, buckets=buckets, strict=False)
        print(analyze_queries(query, where))
    else:
        print(explain_queries(query, format))


@app.command()
def check(query: QueryFile, strict: Strict = False) -> None:
    """Check the queries in a file, without running them.

    No data is read.
    """
    from tidegate.cli.queries import check_queries

    print("\n".join(check_queries(query, strict=strict)))


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
    """Print the constraints of streams, and what runs found.

    Nothing is run.
    """
    from tidegate.cli.queries import list_constraints

    print(list_constraints(query, checkpoint))


@app.command()
def prepare() -> None:
    """Compile what queries need, so that they start faster.

    This compiles the kernels of all features, and stores the classes of Spark's
    Java process if Spark is installed. It takes a minute or two. Without it, each
    is compiled when it is first needed.
    """
    from tidegate.cli.prepare import prepare_environment

    prepare_environment()


@app.command()
def calibrate() -> None:
    """Measure what the work of operators costs on this machine.

    EXPLAIN COST uses the result, which is kept in the cache folder of the user. It
    takes about a minute, in which the machine should do little else.
    """
    from tidegate.cli.calibrate import calibrate_machine

    calibrate_machine()


app.command()(edge)
app.command()(serve)
app.command()(sql)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        print(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=lambda v: _print_version(wanted=v)
        ),
    ] = False,
) -> None:
    pass


_PLAIN = {each.__name__: each for each in (run, explain, check, constraints)}
"""Commands whose arguments may be read without Typer."""


def _plain_command(words: Sequence[str]) -> TyperCommand | None:
    """Return the command with its arguments, if they are plain."""
    command = _PLAIN.get(words[0]) if words else None
    values = command and plain_values(command, words[1:], os.environ)
    if command is None or values is None:
        return None
    if values.get("analyze") and values["format"] is not ExplainFormat.TEXT:
        return None  # a mistake, of which Typer tells
    if values.get("runtime") is not Runtime.SPARK or values.get("analyze") is False:
        leave_out_pandas()
    return TyperCommand(command.__name__, callback=partial(command, **values), add_help_option=False)


def main() -> NoReturn:
    """Run the command line; print errors to stderr and set the exit code."""
    collect_garbage_later()
    # Without a handler, the root logger would print the messages of libraries. Errors are reported below.
    logging.getLogger().addHandler(logging.NullHandler())
    plain = _plain_command(sys.argv[1:])
    try:
        app() if plain is None else plain(args=[])
    except TidegateError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(error.exit_code)
    finally:
        gc.freeze()  # nothing is left to find, and Python would look through all objects when it exits
    sys.exit(0)


if __name__ == "__main__":
    main()
