"""Commands that ask a server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .waiting_api import WaitingApi


def asking(work: Callable[[WaitingApi, argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Return a command that works with a server; errors of the server are one line, exit status 2."""

    @wraps(work)
    def run(options: argparse.Namespace) -> int:
        from ..read import ApiError
        from .waiting_api import WaitingApi

        try:
            api = WaitingApi(options.url, options.token)
            api.is_shown = not getattr(options, "follow", False)
            with api:
                return work(api, options)
        except BrokenPipeError:
            raise
        except (ApiError, OSError, ValueError) as error:
            print(f"tocsin: {error}", file=sys.stderr)
            return 2

    return run
