"""``python -m tocsin_server``: the command line without the installed script."""

from tocsin_server.cli.main import main

if __name__ == "__main__":
    main()
