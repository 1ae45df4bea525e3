"""One module for each log format. Each defines ``FORMAT``."""
