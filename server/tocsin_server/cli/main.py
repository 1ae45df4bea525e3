"""The command line ``tocsin-server``: each command reads its settings, does one thing, and reports it."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from tocsin_server import __version__
from tocsin_server.cli.backtest import backtest
from tocsin_server.cli.check import check
from tocsin_server.cli.data import COMMANDS, rehearse_upgrade
from tocsin_server.cli.diagnose import diagnose
from tocsin_server.cli.options import AsJson, Config, DatabaseUrl, DataDir, print_json, settings_of, who
from tocsin_server.cli.reports import postmortem, report
from tocsin_server.cli.rules import rules_app
from tocsin_server.core.errors import StartError, TocsinError
from tocsin_server.core.permissions import Scope, Token, make_token
from tocsin_server.core.settings import load

EXIT_UNUSABLE = 2
"""Exit status if the command could not do its work: settings, database, port, unknown name."""


@contextmanager
def _read_enough() -> Iterator[None]:
    """End with status 0 if the reader of the output, such as ``| head``, has read enough."""
    try:
        yield
    except BrokenPipeError as error:
        raise typer.Exit from error


class Commands(typer.core.TyperGroup):
    """The commands, whose errors do not begin with pydantic's name for them."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parse the command line, which prints the help."""
        with _read_enough():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with _read_enough():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="tocsin-server",
    cls=Commands,
    help="Alerting and live monitoring for training runs: store, check and explain every step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
token_app = typer.Typer(help="Create, list and revoke tokens.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(token_app, name="token")
app.add_typer(rules_app, name="rules")


def main() -> None:
    """Run the command line. Expected errors are one message and exit status 2, without a traceback."""
    try:
        _run()
    except TocsinError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename or 'system'}: {error.strerror or error}")
    except Exception as error:
        from tocsin_server.store.connection import SQLAlchemyError

        if not isinstance(error, SQLAlchemyError):
            raise
        cause = getattr(error, "orig", None) or error
        _fail(f"database: {str(cause).strip().splitlines()[0]}")


def _run() -> None:
    """Run the app, and write what it printed while an error can be handled.

    The interpreter would print such an error at its exit.
    """
    if sys.stdout is None:  # after `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    try:
        app()
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno != errno.EPIPE:
                raise


