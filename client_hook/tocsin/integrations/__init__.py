"""Training frameworks: callbacks, loggers and trackers. Only the script imports them."""
