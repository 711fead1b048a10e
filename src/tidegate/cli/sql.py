"""The `sql` command: a shell for a service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.process import leave_out_pandas
from tidegate.cli.serve import DEFAULT_PORT


def sql(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A file of statements to run, instead of a shell.")
    ] = None,
    url: Annotated[
        str, typer.Option(envvar="TIDEGATE_URL", help="Address of the service.")
    ] = f"http://127.0.0.1:{DEFAULT_PORT}",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token; or set TIDEGATE_TOKEN.")
    ] = None,
) -> None:
    r"""Send statements to a service that `tidegate serve` started.

    On a terminal this is an interactive shell. Statements end with a semicolon
    and may have several lines; Tab completes keywords and names. A SELECT shows
    live results until Ctrl-C, which drops the query. \? lists the commands.

    With a FILE, or without a terminal, statements are run one by one, up to the
    first error. A SELECT is registered, and goes on.

    Exit codes: 0 for success, 1 for an internal error, 2 for a wrong statement,
    3 if the service cannot be reached or the data is wrong, 130 after Ctrl-C.
    """
    from tidegate.cli.extras import require_extra
    from tidegate.cli.tokens import read_token
    from tidegate.client.session import connect

    leave_out_pandas()
    is_interactive = file is None and sys.stdin.isatty()
    if is_interactive:
        require_extra("shell")
    try:
        with connect(url, read_token(token_file)) as session:
            if is_interactive:
                from tidegate.cli.prompt import run_shell

                run_shell(session)
            else:
                from tidegate.cli.shell import Shell
                from tidegate.cli.texts import read_statements

                Shell(session, is_interactive=False).run_text(read_statements(file or Path("-")))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
