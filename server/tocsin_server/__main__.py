"""``python -m tocsin_server``: the same as the command ``tocsin-server``."""

from tocsin_server.cli import main

main()
