"""Events of the process: exit, uncaught exceptions, SIGTERM, fork, child processes, late imports."""
