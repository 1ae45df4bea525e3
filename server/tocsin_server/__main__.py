"""The command line: ``tocsin-server``, and ``python -m tocsin_server`` without the installed script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C during the imports, which take a second, has no traceback."""
    try:
        from tocsin_server.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
