"""The `serve` command: a service that keeps queries running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.formats import Runtime
from tidegate.cli.process import leave_out_pandas

DEFAULT_PORT = 8417


def serve(
    checkpoint: Annotated[
        str,
        typer.Option(
            envvar="TIDEGATE_CHECKPOINT",
            metavar="DIR",
            help="Folder or URI of all that the service knows; it continues from there.",
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE.sql]...", help="Statements to run when the checkpoint is new."),
    ] = None,
    runtime: Annotated[
        Runtime, typer.Option(envvar="TIDEGATE_RUNTIME", help="Where to run: on Spark, or in this process.")
    ] = Runtime.SPARK,
    master: Annotated[str, typer.Option(envvar="TIDEGATE_MASTER", help="The Spark master.")] = "local[*]",
    buckets: Annotated[int | None, typer.Option(min=1, help="Number of buckets into which keys are hashed.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = DEFAULT_PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that clients must send; or set TIDEGATE_TOKEN."),
    ] = None,
    allow_path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Folder whose files statements may read and write; may be given several times. "
            "By default the current folder.",
        ),
    ] = None,
    reoptimize: Annotated[
        bool,
        typer.Option(help="Move queries to a better order of their joins, when the rows of sources show that it pays."),
    ] = True,
) -> None:
    """Start a service whose queries come and go while it runs.

    Queries are registered, changed and dropped, and nothing else is disturbed.

    All that is registered is kept in the checkpoint and survives a restart.
    Statements come from FILE.sql, `tidegate sql`, Python (`tidegate.connect`)
    and HTTP (`/openapi.json` describes it).

    The service answers this machine only, unless --host names another address;
    then every request needs the token.

    Ctrl-C or SIGTERM ends the service after the current step. A second signal
    ends it at once.

    Exit codes: 0 for success, 1 for an internal error, 2 for a wrong statement
    or option, 3 for an error in the data or a connector, 143 after SIGTERM. If
    the run fails, /health says so for a few seconds, then the service ends with
    the code of the error.
    """
    from tidegate.cli.extras import require_extra

    require_extra("serve")
    if runtime is Runtime.EMBEDDED:
        leave_out_pandas()
    from tidegate.cli.serve_work import ServeOptions, run_service

    options = ServeOptions(
        runtime=runtime.value,
        master=master,
        checkpoint=checkpoint,
        buckets=buckets,
        host=host,
        port=port,
        token_file=token_file,
        allowed_paths=tuple(allow_path or (str(Path.cwd()),)),
        files=tuple(files or ()),
        reoptimize=reoptimize,
    )
    if code := run_service(options):
        raise typer.Exit(code)