def _fail(message: str) -> None:
    print(f"tocsin-server: {message}", file=sys.stderr)
    raise SystemExit(EXIT_UNUSABLE)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Settings come from defaults, then tocsin.toml, then TOCSIN_* variables, then these options."""


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. By default 127.0.0.1: this machine only.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on. By default 8321; 0 picks a free port.")
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
    public_url: Annotated[
        str | None, typer.Option(help="URL at which browsers reach the server behind a proxy.")
    ] = None,
    root_path: Annotated[
        str | None,
        typer.Option(help="Path under which a proxy serves tocsin. Default: the path of --public-url."),
    ] = None,
    allow_admin_link: Annotated[
        bool | None,
        typer.Option("--allow-admin-link", help="Accept the printed login link from other machines too."),
    ] = None,
) -> None:
    """Start the server and print its address, the login link and the lines for a training script.

    Beyond loopback (--host 0.0.0.0) it starts only if there are tokens for a training process and for a user
    (see `tocsin-server token create`), or with --allow-admin-link.
    """
    from tocsin_server.app.serve import serve as run_server
    from tocsin_server.app.serve import set_up_logging

    settings = load(
        {
            "host": host,
            "port": port,
            "database_url": database_url,
            "data_dir": data_dir,
            "public_url": public_url,
            "root_path": root_path,
            "allow_admin_link": allow_admin_link,
        },
        config=config,
    )
    set_up_logging()
    raise typer.Exit(run_server(settings, lambda text: print(text, flush=True)))


@app.command()
def demo(
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of each training. By default unlimited.")
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the login link in a browser.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the runs of the last demo.")] = False,
    host: Annotated[str | None, typer.Option(help="As for serve.")] = None,
    port: Annotated[int | None, typer.Option(help="As for serve.")] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Directory for the database and secrets of the demo.")
    ] = Path(".demo"),
    config: Config = None,
) -> None:
    """Start the server with real PyTorch trainings that report to it; in one of them the loss scale
    collapses.
    """
    from tocsin_server.demo.launch import run_demo

    settings = load({"host": host, "port": port, "data_dir": data_dir}, config=config)
    raise typer.Exit(run_demo(settings, steps=steps, open_browser=open_browser, keep=keep))


@app.command()
def migrate(
    rehearse: Annotated[
        bool,
        typer.Option("--rehearse", help="Try the upgrade on a copy, report the result, and change nothing."),
    ] = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Upgrade the database to the newest schema. `serve` does this automatically."""
    from tocsin_server.cli.database import migrated

    settings = settings_of(database_url, data_dir, config)
    if rehearse:
        rehearse_upgrade(settings)
        return
    migrated(settings)
    typer.echo("The database has the newest schema.")


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="Name of the token: who or what will use it.")],
    scope: Annotated[
        Scope | None,
        typer.Option(help="ingest: training processes; read: view; write: acknowledge and edit; admin: all."),
    ] = None,
    project: Annotated[str, typer.Option(help="The only project an ingest token may report to.")] = "",
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Create a token and print it. It is shown only once, and a running server accepts it immediately.

    --scope is required; on a terminal you are asked for it.
    """
    from tocsin_server.cli.database import writing
    from tocsin_server.store import audit
    from tocsin_server.store.tokens import add_token

    try:
        made, secret = make_token(name, scope or _asked_scope(name), project, time.time_ns())
    except ValueError as error:
        raise TocsinError(str(error)) from error
    with writing(settings_of(database_url, data_dir, config)) as connection:
        add_token(connection, made)
        details = {"name": made.name, "scope": made.scope.value, "project": made.project or None}
        audit.note(connection, made.created_ns, who(), "token.create", made.id, details)
    if as_json:
        print_json(_token_data(made) | {"token": secret})
        return
    typer.echo(f"Token {made.id} ({made.scope}) created. It is not shown again:", err=True)
    typer.echo(secret)


@token_app.command("list")
def token_list(
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """List all tokens, including revoked ones, without their secrets."""
    from tocsin_server.cli.database import writing
    from tocsin_server.http.auth.authentication import FILE_TOKENS
    from tocsin_server.store.tokens import tokens

    with writing(settings_of(database_url, data_dir, config)) as connection:
        found = tokens(connection)
    if as_json:
        in_files = (Token(one.id, one.name, one.scope, "", "", 0) for one in FILE_TOKENS)
        print_json([_token_data(token) for token in (*in_files, *found)])
        return
    typer.echo(f"{'ID':<16}{'SCOPE':<8}{'MADE':<12}{'STATE':<9}{'PROJECT':<20}NAME")
    for token in FILE_TOKENS:
        typer.echo(f"{token.id:<16}{token.scope:<8}{'':<12}{'in file':<9}{'any':<20}{token.name}")
    for line in map(_token_line, found):
        typer.echo(line)


@token_app.command("revoke")
def token_revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="As in `token list`; `admin` or `trainer` creates a new one.")
    ],
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Revoke a token. A running server rejects it and its sessions within two seconds."""
    from tocsin_server.cli.database import writing
    from tocsin_server.http.auth.authentication import FILE_TOKENS
    from tocsin_server.store import audit
    from tocsin_server.store.tokens import revoke_token

    settings = settings_of(database_url, data_dir, config)
    for token in FILE_TOKENS:
        if token.id == token_id:
            token.renew(settings.data_dir)
            typer.echo(f"The old {token.name} is revoked; `tocsin-server serve` prints the new one.")
            return
    with writing(settings) as connection:
        now_ns = time.time_ns()
        if not revoke_token(connection, token_id, now_ns):
            raise StartError(f"Token {token_id!r} not found. `tocsin-server token list` shows the ids.")
        audit.note(connection, now_ns, who(), "token.revoke", token_id)
    typer.echo(f"Token {token_id} is revoked.")


for name, command in COMMANDS.items():
    app.command(name)(command)
app.command()(diagnose)
app.command()(backtest)
app.command()(check)
app.command()(report)
app.command()(postmortem)


def _asked_scope(name: str) -> Scope:
    """Ask for the scope of a new token. Raises StartError if there is no terminal to ask on."""
    if sys.stdin.isatty():
        typer.echo("ingest: training processes; read: view; write: acknowledge; admin: all.", err=True)
        known = {scope.value: scope for scope in Scope}
        while True:  # standard output is for the token, and typer.prompt writes to it
            typer.echo(f"Scope ({', '.join(known)}): ", nl=False, err=True)
            line = sys.stdin.readline()
            if not line:
                raise typer.Abort
            if line.strip() in known:
                return known[line.strip()]
            typer.echo(f"There is no scope {line.strip()!r}.", err=True)
    raise StartError(
        f"Token {name!r} needs a scope. For training processes: "
        f"`tocsin-server token create {name} --scope ingest`. To view: `--scope read`. "
        "To acknowledge and edit: `--scope write`. For everything: `--scope admin`."
    )


def _token_data(token: Token) -> dict[str, Any]:
    """Return a token without its secret, with the fields of the HTTP API."""
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope.value,
        "project": token.project or None,
        "created_ms": token.created_ns / 1e6 or None,
        "revoked_ms": None if token.revoked_ns is None else token.revoked_ns / 1e6,
    }


def _token_line(token: Token) -> str:
    made = time.strftime("%Y-%m-%d", time.localtime(token.created_ns / 1e9))
    state = "in force" if token.revoked_ns is None else "revoked"
    return f"{token.id:<16}{token.scope:<8}{made:<12}{state:<9}{token.project or 'any':<20}{token.name}"
