"""Process events: exit, uncaught exceptions, SIGTERM, fork, child processes, late imports."""
