"""``tocsin login`` and ``tocsin logout``."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING

from .output import print_json
from .parsing import add_json, command

if TYPE_CHECKING:
    from .parsing import Commands


def login(options: argparse.Namespace) -> int:
    """Check and store a server and a token for the terminal commands and tocsin.Api.

    The token is asked for, or read from standard input. Trainings keep using TOCSIN_TOKEN.
    """
    from ..core.login_file import save
    from ..read import Api, ApiError

    if options.server and options.url and options.server != options.url:
        print("tocsin: The server was given twice. Pass URL or --url, not both.", file=sys.stderr)
        return 2
    try:
        token = options.token or _asked()
        with Api(options.server or options.url, token, retries=0) as api:
            session = api.get("/session")
        path = save(api.url, token)
    except (ApiError, OSError, ValueError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2
    if options.json:
        print_json({"url": api.url, "scope": session["scope"], "path": str(path)})
        return 0
    print(f"Logged in to {api.url} with scope {session['scope']}. The token is stored in {path}.")
    return 0


def _asked() -> str:
    given = getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not given.strip():
        raise ValueError("No token was given. `tocsin-server token create NAME --scope read` creates one.")
    return given.strip()


def logout(options: argparse.Namespace) -> int:
    """Delete what tocsin login stored. The tokens stay valid until they are revoked on the server."""
    from ..core.login_file import login_path

    path = login_path()
    found = path.exists()
    path.unlink(missing_ok=True)
    if options.json:
        print_json({"path": str(path) if found else None})
        return 0
    print(f"Deleted {path}." if found else "No login is stored.")
    return 0


def add_commands(commands: Commands) -> None:
    """Add the commands to the parser."""
    logged_in = command(commands, "login", login, server=False)
    logged_in.add_argument("server", nargs="?", metavar="URL", help="the server; default: TOCSIN_URL")
    logged_in.add_argument("--url", help="the server, as for the other commands")
    logged_in.add_argument("--token", help="the token; default: it is asked for")
    add_json(logged_in, "{url, scope, path}")
    add_json(command(commands, "logout", logout, server=False), "{path}, null if no login was stored")
